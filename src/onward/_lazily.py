"""Importing PyTorch takes seconds. `onward --help` and completion in a shell come with no need of it, so it waits.

The first public name that is used brings all of them, in the order of `_public`: nothing depends on which it was.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

_PACKAGE = __name__.rpartition(".")[0]


def __getattr__(name: str) -> Any:
    """What `onward.name` is as long as the package itself does not know."""
    if not name.startswith("__") and importlib.util.find_spec(f"{_PACKAGE}.{name}") is not None:
        return importlib.import_module(f"{_PACKAGE}.{name}")  # alone: who asks may be a module that _public waits for
    if not name.startswith("__") or name == "__all__":
        public = importlib.import_module("._public", _PACKAGE)
        package = vars(sys.modules[_PACKAGE])
        package.update({each: getattr(public, each) for each in public.__all__})
        package["__all__"] = list(public.__all__)
        if name in package:
            return package[name]
    raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    __getattr__("__all__")
    return sorted(vars(sys.modules[_PACKAGE]))
