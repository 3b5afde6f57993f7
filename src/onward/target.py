"""What a model is written to: a path, a stream of bytes, or a storage that a class of yours brings."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, Protocol, runtime_checkable


@runtime_checkable
class Target(Protocol):
    """A storage that takes the files of a model: all of them, whole, or none.

    name       the name of the model's file in the storage, such as "model.onnx"
    data_name  the name of the file for weights, such as "model.onnx.data"; the model refers to it by this name. None
               if the storage takes a single file.
    """

    name: str
    data_name: str | None

    def open(self, name: str) -> Any:
        """Start a file of that name. What is returned has `write(data)`, as a binary file object has."""

    def commit(self) -> None:
        """Every file that was opened is complete: put them in place, together."""

    def abort(self) -> None:
        """Something failed, `commit` perhaps: leave nothing of the files, and what was there before as it was."""


Destination = str | os.PathLike[str] | BinaryIO | Target
