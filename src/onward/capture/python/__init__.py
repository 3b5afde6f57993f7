"""The one place that changes what is not ours: Python's builtins, code of functions, attributes of torch, globals.

`ground/threads.py` says what the present thread traces. `patches` puts replacements in place and takes them out again.
A replacement looks at the thread before it acts. In a thread that traces nothing, it does exactly what the original
does. It stays valid for ever: whoever got hold of one (a lambda, a generator, another thread) may go on calling it.
"""

from .patches import Patch, ReplacedForGood, patched

__all__ = ["Patch", "ReplacedForGood", "patched"]
