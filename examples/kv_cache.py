"""A decoder with a KV cache in its buffers: exported with `mutable_buffers=True`, and run one token at a time.

    python examples/kv_cache.py [out.onnx]

The cache is two buffers that the model writes to, at positions that are an input. In the file each of them is an input
and, with `_out` after its name, an output: whoever runs the file hands back what came out. `program(...)` does it by
itself, as the model does.
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnxruntime
import torch
from torch import Tensor, nn

import onward

WORDS, WIDTH, HEADS, ROOM = 50, 32, 4, 64


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, HEADS, ROOM, WIDTH // HEADS))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        batch, length, _ = x.shape
        query, key, value = self.qkv(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        self.keys[:, :, positions] = key
        self.values[:, :, positions] = value
        seen = torch.arange(ROOM) <= positions[:, None]  # nobody looks ahead, or at places that are empty
        mixed = nn.functional.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=seen)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))


class Decoder(nn.Module):
    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(ROOM, WIDTH)
        self.layers = nn.ModuleList(Attention() for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(layers))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(positions)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + layer(norm(x), positions)
        return self.head(x[:, -1])


def export(model: nn.Module, file: Path) -> onward.Program:
    """The prompt is as long as it likes: the number of tokens is dynamic."""
    example = (torch.tensor([[1, 2, 3]]), torch.arange(3))
    return onward.export(
        model,
        example,
        file,
        output_names=["logits"],
        dynamic_axes={"tokens": {1: "new"}, "positions": {0: "new"}},
        mutable_buffers=True,
        verify=True,
    )


def generate(step: object, prompt: list[int], count: int) -> list[int]:
    """The likeliest token, again and again; the first step takes the whole prompt."""
    tokens, new = list(prompt), list(prompt)
    for _ in range(count):
        positions = torch.arange(len(tokens) - len(new), len(tokens))
        logits = step(torch.tensor([new]), positions)  # type: ignore[operator]
        new = [int(logits[0].argmax())]
        tokens += new
    return tokens


class Runner:
    """The file alone, in onnxruntime: what comes out as `x_out` goes in as `x` the next time."""

    def __init__(self, file: Path) -> None:
        self.session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        self.names = [output.name for output in self.session.get_outputs()]
        inputs = {each.name: each for each in self.session.get_inputs()}
        self.state = {name: torch.zeros(inputs[name].shape).numpy() for name in inputs if f"{name}_out" in self.names}

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        feeds = {"tokens": tokens.numpy(), "positions": positions.numpy(), **self.state}
        results = dict(zip(self.names, self.session.run(None, feeds), strict=True))
        self.state = {name: results[f"{name}_out"] for name in self.state}
        return torch.from_numpy(results["logits"])


def main(file: Path) -> None:
    torch.manual_seed(0)
    model = Decoder().eval()
    program = export(model, file)
    print(repr(program))
    prompt, count = [7, 8, 9, 10], 12
    with torch.no_grad():
        wanted = generate(model, prompt, count)
    by_program, by_file = generate(program, prompt, count), generate(Runner(file), prompt, count)
    print(f"PyTorch       {wanted}\nthe program   {by_program}\nonnxruntime   {by_file}")
    if not wanted == by_program == by_file:
        sys.exit("they differ")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "kv_cache.onnx"))
