"""Operators of your own, the way `torch.onnx` has them: `def symbolic(g, x, alpha): return g.op("Elu", x, ...)`."""

from .graph import SymbolicGraph
from .registration import (
    lowers,
    register_custom_op_symbolic,
    registry_for,
    unregister_custom_op_symbolic,
    users,
)
from .values import SymbolicValue

__all__ = [
    "SymbolicGraph",
    "SymbolicValue",
    "lowers",
    "register_custom_op_symbolic",
    "registry_for",
    "unregister_custom_op_symbolic",
    "users",
]
