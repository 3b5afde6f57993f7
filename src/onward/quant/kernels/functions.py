"""Functions of one number, through a table of all the integers.

`lookup` is exact where the float function is, bit for bit, the runtime's. onnxruntime computes sigmoid and tanh as the
quotients of polynomials that Eigen uses, and torch does not, so their float32 results differ in half of all cases.
A difference in the last bit is seen after quantisation only next to a tie: about twice in 100,000 entries of a table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper
from torch import Tensor

from ..grids.grid import Grid, dtype_bounds
from ._fma import fma
from .basic import dequantize, quantize

Function = Callable[[Tensor], Tensor]

_SIGMOID_OVER = (
    4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05, 8.51377133304701e-03, 2.48287947061529e-01,
)  # fmt: skip
_SIGMOID_UNDER = (
    6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06, 1.70198817374094e-03, 1.16817656904453e-01,
    9.93151921023180e-01,
)  # fmt: skip
_TANH_OVER = (
    -2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08, 1.48572235717979e-05,
    6.37261928875436e-04, 4.89352455891786e-03,
)  # fmt: skip
_TANH_UNDER = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)


def lookup(q: Tensor, gx: Grid, function: Function, gy: Grid) -> Tensor:
    """function(x), entry by entry of a table.

        f(DequantizeLinear(x)) -> QuantizeLinear

    Sigmoid and LeakyRelu, uint8 or int8, are fused to a table: QLinearSigmoid, QLinearLeakyRelu (com.microsoft). The
    others stay in float between the two. Exact for the functions of this module, and for those that
    `runtime_function` makes. gx has one scale.
    """
    low, high = dtype_bounds(gx.dtype)
    every = torch.arange(low, high + 1, dtype=torch.int32, device=q.device).to(gx.torch_dtype)
    table = quantize(function(dequantize(every, gx)), gy)
    if table.dtype == torch.uint16:  # torch cannot index it
        return table.to(torch.int32)[q.to(torch.int64) - low].to(torch.uint16)
    return table[q.to(torch.int64) - low]


def sigmoid(x: Tensor) -> Tensor:
    """Sigmoid."""
    x = x.clamp(-18, 18)
    square = x * x
    return (_polynomial(square, _SIGMOID_OVER) * x / _polynomial(square, _SIGMOID_UNDER) + 0.5).clamp(0, 1)


def tanh(x: Tensor) -> Tensor:
    """Tanh."""
    x = x.clamp(-9, 9)
    square = x * x
    return _polynomial(square, _TANH_OVER) * x / _polynomial(square, _TANH_UNDER)


def _polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    result = torch.full_like(x, coefficients[0])
    for each in coefficients[1:]:
        result = fma(result, x, torch.tensor(each, dtype=torch.float32, device=x.device))
    return result


def silu(x: Tensor) -> Tensor:
    """Mul(x, Sigmoid(x))."""
    return x * sigmoid(x)


def hardsigmoid(x: Tensor) -> Tensor:
    """HardSigmoid(x, alpha=1/6, beta=0.5): a product and a sum, each rounded. torch divides x + 3 by 6."""
    return (x * torch.tensor(1 / 6, dtype=torch.float32) + 0.5).clamp(0, 1)


def hardswish(x: Tensor) -> Tensor:
    """HardSwish(x), opset 14, or Mul(x, HardSigmoid(x, alpha=1/6, beta=0.5)), which is what the runtime makes of it."""
    return x * hardsigmoid(x)


def leaky_relu(x: Tensor, slope: float = 0.01) -> Tensor:
    """LeakyRelu(x, alpha=slope)."""
    return torch.where(x >= 0, x, x * torch.tensor(slope, dtype=torch.float32))


def runtime_function(op: str, opset: int, **attributes: Any) -> Callable[..., Tensor]:
    """An ONNX operator as onnxruntime computes it: Gelu (opset 20), Elu, Selu, Erf, Exp, Softmax, ...

    Exact, because the runtime itself fills the table. Softplus, Sin and Log are the exceptions: its vector code and
    what it runs for the last few elements of a tensor disagree in the last bit for a few numbers in a thousand.
    What it is called with are floats and whole numbers, and None for an input that is left out.
    """
    settings = tuple(sorted(attributes.items()))

    def function(x: Tensor, *more: Tensor | None) -> Tensor:
        values = [None if each is None else _array(each) for each in (x, *more)]
        kinds = tuple(None if each is None else _kind(each) for each in values)
        given = {f"x{place}": each for place, each in enumerate(values) if each is not None}
        (result,) = _session(op, opset, settings, kinds).run(None, given)
        return torch.from_numpy(result).to(x.device)

    return function


def is_elsewhere(x: Tensor) -> bool:
    """Whether the runtime's kernels, which are those of the processor, have nothing to do with a tensor."""
    return x.device.type != "cpu" or x.numel() == 0


def _array(x: Tensor) -> np.ndarray:
    x = x.detach().cpu()
    return np.ascontiguousarray((x.float() if x.is_floating_point() else x).numpy())


_Kind = tuple[str, tuple[int | None, ...]]  # the type of an input, and its sizes where they have to be known


def _kind(x: np.ndarray) -> _Kind:
    """Whole numbers are sizes: how many there are says how many axes something has."""
    return x.dtype.name, tuple(None if x.dtype == np.float32 else size for size in x.shape)


@lru_cache(maxsize=64)
def _session(op: str, opset: int, attributes: tuple[tuple[str, Any], ...], kinds: tuple[_Kind | None, ...]) -> Any:
    def value(name: str, dtype: str, sizes: tuple[int | None, ...]) -> Any:
        shape = [f"{name}_{axis}" if size is None else size for axis, size in enumerate(sizes)]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    names = ["" if kind is None else f"x{place}" for place, kind in enumerate(kinds)]
    inputs = [value(name, *kind) for name, kind in zip(names, kinds, strict=True) if kind is not None]
    node = helper.make_node(op, names, ["y"], **dict(attributes))
    assert kinds[0] is not None
    graph = helper.make_graph([node], op, inputs, [value("y", *kinds[0])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
