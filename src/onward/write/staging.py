"""Files that are checked before they take their names."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator

from onward.write.files import check_path, told_clearly


@contextlib.contextmanager
def publish(target: str | os.PathLike[str]) -> Iterator[str]:
    """A path to write a model to; model and data file move to `target` when the block ends well.

    The staging folder lies beside the target, so that moving is renaming. If the block raises, nothing of it remains
    and what was at the target before is untouched.
    """
    path = os.path.realpath(os.fsdecode(target))
    check_path(path)
    directory, name = os.path.split(path)
    with told_clearly(path, 0):
        staging = tempfile.mkdtemp(prefix=".onward-", dir=directory)
    try:
        yield os.path.join(staging, name)
        with told_clearly(path, 0):
            for written in sorted(os.listdir(staging), key=lambda each: each == name):  # the model last
                os.replace(os.path.join(staging, written), os.path.join(directory, written))
    finally:
        shutil.rmtree(staging, ignore_errors=True)
