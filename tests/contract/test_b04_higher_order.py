"""B4: PyTorch's own control flow, with both sides and the body kept."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import onward

from .control import OPSETS, check, kinds


class Choice(torch.nn.Module):
    """Closes over parameters, and over a value from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outer = x * 2

        def inner(y: torch.Tensor) -> torch.Tensor:
            return torch.cond(y.max() > 3, lambda y: y - 1, lambda y: y * outer, (y,))

        return torch.cond(x.sum() > 0, lambda x: inner(self.first(x)).relu(), lambda x: self.second(x) + outer, (x,))


@pytest.mark.parametrize("opset", OPSETS)
def test_cond(opset: int) -> None:
    torch.manual_seed(0)
    others = [(torch.full((rows, 4), value),) for rows, value in ((1, 20.0), (3, 0.1), (5, -1.0))]
    program = check(Choice().eval(), (torch.ones(2, 4),), others, dynamic_axes={"x": {0: "batch"}}, opset_version=opset)
    assert kinds(program).count("If") == 1
    assert program.outputs[0].shape == ("batch", 4)


def test_cond_with_sides_of_different_size() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.shape[0] > 3, lambda x: x[:2] + 1, lambda x: torch.cat([x, x]), (x,))

    def reference(x: torch.Tensor) -> torch.Tensor:
        return x[:2] + 1 if x.shape[0] > 3 else torch.cat([x, x])

    others = [(torch.randn(rows, 4),) for rows in (1, 2, 4, 9)]
    program = onward.export(forward, (torch.randn(3, 4),), dynamic_axes={"x": {0: "batch"}})
    for inputs in others:
        torch.testing.assert_close(program(*inputs), reference(*inputs))
    size, last = program.outputs[0].shape  # known at every size, but no formula of "batch" gives it
    assert str(size).startswith("batch_") and last == 4


@pytest.mark.parametrize("opset", OPSETS)
def test_while_loop(opset: int) -> None:
    def newton(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def going(count: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return ((y * y - x).abs().max() > 1e-3) & (count < 30)

        def better(count: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return count + 1, (y + x / y) * 0.5

        return while_loop(going, better, (torch.tensor(0), x.clone()))

    others = [(torch.ones(2),), (torch.tensor([4.0, 90.0, 2.0]),)]  # no turn at all, and more than the example takes
    program = check(newton, (torch.tensor([2.0, 3.0]),), others, dynamic_axes={"x": {0: "n"}}, opset_version=opset)
    assert kinds(program).count("Loop") == 1


@pytest.mark.parametrize("opset", OPSETS)
def test_scan(opset: int) -> None:
    torch.manual_seed(0)
    cell = torch.nn.GRUCell(3, 4)

    def recurrent(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def step(state: torch.Tensor, each: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            state = cell(each, state)
            return state, state.sum(1)

        return scan(step, torch.zeros(x.shape[1], 4), x)

    program = check(
        recurrent,
        (torch.randn(3, 2, 3),),
        [(torch.randn(1, 1, 3),), (torch.randn(7, 4, 3),)],
        dynamic_axes={"x": {0: "time", 1: "batch"}},
        opset_version=opset,
    )
    assert [port.shape for port in program.outputs] == [("batch", 4), ("time", "batch")]


@pytest.mark.parametrize("opset", OPSETS)
def test_map_with_a_branch_inside(opset: int) -> None:
    def rows(x: torch.Tensor) -> torch.Tensor:
        return torch_map(lambda r: torch.cond(r.sum() > 0, lambda r: r * 2, lambda r: -r, (r,)), x)

    def reference(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.sum(1, keepdim=True) > 0, x * 2, -x)

    check(rows, (torch.randn(3, 4),), [(torch.randn(9, 4),)], reference=reference, dynamic_axes={"x": {0: "n"}},
          opset_version=opset)  # fmt: skip


def test_associative_scan() -> None:
    def sums(x: torch.Tensor) -> torch.Tensor:
        return associative_scan(lambda a, b: a + b, x, dim=1, reverse=True, combine_mode="generic")

    program = onward.export(sums, (torch.randn(2, 3),), dynamic_axes={"x": {1: "n"}})
    for n in (1, 2, 8):
        x = torch.randn(2, n)
        torch.testing.assert_close(program(x), x.flip(1).cumsum(1).flip(1), rtol=1e-4, atol=1e-5)


def test_branches_that_do_not_fit_together() -> None:
    def different(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x, lambda x: x.long(), (x,))

    with pytest.raises(onward.CaptureError) as caught:
        onward.export(different, (torch.ones(2),))
    line = different.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        "the two branches return tensors of different kinds, float32[2] and int64[2]\n"
        f"  at {__file__}:{line}\n"
        "  return tensors of one dtype and one number of axes from both"
    )
