"""Layer norms, by the runtime's own kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper
from torch import Tensor

_OPSET = 17  # the first with a LayerNormalization


def layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, epsilon: float) -> Tensor:
    """A norm over the last axes of float32 numbers.

        LayerNormalization(x, weight, bias, axis=-n)

    Exact, because the runtime computes it: its sums are not torch's to the last bit, and where the result is rounded
    two or three elements in 100,000 would lie on the other side of a tie. Every row is computed for itself, so that
    neither the batch nor the threads matter. On other devices than the processor it is torch's.
    """
    if x.device.type != "cpu" or x.numel() == 0:
        return F.layer_norm(x, list(shape), weight, bias, epsilon)
    scale = torch.ones(list(shape)) if weight is None else weight
    given = {"x": x, "scale": scale, **({} if bias is None else {"bias": bias})}
    session = _session(x.dim(), len(shape), tuple(given), epsilon)
    (result,) = session.run(None, {name: np.ascontiguousarray(each.detach().numpy()) for name, each in given.items()})
    return torch.from_numpy(result)


@lru_cache(maxsize=64)
def _session(rank: int, axes: int, names: tuple[str, ...], epsilon: float) -> Any:
    node = helper.make_node("LayerNormalization", names, ["y"], axis=-axes, epsilon=epsilon)
    ranks = {"x": rank, "y": rank}
    x, y, *others = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * ranks.get(name, axes))
        for name in ("x", "y", *names[1:])
    )
    graph = helper.make_graph([node], "layer_norm", [x, *others], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
