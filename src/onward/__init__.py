"""onward: from PyTorch to ONNX in one forward pass."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._public import *  # noqa: F403
    from ._public import __all__
else:
    from ._lazily import __dir__, __getattr__  # the same names, when the first of them is used

__version__ = "0.1.0"
