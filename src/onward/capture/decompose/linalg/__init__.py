"""Linear algebra for which ONNX has no operator, as short algorithms that are traced in the operator's place."""

from . import cholesky, inverses, jacobi, ldl, lu, qr, triangular
from .reference import refer, with_signs
from .table import algorithm_for

__all__ = ["algorithm_for", "refer", "with_signs"]
