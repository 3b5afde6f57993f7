"""Lists with one tensor per turn go on with the length of the loop, and loops over data behind each other are kept."""

from __future__ import annotations

import torch
from torch import nn

import onward


class Scan(nn.Module):
    """As state space models do it: the states of all steps are stacked, and meet the inputs again."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            state = torch.zeros(x.shape[0], 4)
            states = []
            for step in range(x.shape[1]):
                state = torch.tanh(state + self.mix(x[:, step]))
                states.append(state)
            x = x + torch.stack(states, 1)
        return x


class Joined(nn.Module):
    """`torch.cat(list(x))` meets another tensor with as many rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat(list(x * 2)) + x.flatten(0, 1)


class Experts(nn.Module):
    """A loop over the experts that some token has chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(4, 3)
        self.weight = nn.Parameter(torch.randn(3, 4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = nn.functional.one_hot(self.router(x).argmax(-1), num_classes=4).T
        out = torch.zeros_like(x)
        for row in (chosen.sum(1) > 0).nonzero():
            expert = row[0]
            if expert == 3:
                continue
            (tokens,) = torch.where(chosen[expert])
            out.index_add_(0, tokens, x[tokens] @ self.weight[expert])
        return out


def kept(model: nn.Module, example: torch.Tensor, others: list[torch.Tensor], axes: dict[int, str]) -> list[str]:
    program = onward.export(model.eval(), (example,), input_names=["x"], dynamic_axes={"x": axes}, verify=True)
    for each in others:
        torch.testing.assert_close(program(each), model(each))
    return program.warnings


def test_states_of_all_steps_meet_the_inputs() -> None:
    others = [torch.randn(*sizes, 4) for sizes in ((1, 1), (3, 2), (2, 9))]
    notes = kept(Scan(), torch.randn(2, 6, 4), others, {0: "batch", 1: "time"})
    assert len(notes) == 1 and notes[0].endswith("loop kept as Loop")


def test_all_rows_joined_meet_a_tensor() -> None:
    assert not kept(Joined(), torch.randn(3, 2, 4), [torch.randn(n, 2, 4) for n in (1, 2, 7)], {0: "n"})


def test_experts_of_two_layers() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(Experts(), Experts())
    notes = kept(model, torch.randn(12, 4), [torch.randn(n, 4) for n in (1, 2, 20)], {0: "tokens"})
    assert sorted(note.split(": ")[1] for note in notes) == ["`if expert == 3` kept as If", "loop kept as Loop"]
