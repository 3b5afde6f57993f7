"""A recurrent network of one's own with `scan`: one loop in the file, for sequences of every length.

    python examples/scan_rnn.py [out.onnx]

A cell that ONNX has no operator for (a minimal gated unit with a normalised state), run over time in both directions.
Written as a Python loop it would be unrolled to the example's length. The same model goes through `torch.export` first
as well: an `ExportedProgram` brings its dynamic axes along.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.export import Dim

import onward


class Cell(nn.Module):
    """A minimal gated unit (Zhou et al., 2016), its state normalised."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.gate, self.new = nn.Linear(inputs + width, width), nn.Linear(inputs + width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(torch.cat([x, state], -1)))
        new = torch.tanh(self.new(torch.cat([x, gate * state], -1)))
        return self.norm((1 - gate) * state + gate * new)


class Tagger(nn.Module):
    """A class for every step, from what came before it and what comes after it."""

    def __init__(self, inputs: int = 6, width: int = 16, classes: int = 5) -> None:
        super().__init__()
        self.width = width
        self.forwards, self.backwards = Cell(inputs, width), Cell(inputs, width)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """`x` is [time, batch, inputs]."""
        start = x.new_zeros(x.shape[1], self.width)

        def ahead(state: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
            state = self.forwards(now, state)
            return state, state.clone()

        def back(state: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
            state = self.backwards(now, state)
            return state, state.clone()

        last, before = scan(ahead, start, x)
        _, after = scan(back, start, x, reverse=True)
        return self.head(torch.cat([before, after], -1)), last

    def step_by_step(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The same in plain Python."""
        found = []
        for cell, steps in ((self.forwards, x), (self.backwards, x.flip(0))):
            states = [x.new_zeros(x.shape[1], self.width)]
            for now in steps:
                states.append(cell(now, states[-1]))
            found.append(torch.stack(states[1:]))
        before, after = found
        return self.head(torch.cat([before, after.flip(0)], -1)), before[-1]


def export(model: nn.Module, file: Path) -> onward.Program:
    """The live model."""
    return onward.export(
        model,
        (torch.randn(4, 2, 6),),
        file,
        output_names=["classes", "state"],
        dynamic_axes={"x": {0: "time", 1: "batch"}},
        verify=True,
    )


def export_through_torch(model: nn.Module) -> onward.Program:
    """What `torch.export` made of it."""
    shapes = {"x": {0: Dim("time"), 1: Dim("batch")}}
    return onward.export(torch.export.export(model, (torch.randn(4, 2, 6),), dynamic_shapes=shapes), verify=True)


def main(file: Path) -> None:
    torch.manual_seed(0)
    model = Tagger().eval()
    programs = {"the model": export(model, file), "the ExportedProgram": export_through_torch(model)}
    print(repr(programs["the model"]))
    for time, batch in ((1, 1), (9, 3), (50, 2)):
        x = torch.randn(time, batch, 6)
        with torch.no_grad():
            wanted, _ = model.step_by_step(x)
        for name, program in programs.items():
            off = (program(x)[0] - wanted).abs().max()
            print(f"{time} steps, {batch} at a time, {name}: off by {off:.1e}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tagger.onnx"))
