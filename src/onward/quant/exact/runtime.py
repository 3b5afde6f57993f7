"""Operators as onnxruntime computes them: by the runtime itself, one node at a time."""

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
