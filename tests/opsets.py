"""The opsets that tests export with. All derive from the constants in `onward.options`."""

from __future__ import annotations

from onward.options import DEFAULT_OPSET as DEFAULT
from onward.options import NEWEST_OPSET as NEWEST
from onward.options import OLDEST_OPSET as OLDEST

ALL = tuple(range(OLDEST, NEWEST + 1))

__all__ = ["ALL", "DEFAULT", "NEWEST", "OLDEST"]
