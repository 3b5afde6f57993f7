"""Files that appear whole or not at all, and errors that say what to do.

Everything is written to temporary files in the target's own directory and renamed into place when complete. With a
data file there are two renames, the data first. If anything goes wrong between them in this process, an interrupt
included, the old data file is put back. What remains is the process being killed, or the machine losing power, in the
microseconds between the two renames: then the old model would sit beside the new data. Temporary files of a process
that was killed are removed by the next one that writes the same file (`leftovers.py`).
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, BinaryIO

from onward.errors import InputError, WriteError
from onward.write.stale_temporaries import remove_leftovers, temporary_name

_GATHER_BYTES = 256 << 10  # smaller writes are collected up to this size
_SLICE_BYTES = 16 << 20  # larger ones are cut, so that progress is told and an interrupt is heard
_OTHER_FOLDER = "choose a directory that you may write to"


class Sink:
    """Writes all of what it is given: gathers small pieces, cuts large ones, finishes partial writes."""

    def __init__(self, target: Any, on_bytes: Callable[[int], None]) -> None:
        self._write = target.write
        self._on_bytes = on_bytes
        self._gathered = bytearray()
        self._none_means_blocked = isinstance(target, io.RawIOBase)
        # A writer of unknown make might keep what it is handed; it gets copies, not views of live memory.
        self._copy = not isinstance(target, io.IOBase)
        self.position = 0

    def write(self, data: bytes | memoryview) -> None:
        self.position += len(data)
        if len(self._gathered) + len(data) <= _GATHER_BYTES:
            self._gathered += data
            return
        self.flush()
        if len(data) <= _GATHER_BYTES:
            self._gathered += data
        else:
            self._write_through(memoryview(data))

    def pad_to(self, position: int) -> None:
        self.write(bytes(position - self.position))

    def flush(self) -> None:
        if self._gathered:
            gathered, self._gathered = bytes(self._gathered), bytearray()
            self._write_through(memoryview(gathered))

    def _write_through(self, view: memoryview) -> None:
        while len(view):
            part = view[:_SLICE_BYTES]
            written = self._write(bytes(part) if self._copy else part)
            if written is None:
                if self._none_means_blocked:
                    raise BlockingIOError(errno.EAGAIN, "the target does not accept more data without waiting")
                written = len(part)
            if not 0 < written <= len(part):
                raise OSError(errno.EIO, f"the target took {written} of {len(part)} bytes")
            view = view[written:]
            self._on_bytes(written)


class Replacement:
    """A temporary file that becomes `path` on `commit`, and vanishes if it never does.

    It has the mode an ordinary new file would have, or that of the file it replaces. A symbolic link is followed:
    what it points to is replaced.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        directory, name = os.path.split(self.path)
        self._temporary = os.path.join(directory, temporary_name(name))
        self._backup = self._temporary[: -len("tmp")] + "old"
        self.file: BinaryIO | None = None

    def __enter__(self) -> Replacement:
        remove_leftovers(self.path)
        try:
            self.file = open(self._temporary, "xb", buffering=0)
            with contextlib.suppress(FileNotFoundError):
                os.chmod(self._temporary, stat.S_IMODE(os.stat(self.path).st_mode))
        except BaseException:
            self._discard()
            raise
        return self

    @property
    def pending(self) -> bool:
        return os.path.exists(self._temporary)

    def close(self, *, durable: bool) -> None:
        if self.file is not None:
            if durable:
                os.fsync(self.file.fileno())
            self.file.close()

    def adopt(self, written: str) -> None:
        """Take a finished file of the same file system as the content."""
        self.close(durable=False)
        mode = stat.S_IMODE(os.stat(self._temporary).st_mode)
        os.replace(written, self._temporary)
        os.chmod(self._temporary, mode)

    def commit(self, *, keep_old: bool = False) -> None:
        """Rename into place; with `keep_old`, `roll_back` can still undo it."""
        if keep_old and os.path.exists(self.path):
            try:
                os.link(self.path, self._backup)
            except OSError:  # a file system without hard links
                os.replace(self.path, self._backup)
        os.replace(self._temporary, self.path)
        remove_leftovers(self.path, backups=True)

    def roll_back(self) -> None:
        """Bring the old file back if the new one has taken its place; without an old one, remove the new one."""
        if os.path.exists(self._backup):
            os.replace(self._backup, self.path)
        elif not self.pending:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    def _discard(self) -> None:
        if self.file is not None:
            with contextlib.suppress(OSError):  # a full disk may complain once more; the file goes anyway
                self.file.close()
        for leftover in (self._temporary, self._backup):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(leftover)

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self._discard()


def commit_pair(data: Replacement, model: Replacement) -> None:
    """Rename both, the data first; on any failure in between, neither."""
    try:
        data.commit(keep_old=True)
        model.commit()
    except BaseException:
        if model.pending:  # otherwise an interrupt came just after the second rename, and the new pair is complete
            data.roll_back()
        raise


def sync_directory(path: str) -> None:
    """Make renames survive a power cut. Not every system lets a directory be opened; those need no such call."""
    if os.name != "posix":
        return
    descriptor = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_path(path: str) -> None:
    """What can be known to fail before any work is done."""
    if not path or "\0" in path:
        raise InputError(f"{path!r} is not the name of a file", hint="give a path, such as 'model.onnx'")
    directory = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise _tell(errno.EISDIR, f"cannot write '{path}': it is a directory", "give the name of a file in it")
    if not os.path.basename(path):
        raise _tell(errno.EISDIR, f"cannot write '{path}': it names a directory", "add the name of a file")
    if not os.path.isdir(directory):
        exists = os.path.lexists(directory)
        number = errno.ENOTDIR if exists else errno.ENOENT
        reason = f"'{directory}' is not a directory" if exists else f"the directory '{directory}' does not exist"
        raise _tell(number, f"cannot write '{path}': {reason}", "create it first, or choose another path")
    # A device or a pipe is opened, a file is replaced: that takes the right to write to its folder.
    needed = path if is_special(path) else directory
    if not os.access(needed, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise _tell(errno.EACCES, f"cannot write '{path}': no permission to write to '{needed}'", _OTHER_FOLDER)


def is_special(path: str) -> bool:
    """Whether something other than a file is there: a pipe or a device, to be written to and not replaced."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def check_stream(target: Any) -> None:
    if not callable(getattr(target, "write", None)):
        raise InputError(
            f"cannot write a model to {target!r} of type {type(target).__name__}",
            hint="give a path or a file opened for binary writing",
        )
    if isinstance(target, io.TextIOBase):
        raise InputError("the target file was opened in text mode", hint="open it for binary writing: open(path, 'wb')")


@contextlib.contextmanager
def told_clearly(name: str, needed: int, *, atomic: bool = True, is_path: bool = True) -> Iterator[None]:
    """Turn the system's errors into ones that name the file, the space it needs and the way out."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        raise _explain(error, name, needed, atomic, is_path) from error


def _explain(error: OSError, name: str, needed: int, atomic: bool, is_path: bool) -> WriteError:
    reason = error.strerror or str(error)
    if not is_path:
        hint = "nothing was committed to the storage"
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        if atomic or os.path.isfile(name):  # a device has no space of its own
            with contextlib.suppress(OSError):
                reason += f" ({readable(shutil.disk_usage(os.path.dirname(os.path.realpath(name))).free)} free)"
        hint = "free some space, or choose a path on another disk"
        hint += "; nothing was left behind, and a file that was there before is untouched" if atomic else ""
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = _OTHER_FOLDER
    elif error.errno == errno.EFBIG:
        hint = "choose a path on a file system that takes files of this size"
    else:
        hint = "choose another path"
    size = f" ({readable(needed)})" if needed else ""
    return _tell(error.errno, f"cannot write '{name}'{size}: {reason}", hint)


def _tell(number: int | None, what: str, hint: str) -> WriteError:
    error = WriteError(what, hint=hint)
    error.errno = number
    return error


def readable(count: int) -> str:
    """1536 -> '1.5 KiB'."""
    size, units = float(count), ["bytes", "KiB", "MiB", "GiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{count} bytes" if units[0] == "bytes" else f"{size:.1f} {units[0]}"
