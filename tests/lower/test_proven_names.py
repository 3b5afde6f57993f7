"""Names of intermediate dimensions: only where they are true at every size."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import pytest
import torch
import torch.nn.functional as F

import onward
from onward.onnx_operators.propagation import propagate

TABLE = torch.randn(1, 9, 4)


def _padded(x: torch.Tensor) -> torch.Tensor:
    """As VITS does it: relative positions, padded where the text is long and cut where it is short."""
    length = x.shape[1]
    pad, start = max(length - 5, 0), max(5 - length, 0)
    positions = F.pad(TABLE, [0, 0, pad, pad])
    return x @ positions[:, start : start + 2 * length - 1].transpose(1, 2)


def _shapes(program: Any, op: str) -> list[list[int | str | None]]:
    values = [node.outputs[0] for node in program.model.graph if node.op_type == op]
    return [[dim if isinstance(dim, int) else dim.value for dim in value.shape] for value in values]


def test_sizes_that_differ_on_short_axes_alone_have_different_names() -> None:
    x = torch.randn(2, 7, 4)
    program = onward.export(_padded, (x,), dynamic_axes={"x": {0: "b", 1: "L"}})
    assert _shapes(program, "Pad") == [[1, "L_2", 4]]
    assert _shapes(program, "Slice") == [[1, "2*L - 1", 4]]
    for length in (1, 4, 5, 6, 12):
        sized = torch.randn(3, length, 4)
        torch.testing.assert_close(program(sized), _padded(sized))


def test_a_table_that_ends_is_not_as_long_as_the_axis_until_both_are_added() -> None:
    table = torch.randn(50, 4)
    example = torch.randn(2, 7, 4)
    program = onward.export(lambda x: (x + table[: x.shape[1]]).relu(), (example,), dynamic_axes={"x": {1: "n"}})
    assert _shapes(program, "Slice") == [["n_1", 4]]
    assert _shapes(program, "Add") == [[2, "n", 4]]


@pytest.mark.filterwarnings("ignore")
def test_a_range_may_be_longer_at_a_point_than_any_tensor() -> None:
    def positions(x: torch.Tensor) -> torch.Tensor:
        return torch.arange(x.chunk(2, -1)[0].numel()) + x.sum()

    axes = {"x": {0: "a", 1: "b", 2: "c"}}
    program = onward.export(positions, (torch.randn(5, 5, 4),), dynamic_axes=axes, verify=False)
    x = torch.randn(3, 6, 8)
    torch.testing.assert_close(program(x), positions(x))


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x.relu().transpose(1, 2).flatten(1) * 2, ["b", "4*n"]),
        (lambda x: x.reshape(x.shape[0] * x.shape[1], 4).relu() * 2, ["b*n", 4]),
        (lambda x: torch.cat([x, x[:, :1]], 1) * 2, ["b", "n + 1", 4]),
        (lambda x: F.avg_pool1d(x.transpose(1, 2), 3, 1, 1) * 2, ["b", 4, "n"]),
        (lambda x: x.new_zeros(x.shape[1], 2 * x.shape[0]) * 2 + x.sum(), ["n", "2*b"]),
    ],
)
def test_names_that_follow_from_what_operators_do_stay(function: Any, shape: list[int | str]) -> None:
    program = onward.export(function, (torch.randn(2, 7, 4),), dynamic_axes={"x": {0: "b", 1: "n"}})
    values = [value for node in program.model.graph for value in node.outputs]
    inner = [value.shape for value in values if not value.is_graph_output() and isinstance(value.shape, ir.Shape)]
    said = [[dim if isinstance(dim, int) else dim.value for dim in dims] for dims in inner]
    assert shape in said
    assert not any(None in dims for dims in said)


def test_a_slice_of_more_than_64_bits() -> None:
    """A size that stands for an unknown one is large, and a product of such sizes is larger."""
    attributes = {"starts": [1], "ends": [-1], "axes": [0]}
    assert propagate("Slice", [(10**24,)], [None], attributes, 1) == [(10**24 - 2,)]


@pytest.mark.parametrize("opset", [9, 20])
def test_flat_writes_and_rolls_over_two_axes(opset: int) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.clone()
            y.flatten()[0] = 7.0
            y[0, ...] = y[-1]
            return y.roll(1)

    axes = {"x": {1: "length", 2: "width"}}
    onward.export(Model(), (torch.randn(2, 5, 2),), dynamic_axes=axes, opset_version=opset, verify=True)
