"""Modules that are one function, whatever functions their code is made of.

Libraries write norms and activations out (`x * rsqrt(mean(x ** 2) + eps) * weight`, `0.5 * x * (1 + tanh(...))`).
Rounding after each of these steps costs accuracy and time; in float from grid to grid they are what `F.rms_norm` and
`F.gelu` are, and runtimes recognise them.
"""

from __future__ import annotations

import re

from torch import nn

# RMSNorm, T5LayerNorm, LlamaRMSNorm, NewGELUActivation, QuickGELU, FastGELUActivation, Swish, ...
_NAMES = re.compile(r"(RMS|Layer)Norm$|(GELU|SiLU|Swish|Mish|Relu2|ReLUSquared)(Activation)?$")


def is_one_function(module: nn.Module) -> bool:
    """Whether a module's name says so, and nothing speaks against it: it has no modules inside, no matrix to multiply
    with, and is none of PyTorch's, which call one function as they are."""
    kind = type(module)
    if _NAMES.search(kind.__name__) is None or kind.__module__.startswith("torch.nn."):
        return False
    if isinstance(module, (nn.LayerNorm, nn.RMSNorm, nn.GELU, nn.SiLU)):
        return False
    return not module._modules and all(each is None or each.dim() <= 1 for each in module._parameters.values())
