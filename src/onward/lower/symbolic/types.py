"""What `value.type()` answers in a symbolic function: the types of TorchScript, as far as such functions ask for them.

Helpers that PyTorch ships for these functions ask `isinstance(t, torch._C.TensorType)`. PyTorch's classes cannot be
made or extended from Python, so ours name them as their `__class__`, which is where `isinstance` looks second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onward.capture.program.facts import Dim

# In the order of PyTorch's own numbering, which is what `dtype` arguments of TorchScript are.
SCALAR_TYPES: tuple[tuple[torch.dtype, str], ...] = (
    (torch.uint8, "Byte"), (torch.int8, "Char"), (torch.int16, "Short"), (torch.int32, "Int"), (torch.int64, "Long"),
    (torch.float16, "Half"), (torch.float32, "Float"), (torch.float64, "Double"), (torch.complex32, "ComplexHalf"),
    (torch.complex64, "ComplexFloat"), (torch.complex128, "ComplexDouble"), (torch.bool, "Bool"),
    (torch.qint8, "QInt8"), (torch.quint8, "QUInt8"), (torch.qint32, "QInt32"), (torch.bfloat16, "BFloat16"),
    (torch.float8_e5m2, "Float8E5M2"), (torch.float8_e4m3fn, "Float8E4M3FN"),
    (torch.float8_e5m2fnuz, "Float8E5M2FNUZ"), (torch.float8_e4m3fnuz, "Float8E4M3FNUZ"),
)  # fmt: skip
NAME_OF = dict(SCALAR_TYPES)
CODE_OF = {dtype: code for code, (dtype, _) in enumerate(SCALAR_TYPES)}


class _Type:
    """What all types answer."""

    _kind = "AnyType"

    def kind(self) -> str:
        return self._kind

    def isSubtypeOf(self, other: Any) -> bool:
        return bool(self.kind() == other.kind())

    def str(self) -> str:
        return repr(self)

    annotation_str = property(lambda self: repr(self))


class TensorType(_Type):
    """A tensor: what is known of its dtype and its axes."""

    _kind = "TensorType"

    def __init__(self, dtype: torch.dtype | None, dims: Sequence[Dim | None] | None) -> None:
        self._dtype = dtype
        self.dims = None if dims is None else tuple(dims)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return torch._C.TensorType

    def dtype(self) -> torch.dtype | None:
        return self._dtype

    def scalarType(self) -> Any:
        """`"Float"`, `"Long"`, ...; None if the dtype is not known."""
        return None if self._dtype is None else NAME_OF.get(self._dtype)

    def sizes(self) -> list[int | None] | None:
        """The size of every axis, None for an axis that varies; None if not even their number is known."""
        return None if self.dims is None else [dim if isinstance(dim, int) else None for dim in self.dims]

    varyingSizes = sizes

    def strides(self) -> list[int] | None:
        sizes = self.sizes()
        if sizes is None:
            return None
        steps, step = [], 1
        for size in reversed(sizes):
            steps.append(step)
            if size is None:
                return None
            step *= size
        return steps[::-1]

    def dim(self) -> int | None:
        return None if self.dims is None else len(self.dims)

    def device(self) -> torch.device:
        return torch.device("cpu")

    def requires_grad(self) -> bool:
        return False

    def undefined(self) -> bool:
        return False

    def with_dtype(self, dtype: torch.dtype) -> TensorType:
        return TensorType(dtype, self.dims)

    def with_sizes(self, sizes: Sequence[int | None]) -> TensorType:
        """Other sizes. An axis that varied and still has no size stays the axis it was."""
        known = self.dims if self.dims is not None and len(self.dims) == len(sizes) else (None,) * len(sizes)
        return TensorType(self._dtype, [old if new is None else new for old, new in zip(known, sizes, strict=True)])

    def contiguous(self) -> TensorType:
        return self

    def __repr__(self) -> str:
        name = self.scalarType() or "Tensor"
        sizes = self.sizes()
        return name if sizes is None else f"{name}({', '.join('*' if size is None else str(size) for size in sizes)})"


class ListType(_Type):
    """A list of tensors or of numbers."""

    _kind = "ListType"

    def __init__(self, element: _Type) -> None:
        self._element = element

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return torch._C.ListType

    def getElementType(self) -> _Type:
        return self._element

    def __repr__(self) -> str:
        return f"{self._element!r}[]"


class NoneType(_Type):
    """The type of None."""

    _kind = "NoneType"

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return torch._C.NoneType

    def scalarType(self) -> None:
        return None

    def __repr__(self) -> str:
        return "NoneType"


class PlainType(_Type):
    """A string, or an element of a list of numbers."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._kind = f"{name.capitalize()}Type"

    def dtype(self) -> torch.dtype:
        return {"int": torch.int64, "float": torch.float32, "bool": torch.bool}[self._name]

    def scalarType(self) -> None:
        return None

    def __repr__(self) -> str:
        return self._name
