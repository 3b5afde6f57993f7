"""Everything that a model is written to, as a `Target`: files, streams, devices, and a storage of the caller's own.

The writer opens the data file if there is one, then the model, and commits both, or aborts.
"""

from __future__ import annotations

import contextlib
import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from onward.errors import InputError
from onward.target import Destination, Target
from onward.write import files


@dataclass(frozen=True)
class WrittenFiles:
    """What was written: the paths of the model and of its data file, if they are files here, and all bytes."""

    path: str | None
    data_path: str | None
    bytes: int

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path in (self.path, self.data_path) if path is not None)


class DescribedTarget(Target, Protocol):
    """A target, and what the writer has to know of it to speak about it."""

    def explaining(self, needed: int) -> AbstractContextManager[None]:
        """Around a write of so many bytes: errors of the system as errors that say what to do."""

    def written(self, count: int, has_data: bool) -> WrittenFiles:
        """What is told of a write that succeeded."""


class PathTarget:
    """Files of this machine, under temporary names until they are complete."""

    def __init__(self, path: str, *, durable: bool) -> None:
        self._path, self._durable = path, durable
        self.name = os.path.basename(path)
        self.data_name: str | None = f"{self.name}.data"
        self._opened: dict[str, files.Replacement] = {}
        self._stack = contextlib.ExitStack()

    def open(self, name: str) -> Any:
        path = self._path if name == self.name else f"{self._path}.data"
        files.check_path(path)
        self._opened[name] = self._stack.enter_context(files.Replacement(path))
        return self._opened[name].file

    def commit(self) -> None:
        model, data = self._opened[self.name], self._opened.get(str(self.data_name))
        for each in self._opened.values():
            each.close(durable=self._durable)
        if data is None:
            model.commit()
        else:
            files.commit_pair(data, model)
        self._stack.close()
        if self._durable:
            files.sync_directory(self._path)

    def abort(self) -> None:
        self._stack.close()

    def explaining(self, needed: int) -> AbstractContextManager[None]:
        return files.told_clearly(self._path, needed)

    def written(self, count: int, has_data: bool) -> WrittenFiles:
        return WrittenFiles(self._path, f"{self._path}.data" if has_data else None, count)


class StreamTarget:
    """A binary file object, which takes one file and keeps what was written when something fails."""

    data_name: str | None = None

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        name = getattr(stream, "name", None)
        self.name = name if isinstance(name, str) else type(stream).__name__

    def open(self, name: str) -> Any:
        return self._stream

    def commit(self) -> None:
        """The bytes are where they belong already."""

    def abort(self) -> None:
        """Nobody can take bytes back from a stream."""

    def explaining(self, needed: int) -> AbstractContextManager[None]:
        return files.told_clearly(self.name, needed, atomic=False)

    def written(self, count: int, has_data: bool) -> WrittenFiles:
        return WrittenFiles(None, None, count)


class DeviceTarget(StreamTarget):
    """A device or a pipe: what is at the path is written to, not replaced."""

    def __init__(self, path: str) -> None:
        self._path = self.name = path

    def open(self, name: str) -> Any:
        self._stream = open(self._path, "wb", buffering=0)  # noqa: SIM115 (commit and abort close it)
        return self._stream

    def commit(self) -> None:
        self._stream.close()

    def abort(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # it could not be opened, or complains once more
            self._stream.close()


class OwnTarget:
    """A storage of the caller's own."""

    def __init__(self, target: Target) -> None:
        self.name, self.data_name = target.name, target.data_name
        self.open, self.commit, self.abort = target.open, target.commit, target.abort

    def explaining(self, needed: int) -> AbstractContextManager[None]:
        return files.told_clearly(self.name, needed, atomic=False, is_path=False)

    def written(self, count: int, has_data: bool) -> WrittenFiles:
        return WrittenFiles(None, None, count)


def target_for(destination: Destination, *, durable: bool = False) -> DescribedTarget:
    """Where a model goes; a destination that cannot be written to is refused."""
    if isinstance(destination, (str, os.PathLike)):
        path = os.fsdecode(destination)
        files.check_path(path)
        return DeviceTarget(path) if files.is_special(path) else PathTarget(path, durable=durable)
    if isinstance(destination, Target):
        _check_own(destination)
        return OwnTarget(destination)
    files.check_stream(destination)
    return StreamTarget(destination)


def _check_own(target: Target) -> None:
    for name, value in (("name", target.name), ("data_name", target.data_name)):
        if not (isinstance(value, str) and value) and not (name == "data_name" and value is None):
            allowed = "the name of a file" + (", or None" if name == "data_name" else "")
            raise InputError(f"{type(target).__name__}.{name} must be {allowed}, not {value!r}")
    if target.name == target.data_name:
        raise InputError(
            f"{type(target).__name__} gives the model and its weights one name, {target.name!r}",
            hint=f"name the file for weights {target.name + '.data'!r}",
        )


def check_destination(destination: object) -> None:
    """Refuse before any work what cannot be written to: a path without a folder, a stream of text."""
    if destination is not None:
        target_for(destination)  # type: ignore[arg-type]  # what it is, is the question
