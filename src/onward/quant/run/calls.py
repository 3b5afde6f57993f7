"""The modules that are running, and the functions that are called in them.

A model calls the same functions in the same modules at every step. What is known of such a call (its name, its
settings, the sites where its tensors are put on their grids) is kept with the hook of the module, and looked up.

Some modules are one function, whatever functions their code is made of. Libraries write norms and activations out
(`x * rsqrt(mean(x ** 2) + eps) * weight`, `0.5 * x * (1 + tanh(...))`). Rounding after each of these steps costs
accuracy and time; in float from grid to grid they are what `F.rms_norm` and `F.gelu` are, and runtimes recognize them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from ..config.settings import Resolved
from ..exact.integers import lookup, table_of
from ..grids.grid import Grid
from ..grids.sites import PREFIX, Site


@dataclass(frozen=True, eq=False)
class Call:
    """A function called in a module: `conv_0` is the first convolution of one run of it."""

    module: nn.Module
    path: str
    name: str
    settings: Resolved
    _sites: dict[str, Site] = field(default_factory=dict, init=False, repr=False)
    _others: dict[Any, Call] = field(default_factory=dict, init=False, repr=False)

    @functools.cached_property
    def label(self) -> str:
        return f"{self.path}:{self.name}"

    @property
    def bits(self) -> int:
        """The bits of its results."""
        return self.settings.activations.bits

    @property
    def weight_bits(self) -> int:
        """The bits of its weights."""
        return self.settings.weights.bits

    @property
    def told(self) -> str:
        """The label, for people."""
        return f"{self.path or 'the model itself'} ({self.name})"

    def is_one_of(self, names: str | tuple[str, ...]) -> bool:
        """Whether the function that is called has one of these names, or a name that begins so."""
        return self.name.startswith(names)

    def with_weights(self, **changes: Any) -> Call:
        """This call with other settings for its weights."""
        return self._with("weights", changes)

    def with_activations(self, **changes: Any) -> Call:
        """This call with other settings for its results."""
        return self._with("activations", changes)

    def _with(self, part: str, changes: dict[str, Any]) -> Call:
        key = part, *changes.items()
        found = self._others.get(key)
        if found is None:
            changed = replace(getattr(self.settings, part), **changes)
            found = self._others[key] = replace(self, settings=replace(self.settings, **{part: changed}))
        return found

    @functools.cached_property
    def scaled(self) -> Call:
        """This call where a number that its result is multiplied with has become part of it."""
        return replace(self, name=f"{self.name}_scaled")

    def site(self, role: str) -> Site:
        """Where a tensor of this call is put on its grid."""
        found = self._sites.get(role)
        if found is None:
            settings = self.settings
            found = Site(self.module, self.path, f"{self.name}_{role}", settings.activations, settings.rounding)
            self._sites[role] = found
        return found


Known = dict[tuple[str, int, int], Call]  # by function, number, and how often the module ran before


class Frame:
    """A module that is running.

    settings  what it is quantized with; None: not at all
    whole     the same for one function from grid to grid, in float inside: then `settings` is None
    repeat    how often it ran before, in this run of the model
    known     its calls of earlier runs
    compiler  what torch.compile has to continue with behind it
    given     the integers that a whole of sixteen bits gets, and their grid, if it gets one tensor
    """

    __slots__ = ("_counts", "compiler", "given", "known", "module", "path", "repeat", "settings", "whole")

    def __init__(
        self, module: nn.Module, path: str, settings: Resolved | None, repeat: int, is_whole: bool, known: Known
    ) -> None:
        self.module = module
        self.path = path
        self.repeat = repeat
        self.known = known
        self.settings = None if is_whole else settings
        self.whole = settings if is_whole else None
        self.compiler: Any = None
        self.given: tuple[Tensor, Grid] | None = None
        self._counts: dict[str, int] = {}

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that the module itself has."""
        return self.module._parameters

    def has_buffer(self, x: Tensor) -> bool:
        """Whether a tensor is one of the buffers that the module itself has."""
        return any(x is each for each in self.module._buffers.values())

    def call(self, name: str) -> Call:
        """The next call of a function. A module without settings never gets to a handler, and one that is a whole has
        no calls but the one for its result."""
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        settings = self.whole or self.settings
        assert settings is not None
        key = name, number, self.repeat
        found = self.known.get(key)
        # A copy that shares its hooks (DataParallel makes such) has ranges of its own.
        if found is None or found.module is not self.module or found.settings is not settings:
            again = f"_call{self.repeat}" if self.repeat else ""
            found = self.known[key] = Call(self.module, self.path, f"{name}_{number}{again}", settings)
        return found


# Modules that are one function

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


def made_by_table(module: nn.Module, q: Tensor, grid: Grid, result: Tensor) -> Callable[[Grid], Tensor] | None:
    """What makes the integers of such a module's result of those that it got, if it computes every value by itself, and
    all in the same way; None for norms."""
    found = _NAMES.search(type(module).__name__)
    held = [name for name in (*module._parameters, *module._buffers) if not name.startswith(PREFIX)]
    if found is None or found["norm"] or result.shape != q.shape or held:
        return None
    return lambda y: lookup(q, table_of(module.forward, grid, y))
