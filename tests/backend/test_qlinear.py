"""Operators on quantised tensors, ONNX's and onnxruntime's: equal to onnxruntime to the bit.

Scales are round numbers for the most part, so that many results fall between two integers or next to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper

from onward.backend import prepare

from .judge import judged, one_node

MS = "com.microsoft"
NUMBERS = {np.uint8: T.UINT8, np.int8: T.INT8, np.float32: T.FLOAT}
SEEDS = 8


class Draw:
    """Random tensors of one seed."""

    def __init__(self, seed: int, dtype: Any) -> None:
        self.random = np.random.default_rng(seed)
        self.dtype = dtype

    def q(self, *shape: int, dtype: Any = None) -> Any:
        info = np.iinfo(dtype or self.dtype)
        return np.asarray(self.random.integers(info.min, info.max + 1, shape)).astype(dtype or self.dtype)

    def scale(self, *shape: int, among: Any = (0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.03, 0.0078125, 0.2, 0.0371)) -> Any:
        return self.random.choice(np.array(among, dtype=np.float32), shape or None) * np.ones(shape, np.float32)

    def large(self) -> Any:
        return self.scale(among=(1, 2, 1.5, 2.5, 3, 1.25))

    def bias(self, size: int) -> Any:
        return self.random.integers(-5000, 5000, size).astype(np.int32)

    def real(self, *shape: int) -> Any:
        return self.random.standard_normal(shape, np.float32) * 3


def two(shape_a: tuple[int, ...], shape_b: tuple[int, ...]) -> Callable[[Draw], list[Any]]:
    return lambda d: [d.q(*shape_a), d.scale(), d.q(), d.q(*shape_b), d.scale(), d.q(), d.scale(), d.q()]


def one(*shape: int) -> Callable[[Draw], list[Any]]:
    return lambda d: [d.q(*shape), d.scale(), d.q(), d.scale(), d.q()]


def gemm(a: tuple[int, int], b: tuple[int, int], each: bool, to_float: bool) -> Callable[[Draw], list[Any]]:
    def make(d: Draw) -> list[Any]:
        scale, zero = (d.scale(6), d.q(6, dtype=np.int8)) if each else (d.scale(), d.q(dtype=np.int8))
        inputs = [d.q(*a), d.scale(), d.q(), d.q(*b, dtype=np.int8), scale, zero, d.bias(6)]
        return inputs if to_float else [*inputs, d.large(), d.q()]

    return make


def product(d: Draw) -> list[Any]:
    return [d.q(4, 9), d.scale(), d.q(), d.q(9, 6, dtype=np.int8), d.scale(6), d.q(6, dtype=np.int8), d.large(), d.q()]


def convolution(group: int) -> Callable[[Draw], list[Any]]:
    def make(d: Draw) -> list[Any]:
        weight = d.q(6, 4 // group, 3, 3, dtype=np.int8)
        zeros = np.zeros(6, np.int8)
        return [d.q(2, 4, 7, 8), d.scale(), d.q(), weight, d.scale(6), zeros, d.large(), d.q(), d.bias(6)]

    return make


def softmax(*shape: int) -> Callable[[Draw], list[Any]]:
    low = {np.uint8: 0, np.int8: -128}
    return lambda d: [
        d.q(*shape),
        d.scale(),
        d.q(),
        d.scale(among=(1 / 256, 1 / 255, 0.004)),
        np.array(low[d.dtype], d.dtype),
    ]


def dynamic(d: Draw) -> list[Any]:
    return [d.real(2, 4, 9), d.q(9, 6), d.scale(6), d.q(6), d.real(6)]


def to_float(d: Draw) -> list[Any]:
    return [d.q(2, 4, 9), d.q(9, 6, dtype=np.int8), d.scale(), d.scale(6), d.q(), d.q(6, dtype=np.int8), d.real(6)]


def choice(d: Draw) -> list[Any]:
    condition = d.random.random((4, 30)) > 0.5
    return [condition, d.q(4, 30), d.scale(), d.q(), d.q(30), d.scale(), d.q(), d.scale(), d.q()]


def joined(d: Draw) -> list[Any]:
    return [d.scale(), d.q(), d.q(2, 30), d.scale(), d.q(), d.q(2, 3), d.scale(), d.q()]


POOL: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}
# operator, domain, inputs, attributes, the result's type if it is not the inputs'
ROWS: list[tuple[str, str, Callable[[Draw], list[Any]], dict[str, Any], Any]] = [
    *[
        (op_type, MS, two(a, b), {}, None)
        for op_type in ("QLinearAdd", "QLinearMul")
        for a, b in (((3, 50), (3, 50)), ((3, 50), (1,)), ((1, 1), (3, 50)), ((3, 5, 1), (3, 1, 9)), ((3, 1), (3, 50)))
    ],
    ("QLinearLeakyRelu", MS, one(300), {"alpha": 0.1}, None),
    ("QLinearSigmoid", MS, lambda d: [d.q(300), d.scale(), d.q(), d.scale(among=(1 / 256, 0.004)), d.q()], {}, None),
    ("QLinearConcat", MS, joined, {"axis": 1}, None),
    ("QLinearWhere", MS, choice, {}, None),
    ("QLinearSoftmax", MS, softmax(4, 30), {"opset": 13}, None),
    ("QLinearSoftmax", MS, softmax(2, 7, 5), {"opset": 13, "axis": 1}, None),
    ("QLinearSoftmax", MS, softmax(2, 7, 5), {"opset": 12, "axis": 1}, None),
    ("QLinearAveragePool", MS, one(2, 3, 9, 8), {"kernel_shape": [3, 3]}, None),
    ("QLinearAveragePool", MS, one(2, 3, 9, 8), POOL, None),
    ("QLinearAveragePool", MS, one(2, 3, 9, 8), {**POOL, "count_include_pad": 1}, None),
    ("QLinearAveragePool", MS, one(2, 3, 10), {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}, None),
    ("QLinearAveragePool", MS, one(2, 9, 8, 3), {"kernel_shape": [3, 3], "channels_last": 1}, None),
    ("QLinearAveragePool", MS, one(4, 9, 9, 8), {"kernel_shape": [9, 8]}, None),
    ("QLinearGlobalAveragePool", MS, one(2, 5, 7, 7), {}, None),
    ("QLinearGlobalAveragePool", MS, one(2, 7, 7, 5), {"channels_last": 1}, None),
    ("QGemm", MS, gemm((4, 9), (9, 6), False, False), {}, None),
    ("QGemm", MS, gemm((9, 4), (6, 9), True, False), {"transA": 1, "transB": 1, "alpha": 0.7}, None),
    ("QGemm", MS, gemm((4, 9), (9, 6), True, True), {"alpha": 0.7}, np.float32),
    ("MatMulIntegerToFloat", MS, to_float, {}, np.float32),
    ("DynamicQuantizeMatMul", MS, dynamic, {}, np.float32),
    ("QuantizeLinear", MS, lambda d: [d.real(3, 50), d.scale(3), d.q(3)], {"axis": 0}, None),
    ("DequantizeLinear", MS, lambda d: [d.q(3, 50), d.scale(3), d.q(3)], {"axis": 0}, np.float32),
    ("QuantizeLinear", "", lambda d: [d.real(3, 50), d.scale(), d.q()], {}, None),
    ("DequantizeLinear", "", lambda d: [d.q(3, 50), d.scale(), d.q()], {}, np.float32),
    ("QLinearMatMul", "", product, {}, None),
    ("QLinearConv", "", convolution(1), {"pads": [1, 1, 0, 1]}, None),
    ("QLinearConv", "", convolution(2), {"group": 2, "strides": [2, 1]}, None),
]


@pytest.mark.parametrize("dtype", (np.uint8, np.int8))
@pytest.mark.parametrize(("op_type", "domain", "draw", "attributes", "result"), ROWS, ids=[row[0] for row in ROWS])
def test_equal_to_the_bit(
    op_type: str, domain: str, draw: Any, attributes: dict[str, Any], result: Any, dtype: Any
) -> None:
    for seed in range(SEEDS):
        inputs = {f"x{place}": np.asarray(value) for place, value in enumerate(draw(Draw(seed, dtype)))}
        node = helper.make_node(op_type, list(inputs), ["y"], domain=domain)
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        model = one_node(node, inputs, {"y": NUMBERS[result or dtype]}, {"": 19, MS: 1}, ir_version=9)
        (ours,), (theirs,) = prepare(model).run(inputs), judged(model, inputs)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("factor", (1.0, 0.0, -1.0))
def test_dynamic_quantize_linear(factor: float) -> None:
    for seed in range(SEEDS):
        x = {"x": factor * np.abs(Draw(seed, np.uint8).real(4, 50)) if factor < 1 else Draw(seed, np.uint8).real(4, 50)}
        node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
        model = one_node(node, x, {"y": T.UINT8, "scale": T.FLOAT, "zero": T.UINT8}, {"": 19}, ir_version=9)
        for ours, theirs in zip(prepare(model).run(x), judged(model, x), strict=True):
            np.testing.assert_array_equal(ours, theirs)
