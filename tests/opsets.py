"""The opsets that tests export with. All derive from the constants in `onward.options`."""

from __future__ import annotations

from onward.parameters import DEFAULT_OPSET as DEFAULT
from onward.parameters import NEWEST_OPSET as NEWEST
from onward.parameters import OLDEST_OPSET as OLDEST

ALL = tuple(range(OLDEST, NEWEST + 1))

__all__ = ["ALL", "DEFAULT", "NEWEST", "OLDEST"]
