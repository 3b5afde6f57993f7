"""Files that are checked before they take their names."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from onward.errors import ExportError
from onward.write.files import Replacement, check_path, commit_pair, told_clearly
from onward.write.stale_temporaries import remove_leftovers, temporary_folder


@contextlib.contextmanager
def publish(target: str | os.PathLike[str]) -> Iterator[str]:
    """A path to write a model to; model and data file take the target's name when the block ends well.

    The staging folder lies beside the target, so that moving is renaming. If the block raises, nothing of it remains
    and what was at the target before is untouched.
    """
    path = os.path.abspath(os.fsdecode(target))
    check_path(path)
    directory, name = os.path.split(path)
    remove_leftovers(path)
    staging = os.path.join(directory, temporary_folder(name))
    with told_clearly(path, 0):
        os.mkdir(staging, 0o700)
    try:
        staged = os.path.join(staging, name)
        with _told_of(path, staged):
            yield staged
        with told_clearly(path, 0), contextlib.ExitStack() as stack:
            model = stack.enter_context(Replacement(path))
            model.adopt(staged)
            if os.path.exists(staged + ".data"):
                data = stack.enter_context(Replacement(path + ".data"))
                data.adopt(staged + ".data")
                commit_pair(data, model)
            else:
                model.commit()
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextlib.contextmanager
def _told_of(path: str, staged: str) -> Iterator[None]:
    """Errors speak of the file that was asked for, not of where it was for a moment."""
    try:
        yield
    except ExportError as error:
        if staged not in error.what:
            raise
        told = type(error)(
            error.what.replace(staged, path),
            op=error.op,
            module=error.module,
            source=error.source,
            hint=error.hint,
            details=error.details,
        )
        if isinstance(error, OSError):
            told.errno = error.errno  # type: ignore[attr-defined]
        raise told from error.__cause__


def can_publish(target: object) -> bool:
    """Whether a target is an ordinary file, or will be one: not a stream, a storage, a device, or a link."""
    if not isinstance(target, (str, os.PathLike)):
        return False
    path = os.fsdecode(target)
    return not os.path.islink(path) and (not os.path.lexists(path) or os.path.isfile(path))
