"""Where each weight goes in a data file beside the model: offsets that can be mapped into memory, nothing twice."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

import onnx_ir as ir

from onward.write.tensors import byte_length, identity

PAGE = 4096
LARGE = 1 << 20
LARGE_ALIGNMENT = 64 << 10
"""Windows maps files at multiples of 64 KiB, other systems at pages. Aligning small tensors so would waste the file."""


@dataclass(frozen=True)
class DataRange:
    """A tensor's stretch of the data file."""

    location: str
    offset: int
    length: int


@dataclass
class Layout:
    """Offsets in one data file, given out in the order in which tensors are asked about."""

    location: str
    size_threshold_bytes: int
    size: int = 0
    _places: dict[Hashable, DataRange] = field(default_factory=dict)
    _stored: list[tuple[ir.TensorProtocol, DataRange]] = field(default_factory=list)

    def place(self, tensor: ir.TensorProtocol) -> DataRange | None:
        """Its place, shared with any tensor that is the same memory; None if it is small and stays in the model."""
        length = byte_length(tensor)
        if length == 0 or length < self.size_threshold_bytes:
            return None
        key = identity(tensor)
        if key not in self._places:
            alignment = LARGE_ALIGNMENT if length >= LARGE else PAGE
            offset = -(-self.size // alignment) * alignment
            self._places[key] = DataRange(self.location, offset, length)
            self._stored.append((tensor, self._places[key]))
            self.size = offset + length
        return self._places[key]

    def stored(self) -> Iterable[tuple[ir.TensorProtocol, DataRange]]:
        """Each distinct tensor with its place, by rising offset."""
        return tuple(self._stored)
