"""What a tensor that is made of sizes holds at other sizes."""

from __future__ import annotations

import pytest
import torch

from onward.capture.sizes.shape_tensors import DependsOnData, sizes_at
from onward.operators import reshape_from_tensor_shape, shape_as_tensor

from .tracing import shapes, traced


def test_it_is_computed_from_sizes_alone() -> None:
    def sizes(x: torch.Tensor) -> torch.Tensor:
        shape = shape_as_tensor(x)
        return torch.stack([shape[0] * 2, shape[1] - torch.tensor(1)])

    program = traced(sizes, torch.randn(3, 5), {"x": {0: "n"}})
    (output,) = program.graph.output_node().args[0]
    values = program.axes["n"]
    assert [sizes_at(output, probe, program.constants) for probe in range(len(values))] == [[2 * n, 4] for n in values]


def test_data_is_none_of_it() -> None:
    program = traced(lambda x: shape_as_tensor(x) + x.sum().long(), torch.randn(3, 5), {"x": {0: "n"}})
    (output,) = program.graph.output_node().args[0]
    with pytest.raises(DependsOnData):
        sizes_at(output, 1, program.constants)


def test_a_reshape_follows_it() -> None:
    def flat(x: torch.Tensor) -> torch.Tensor:
        shape = shape_as_tensor(x)
        return reshape_from_tensor_shape(x, torch.stack([shape[0], shape[1] * shape[2]]))

    assert shapes(traced(flat, torch.randn(2, 3, 4), {"x": {0: "n", 1: "m"}})) == [("n", "4*m")]
