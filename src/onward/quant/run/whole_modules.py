"""Modules that are one function, whatever functions their code is made of.

Libraries write norms and activations out (`x * rsqrt(mean(x ** 2) + eps) * weight`, `0.5 * x * (1 + tanh(...))`).
Rounding after each of these steps costs accuracy and time; in float from grid to grid they are what `F.rms_norm` and
`F.gelu` are, and runtimes recognise them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from torch import Tensor, nn

from ..exact.integers import lookup, table_of
from ..grids.grid import Grid
from ..grids.sites import PREFIX

# RMSNorm, T5LayerNorm, LlamaRMSNorm, NewGELUActivation, QuickGELU, FastGELUActivation, Swish, ...
_NAMES = re.compile(r"(?P<norm>(RMS|Layer)Norm$)|(GELU|SiLU|Swish|Mish|Relu2|ReLUSquared)(Activation)?$")


def is_one_function(module: nn.Module) -> bool:
    """Whether a module's name says so, and nothing speaks against it: it has no modules inside, no matrix to multiply
    with, and is none of PyTorch's, which call one function as they are."""
    kind = type(module)
    if _NAMES.search(kind.__name__) is None or kind.__module__.startswith("torch.nn."):
        return False
    if isinstance(module, (nn.LayerNorm, nn.RMSNorm, nn.GELU, nn.SiLU)):
        return False
    return not module._modules and all(each is None or each.dim() <= 1 for each in module._parameters.values())


def by_table(module: nn.Module, q: Tensor, grid: Grid, result: Tensor) -> Callable[[Grid], Tensor] | None:
    """What makes the integers of such a module's result of those that it got, if it computes every value by itself, and
    all in the same way; None for norms."""
    found = _NAMES.search(type(module).__name__)
    held = [name for name in (*module._parameters, *module._buffers) if not name.startswith(PREFIX)]
    if found is None or found["norm"] or result.shape != q.shape or held:
        return None
    return lambda y: lookup(q, table_of(module.forward, grid, y))
