"""Whether an error of onward's is a crash of onward's in other words."""

from __future__ import annotations

import traceback
from pathlib import Path

import onward
from onward.errors import ExportError, PassError

_ONWARD = Path(onward.__file__).parent


def internal(error: ExportError) -> str:
    """What crashed inside of onward; nothing if the error was meant.

    A crash is an exception that is not onward's own, and that comes from onward's code or from a library that onward
    called: from the innermost frame outward, a line of onward comes before a line of the model. A pass never fails on
    purpose.
    """
    cause: BaseException = error
    while isinstance(cause, ExportError):
        if isinstance(cause, PassError) or cause.__cause__ is None:
            break
        cause = cause.__cause__
    if isinstance(cause, PassError):
        return _told(cause)
    if isinstance(cause, ExportError) or type(cause).__module__.split(".")[0] == "onward":
        return ""
    for frame in reversed(traceback.extract_tb(cause.__traceback__)):
        file = Path(frame.filename)
        if file.name.startswith("fuzzed_"):
            return ""
        if _ONWARD in file.parents:
            return f"{_told(cause)}, at {file.relative_to(_ONWARD)}:{frame.lineno}"
    return ""


def _told(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]
