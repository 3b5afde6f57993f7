"""Whether a file is what it says of itself: onnx's checker, and the types and sizes that are declared for outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import torch

from onward.verify import Session

_TYPES = {
    onnx.TensorProto.FLOAT: torch.float32, onnx.TensorProto.DOUBLE: torch.float64,
    onnx.TensorProto.FLOAT16: torch.float16,
    onnx.TensorProto.BFLOAT16: torch.bfloat16, onnx.TensorProto.INT64: torch.int64, onnx.TensorProto.INT32: torch.int32,
    onnx.TensorProto.INT16: torch.int16, onnx.TensorProto.INT8: torch.int8, onnx.TensorProto.UINT8: torch.uint8,
    onnx.TensorProto.BOOL: torch.bool,
}  # fmt: skip


class ListeningSession(Session):
    """Keeps what the last run gave, output by output."""

    last: Sequence[Any] = ()

    def run(self, inputs: Any) -> Any:
        self.last = super().run(inputs)
        return self.last


def checked(file: bytes) -> tuple[onnx.ModelProto, str]:
    """The file, and what onnx's checker has against it; nothing if it has nothing."""
    proto = onnx.load_from_string(file)
    try:
        onnx.checker.check_model(proto, full_check=True)
    except Exception as error:
        return proto, f"onnx's checker: {str(error).strip().splitlines()[0]}"
    return proto, ""


def misdeclared(proto: onnx.ModelProto, outputs: Sequence[Any], sizes: Mapping[str, int]) -> str:
    """The first output that is not as the file declares it. An axis that has the name of an input's has its size."""
    for declared, found in zip(proto.graph.output, outputs, strict=True):
        kind = declared.type.tensor_type
        if not declared.type.HasField("tensor_type") or not isinstance(found, torch.Tensor):
            continue
        if _TYPES.get(kind.elem_type) is not found.dtype:
            name = onnx.TensorProto.DataType.Name(kind.elem_type)
            return f"output '{declared.name}' is declared as {name} and is {found.dtype}"
        if not kind.HasField("shape"):
            continue
        wanted = [each.dim_value if each.HasField("dim_value") else each.dim_param for each in kind.shape.dim]
        known = [sizes.get(each) if isinstance(each, str) else each for each in wanted]
        fits = len(known) == found.dim() and all(
            size is None or size == have for size, have in zip(known, found.shape, strict=True)
        )
        if not fits:
            return f"output '{declared.name}' is declared with the shape {wanted} and has {list(found.shape)}"
    return ""
