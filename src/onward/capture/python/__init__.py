"""The one place that changes what is not ours: Python's builtins, code of functions, attributes of torch, globals.

`threads` says what the present thread traces. `patches` puts replacements in place and takes them out again. A
replacement looks at the thread before it acts, and does exactly what the original does in a thread that traces nothing.
It stays valid for ever: whoever got hold of one (a lambda, a generator, another thread) may go on calling it.
"""

from .patches import Patch, ReplacedForGood, patched
from .threads import ONE_AT_A_TIME, current, is_tracing, tracing

__all__ = ["ONE_AT_A_TIME", "Patch", "ReplacedForGood", "current", "is_tracing", "patched", "tracing"]
