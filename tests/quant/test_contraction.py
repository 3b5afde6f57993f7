"""Products of tensors along whatever axes are integer products, and equal onnxruntime on every element."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onward.quant import QuantConfig

from .harness import left_in_float, quantized, through_onnxruntime
from .test_exact import CONFIGS


class Between(nn.Module):
    """The function of two activations [2, 6, 8] and of weights."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.one, self.two = nn.Linear(16, 8), nn.Linear(16, 8)
        self.vector, self.matrix = nn.Parameter(torch.randn(8)), nn.Parameter(torch.randn(8, 4))
        self.cube = nn.Parameter(torch.randn(5, 8, 8))

    def forward(self, x: Tensor) -> Any:
        return self.function(self.one(x), self.two(x), self)


PRODUCTS: dict[str, Callable[..., Any]] = {
    "bilinear": lambda a, b, of: F.bilinear(a, b, of.cube, of.cube[:, 0, 0]),
    "bilinear of rows": lambda a, b, of: F.bilinear(a[0], F.relu(b[0]), of.cube),
    "tensordot": lambda a, b, of: (
        torch.tensordot(a, of.matrix, 1),
        torch.tensordot(a, b, ([0, 1], [0, 1])),
        torch.tensordot(a, of.cube, ([-1], [1])),
    ),
    "inner": lambda a, b, of: (torch.inner(a, b[0]), a.inner(of.vector), torch.inner(a, of.matrix.T)),
    "outer": lambda a, b, of: (torch.outer(a[0, 0], b[0, 0]), a[0, 1].outer(of.vector)),
    "dot": lambda a, b, of: (a[0, 0].dot(b[0, 0]), torch.vdot(a[0, 1], of.vector), torch.dot(a[0, 2], tensor=b[0, 2])),
    "vecdot": lambda a, b, of: (torch.linalg.vecdot(a, b), torch.linalg.vecdot(a, b, dim=1)),
    "rows and columns": lambda a, b, of: (
        a[0, 0] @ b.mT,
        a @ b[0, 0],
        of.vector @ b.mT,
        of.matrix.T @ a[0, 0],
        a[0, 0] @ of.matrix,
        torch.mv(a[0], vec=of.vector),
    ),
    "added": lambda a, b, of: (
        torch.addmv(a[0, :, 0], b[0], of.vector),
        torch.addmv(a[0, :, 0], mat=b[0], vec=a[0, 0], beta=0.5),
        torch.addbmm(b[0], a, a.mT @ b),
    ),
    "chains": lambda a, b, of: (
        torch.linalg.multi_dot([a[0, 0], of.matrix, b[0, :4], of.vector]),
        torch.chain_matmul(a[0], of.matrix, b[0, :4]),
        torch.linalg.matmul(a, of.matrix),
    ),
    "einsum of three": lambda a, b, of: torch.einsum("bld,kde,ble->blk", a, of.cube, b),
    "einsum that sums one operand": lambda a, b, of: (
        torch.einsum("bld,bme->bd", a, b),
        torch.einsum("bld,bmd->bl", a, b),
    ),
    "einsum without a sum": lambda a, b, of: (
        torch.einsum("bld,ble->bdle", a, b),
        torch.einsum("bld,d->dbl", a, of.vector),
    ),
    "weights for every batch": lambda a, b, of: (
        torch.addbmm(b[0, :, :4], a, of.matrix.expand(a.shape[0], 8, 4)),
        torch.bmm(a, of.matrix.expand(a.shape[0], 8, 4)),
        a.transpose(0, 1).flatten(1) @ of.matrix.expand(a.shape[0], 8, 4).flatten(0, 1),
    ),
    "einsum of one": lambda a, b, of: (torch.einsum("bld->db", a), torch.einsum("bld->dlb", b)),
}


@pytest.mark.parametrize("config", ["default", "powers of two"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_one_of_integers(name: str, config: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Between(PRODUCTS[name]), lambda: torch.randn(2, 6, 16), CONFIGS[config])
    outcome = through_onnxruntime(
        model,
        torch.randn(2, 6, 16),
        tmp_path,
        fresh=torch.randn(3, 7, 16),
        dynamic_axes={"x": {0: "n", 1: "l"}},
    )
    assert outcome.equal == 1
    assert left_in_float(outcome) == {}
    assert outcome.fused["Einsum"] == 0


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_what_it_was_in_float(name: str) -> None:
    torch.manual_seed(0)
    model, x = Between(PRODUCTS[name]), torch.randn(2, 6, 16)
    with torch.no_grad():
        wanted = model(x)
    model = quantized(model, lambda: x)
    for got, want in zip(flat(model(x)), flat(wanted), strict=True):
        assert got.shape == want.shape
        assert float((got - want).detach().norm() / want.norm()) < 0.05
    sum(each.square().sum() for each in flat(model.train()(x))).backward()  # type: ignore[union-attr]
    assert all(bool(each.grad.isfinite().all()) for each in model.parameters() if each.grad is not None)


def flat(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def test_diagonals_and_stretched_sums_stay_in_float(tmp_path: Path) -> None:
    def diagonals(a: Tensor, b: Tensor, of: Any) -> Any:
        return torch.einsum("bii->bi", a[:, :5, :5]), torch.einsum("bld,bmd->blm", a, b[..., :1])

    torch.manual_seed(0)
    model = quantized(Between(diagonals), lambda: torch.randn(2, 6, 16), QuantConfig())
    outcome = through_onnxruntime(model, torch.randn(2, 6, 16), tmp_path, fresh=torch.randn(2, 6, 16))
    assert outcome.close == 1
    assert outcome.fused["Einsum"] == 1  # of the sum; a diagonal is a view


def test_a_layer_of_two_inputs(tmp_path: Path) -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pair = nn.Bilinear(6, 10, 7)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return F.relu(self.pair(x, y))

    def example() -> tuple[Tensor, Tensor]:
        return torch.randn(4, 6), torch.randn(4, 10)

    torch.manual_seed(0)
    outcome = through_onnxruntime(quantized(Pair(), example), example(), tmp_path, fresh=example())
    assert outcome.equal == 1
    assert left_in_float(outcome) == {}
    assert outcome.fused["QGemm"] + outcome.fused["QLinearMatMul"] == 2
