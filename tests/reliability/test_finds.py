"""What random programs have found, as small as they go. Each was wrong without a word, or did not run, at some size."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import onward
from onward.errors import VerifyError


@dataclass(frozen=True)
class Find:
    """A model, the shape of its example with the size of the axis "n" first, and other sizes of it."""

    model: Callable[[Any], Any]
    shape: Sequence[int]
    sizes: Sequence[int]
    refused: Sequence[int] = ()  # sizes at which the file says that it is not for them
    dtype: torch.dtype = torch.float32

    def input(self, size: int, *, whole: bool = False) -> torch.Tensor:
        torch.manual_seed(size)
        shape = (size, *self.shape[1:])
        return torch.randint(-1, 3, shape).to(self.dtype) if whole else torch.randn(shape).to(self.dtype)


def _first_piece_of_nothing(x: torch.Tensor) -> torch.Tensor:
    return x[1::2].split(1, 0)[0]


def _chunks_of_nothing(x: torch.Tensor) -> torch.Tensor:
    return x[1::2].chunk(3, 0)[0]


def _half_of_one(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x[-2:].chunk(2, 0)[0], torch.cat(x[:2].chunk(2, 0)), torch.unsafe_chunk(x[1:].T, 2, 1)[0]


def _pieces_of_nothing(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row.sum() + 1 for row in x[1::2].split(1, 0)])


def _halves_of_a_slice(x: torch.Tensor) -> torch.Tensor:
    n = x[::2].shape[0]
    while n > 8:
        n = n // 2
    return x * n


def _softmax_of_nothing(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rest = torch.diff(x, dim=0)
    sums = rest.new_zeros(2, 2)
    sums[1:, 0] = rest.flatten(0).mean(0)
    return torch.softmax(x.reshape(-1)[1::2], 0), sums, -x


def _squeezed_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.squeeze(0).add_(1)
    return y[:2, -1:]


def _rows_of_what_is_cut_off(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """At most four rows: the turns of the loop are as many as there are."""
    rows = torch.outer(x.flatten()[:4], x.flatten()[:3])
    return torch.stack([row * 2 if row.sum() > 0 else -row for row in rows]).amin(1), rows.sum(0)


def _hidden_by_a_comparison(x: torch.Tensor) -> torch.Tensor:
    ones = x.eq(1)
    part = ones / (ones * ones + 1)
    return torch.relu(part) if 3 <= x.size(0) < 7 else -part


FINDS = {
    "the first piece of nothing": Find(_first_piece_of_nothing, (5, 6), (1, 2, 3, 9)),
    "chunks of nothing": Find(_chunks_of_nothing, (5, 6), (1, 2, 3, 6, 13)),
    "half of one": Find(_half_of_one, (5, 6), (1, 2, 3, 6)),
    "halves of a slice": Find(_halves_of_a_slice, (5,), (1, 2, 3, 16, 17, 20, 33, 100)),
    "softmax of nothing": Find(_softmax_of_nothing, (4, 1), (2, 3, 8), dtype=torch.float16),
    "squeezed in place": Find(_squeezed_in_place, (4, 3, 2), (2, 3, 7), refused=(1,)),
    "rows of what is cut off": Find(_rows_of_what_is_cut_off, (6,), (1, 2, 3, 4, 9)),
    "hidden by a comparison": Find(_hidden_by_a_comparison, (4, 2), (1, 2, 3, 6, 7, 20)),
}


def test_a_loop_over_the_pieces_of_what_may_be_empty_is_refused() -> None:
    """PyTorch gives one empty piece, and a loop that counts rows has no turn for it."""
    with pytest.raises(onward.ExportError, match="it returns 2 tensors at the example's sizes"):
        onward.export(_pieces_of_nothing, (torch.randn(5, 6),), dynamic_axes={"x": {0: "n"}})


@pytest.mark.parametrize("name", FINDS)
def test_find(name: str) -> None:
    find = FINDS[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onward.export(find.model, (find.input(find.shape[0]),), dynamic_axes={"x": {0: "n"}})
    warned = [str(each.message) for each in caught if issubclass(each.category, onward.CaptureWarning)]
    assert bool(warned) == bool(find.refused), warned
    for size in (find.shape[0], *find.sizes):
        for whole in (False, True):
            x = find.input(size, whole=whole)
            wanted, got = find.model(x), program(x)
            rtol = 1e-2 if find.dtype is torch.float16 else 1e-5
            torch.testing.assert_close(got, wanted, rtol=rtol, atol=rtol, equal_nan=True)
    for size in find.refused:
        with pytest.raises(VerifyError, match="only for sizes where"):
            program(find.input(size))


def test_a_body_does_not_use_a_node_that_onnxruntime_fuses() -> None:
    """`x * 0.5` of a GELU, which is spelled out below opset 20, and of a branch."""

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.nn.functional.gelu(x, approximate="tanh")
        return y.view(y.shape[-1], 1), x - x.mean() if x.shape[0] // 2 > 2 else x * 0.5

    program = onward.export(model, (torch.rand(2),), dynamic_axes={"x": {0: "n"}}, opset_version=17)
    for size in (1, 2, 8):
        x = torch.randn(size)
        torch.testing.assert_close(program(x), model(x))


def test_an_instance_norm_of_nothing_does_not_end_the_process() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.groups = torch.nn.InstanceNorm2d(2, affine=True), torch.nn.GroupNorm(1, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.groups(self.norm(x[:, :, :-1]))

    model = Model()
    program = onward.export(model, (torch.rand(1, 2, 6, 4),), dynamic_axes={"x": {2: "n"}})
    assert "InstanceNormalization" not in {node.op_type for node in program.model.graph}
    for size in (1, 2, 6):
        x = torch.rand(1, 2, size, 4)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
