"""A12: a model of ATen nodes runs on `onward.backend`, with the very results of the module that was exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
import torch.onnx
from torch import nn

import onward
import onward.backend
from onward import OperatorExportTypes as Ours

from .nets import Recurrent
from .running import tensors_in

THEIRS = torch.onnx.OperatorExportTypes
ATEN = [Ours.ONNX_ATEN, Ours.RAW, THEIRS.ONNX_ATEN]
FALLBACK = [Ours.ONNX_ATEN_FALLBACK, Ours.ONNX_FALLTHROUGH, THEIRS.ONNX_ATEN_FALLBACK]


def again(model: Any, example: Any, inputs: Any, kind: Any, file: Path, **options: Any) -> list[torch.Tensor]:
    """What the file gives for other inputs than the example."""
    onward.export(model, example, file, operator_export_type=kind, **options)
    return list(onward.backend.prepare(file).run(list(tensors_in(inputs))))


def assert_same(got: list[torch.Tensor], want: Any) -> None:
    expected = list(tensors_in(want))
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)


def many_arguments(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """None, numbers that float32 does not hold, bools, strings, dtypes, lists with holes in them."""
    image = x.reshape(1, 1, *x.shape)
    return (
        x.clamp(None, 0.1),
        x.clamp(-1e-9, None),
        torch.add(x, x, alpha=0.3),
        x.sum(-1, keepdim=True, dtype=torch.float64),
        x.to(torch.float16),
        x.to(torch.int32).bitwise_and(3),
        torch.full_like(x, 1 / 3, dtype=torch.float64),
        F.pad(image, (1, 2, 0, 1), mode="replicate"),
        F.interpolate(image, scale_factor=(2.0, 1.5), mode="bilinear", align_corners=True),
        F.layer_norm(x, x.shape[-1:]),
        torch.einsum("ij,kj->ik", x, x),
        x[:, None, torch.tensor([0, 2])],
        torch.div(x, 0.7, rounding_mode="floor"),
        *torch.topk(x, 2, dim=-1),
        *torch.var_mean(x, -1, correction=0),
    )


@pytest.mark.parametrize("kind", ATEN, ids=str)
@pytest.mark.parametrize(
    ("model", "example", "inputs"),
    [
        (Recurrent(), torch.randn(2, 3, 4), torch.randn(5, 3, 4)),
        (many_arguments, torch.randn(2, 3), torch.randn(4, 3)),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)), torch.randn(1, 3, 8, 8),
         torch.randn(3, 3, 8, 8)),
        (nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)), torch.randn(2, 8), torch.randn(4, 8)),
        (nn.Embedding(10, 4), torch.tensor([1, 2]), torch.tensor([3, 9, 0])),
    ],
    ids=["recurrent", "arguments", "convolution", "linear", "embedding"],
)  # fmt: skip
def test_results_are_the_same_bit_for_bit(tmp_path: Path, model: Any, example: Any, inputs: Any, kind: Any) -> None:
    if isinstance(model, nn.Module):
        model.eval()
    axes = {"x": {0: "n"}}
    with torch.no_grad():
        want = model(inputs)
    assert_same(again(model, example, inputs, kind, tmp_path / "m.onnx", input_names=["x"], dynamic_axes=axes), want)


@pytest.fixture
def custom() -> Iterator[Any]:
    """Operators that only this process knows: lists, scalars, None, dtypes, strings, several results."""
    library = torch.library.Library("a12_backend", "DEF")
    library.define(
        "mix(Tensor x, Tensor[] others, Tensor? scale=None, *, float alpha=1.0, int[] order=[0], str mode='add', "
        "bool twice=False, ScalarType? dtype=None) -> (Tensor, Tensor)"
    )
    library.define("parts(Tensor x, int[] sizes) -> Tensor[]")
    library.define("scaled(Tensor x, Scalar by, float[] more, bool[] flags, Tensor?[] holes) -> Tensor")

    def mix(  # type: ignore[no-untyped-def]
        x, others, scale=None, *, alpha=1.0, order=(0,), mode="add", twice=False, dtype=None
    ):
        total = x.to(dtype or x.dtype)
        for place in order:
            total = total + alpha * others[place] if mode == "add" else total - alpha * others[place]
        total = total * (scale if scale is not None else 1) * (2 if twice else 1)
        return total, others[-1].clone()

    def scaled(x, by, more, flags, holes):  # type: ignore[no-untyped-def]
        for factor, flag, hole in zip(more, flags, holes, strict=True):
            x = x * factor if flag else x + (0 if hole is None else hole)
        return x * by

    library.impl("mix", mix, "CompositeExplicitAutograd")
    library.impl("parts", lambda x, sizes: [x[:size].clone() for size in sizes], "CompositeExplicitAutograd")
    library.impl("scaled", scaled, "CompositeExplicitAutograd")
    yield torch.ops.a12_backend
    library._destroy()


CALLS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "lists": lambda ops, x: ops.mix(x, [x + 1, x * 2], order=[1, 0, 1]),
    "scale": lambda ops, x: ops.mix(x, [x], x[:1], alpha=0.1),
    "none": lambda ops, x: ops.mix(x, [x], None, mode="sub", twice=True),
    "dtype": lambda ops, x: ops.mix(x, [x], dtype=torch.float64)[0],
    "sizes": lambda ops, x: ops.parts(x, [1, x.shape[0] // 2, x.shape[0]]),
    "scalars": lambda ops, x: ops.scaled(x, 0.1, [0.3, 2.0], [True, False], [None, x]),
    "whole": lambda ops, x: ops.scaled(x, 3, [0.3], [False], [None]),
}


@pytest.mark.parametrize("kind", [*ATEN, *FALLBACK], ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_custom_operators(tmp_path: Path, custom: Any, call: str, kind: Any) -> None:
    def model(x: torch.Tensor) -> Any:
        return CALLS[call](custom, x)

    inputs = torch.randn(6, 3)
    got = again(model, torch.randn(4, 3), inputs, kind, tmp_path / "m.onnx", dynamic_axes={"x": {0: "n"}})
    assert_same(got, model(inputs))


@pytest.mark.parametrize("kind", FALLBACK, ids=str)
def test_nodes_of_both_kinds_in_one_file(tmp_path: Path, custom: Any, kind: Any) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return custom.mix((x * 2).relu(), [x], alpha=0.1)[0].softmax(-1)

    file, inputs = tmp_path / "m.onnx", torch.randn(5, 3)
    got = again(model, torch.randn(2, 3), inputs, kind, file, dynamic_axes={"x": {0: "n"}})
    assert sum(bool(node.domain) for node in onnx.load(file).graph.node) == 1
    assert_same(got, model(inputs))


@pytest.mark.parametrize("kind", list(Ours), ids=str)
def test_every_kind_runs(tmp_path: Path, kind: Ours) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh()).eval()
    inputs = torch.randn(7, 4)
    axes = {"x": {0: "n"}}
    (got,) = again(model, torch.randn(2, 4), inputs, kind, tmp_path / "m.onnx", input_names=["x"], dynamic_axes=axes)
    torch.testing.assert_close(got, model(inputs))


def test_an_operator_that_nobody_registered_is_named(tmp_path: Path) -> None:
    library = torch.library.Library("a12_gone", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    file = tmp_path / "m.onnx"
    onward.export(lambda x: torch.ops.a12_gone.twice(x), torch.randn(2), file, operator_export_type=Ours.ONNX_ATEN)
    model = onnx.load(file)
    library._destroy()
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "operator":
            attribute.s = b"a12_never::twice"
    with pytest.raises(onward.backend.BackendError) as caught:
        onward.backend.prepare(model)
    assert "this PyTorch has no operator a12_never::twice with the overload 'default'" in str(caught.value)
    assert "import the package that defines it first" in str(caught.value)
