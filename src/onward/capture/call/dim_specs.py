"""What `dynamic_shapes` says of one tensor: `{0: Dim("batch", max=64)}`, `(2*dim, 3)`, `{1: Dim.AUTO}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ...errors import InputError
from ..ground.axes import UNBOUNDED, AxisSpace, Bounds, Formula, read_formula
from .inputs import AxisNames, Call, example_sizes, solve_roots

_FORMS = 'a Dim, Dim.AUTO, Dim.DYNAMIC, Dim.STATIC, a name such as "batch", the example\'s size, or None'


def _label(name: str, axis: int) -> str:
    """The name of an axis that nobody named, as for lists in `dynamic_axes`."""
    return f"{name}_axis_{axis}"


def is_hint(dim: Any, *kinds: str) -> bool:
    """Whether this is `Dim.AUTO`, `Dim.DYNAMIC` or `Dim.STATIC`, with bounds or without."""
    return _hint_kind(dim) in (kinds or ("AUTO", "DYNAMIC", "STATIC"))


def _hint_kind(dim: Any) -> str | None:
    if not type(dim).__name__.startswith("_DimHint"):
        return None
    return str(getattr(dim, "type", dim).name)


def _limit(value: Any) -> int | None:
    """A bound as a number; PyTorch's infinity is none."""
    return value if isinstance(value, int) else None


def _bounds(dim: Any) -> Bounds:
    return _limit(getattr(dim, "min", None)) or 0, _limit(getattr(dim, "max", None))


def written(dim: Any) -> str:
    """`Dim('batch', min=2, max=64)`, with every bound: PyTorch leaves a minimum of 2 out."""
    limits = [f"{name}={value}" for name, value in zip(("min", "max"), _bounds(dim), strict=True) if value]
    kind = _hint_kind(dim)
    if kind is not None:
        return f"Dim.{kind}({', '.join(limits)})" if limits else f"Dim.{kind}"
    return f"Dim({', '.join([repr(dim.__name__), *limits])})" if isinstance(dim, torch.export.Dim) else repr(dim)


def _allowed(bounds: Bounds) -> str:
    low, high = bounds
    return f"{low} and more" if high is None else f"{low} to {high}"


@dataclass
class DimReader:
    """Reads specifications one tensor at a time, and checks each against the example and against what came before."""

    call: Call
    axes: dict[str, AxisNames]
    bounds: dict[str, Bounds] = field(default_factory=dict)
    formulas: dict[str, Formula] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)
    made_up: set[str] = field(default_factory=set)
    fixed: set[tuple[str, int]] = field(default_factory=set)  # axes that are said to be fixed
    _said: dict[str, Any] = field(default_factory=dict)  # the Dim by which a name got its bounds

    def tensor(self, name: str, spec: Any, where: str) -> None:
        """The specification of one input."""
        tensor = self.call.tensors[self.call.names.index(name)]
        rank = tensor.dim()
        if spec is None:
            return
        if isinstance(spec, Mapping):
            pairs = [(self._axis(axis, rank, where, name), dim) for axis, dim in spec.items()]
        elif isinstance(spec, (tuple, list)) and len(spec) == rank:
            pairs = list(enumerate(spec))
        elif isinstance(spec, (tuple, list)):
            raise InputError(
                f"{where} has {len(spec)} entr{'y' if len(spec) == 1 else 'ies'}, and {name!r} has {rank} axes",
                hint="give one entry per axis, or a dict of the axes that are dynamic",
            )
        else:
            raise InputError(
                f"{where} is {written(spec)}, and {name!r} is a tensor of {rank} axes",
                hint="give {axis: Dim} or one entry per axis",
            )
        for axis, dim in pairs:
            self._dim(name, axis, tensor.size(axis), dim, f"{where}[{axis}]")

    def _axis(self, axis: Any, rank: int, where: str, name: str) -> int:
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise InputError(
                f"{where} has {axis!r}, and {name!r} is a tensor: its axes are numbers",
                hint="for example {0: Dim('batch')}",
            )
        if not -rank <= axis < rank:
            raise InputError(
                f"{where} has axis {axis}, and {name!r} has {rank} ax{'i' if rank == 1 else 'e'}s",
                hint=f"axes run from {-rank} to {rank - 1}" if rank else f"{name!r} is a scalar: it has no axes",
            )
        return axis % rank

    def _dim(self, name: str, axis: int, size: int, dim: Any, where: str) -> None:
        """One axis."""
        if dim is None:
            return
        if is_hint(dim, "STATIC") or (isinstance(dim, int) and not isinstance(dim, bool)):
            self._fixed(name, axis, size, dim, where)
        elif is_hint(dim):
            self._hint(name, axis, size, dim, where)
        elif isinstance(dim, torch.export.Dim):
            self._named(name, axis, dim.__name__, where)
            self._bounded(dim, name, axis, size)
        elif isinstance(dim, str) and dim:
            self._named(name, axis, dim, where)
        else:
            raise InputError(f"{where} is {dim!r}", hint=f"give {_FORMS}")

    def _fixed(self, name: str, axis: int, size: int, dim: Any, where: str) -> None:
        if isinstance(dim, int) and dim != size:
            raise InputError(
                f"{where} is {dim}, and axis {axis} of {name!r} is {size} in the example",
                hint="a number fixes the axis at that size: correct it, or give a Dim to have it vary",
            )
        self.fixed.add((name, axis))
        label = self.axes.get(name, {}).get(axis)
        if label is not None:
            raise self._contradiction(name, axis, label, where, dim)

    def _hint(self, name: str, axis: int, size: int, dim: Any, where: str) -> None:
        """An axis without a name of its own keeps the one that `dynamic_axes` gave it."""
        asked = self.axes.get(name, {}).get(axis)
        if asked is None and size == 0 and is_hint(dim, "AUTO"):
            return
        label = asked or _label(name, axis)
        self.axes.setdefault(name, {})[axis] = label
        if asked is None:
            self.made_up.add(label)
            if is_hint(dim, "AUTO"):
                self.optional.add(label)
        if _bounds(dim) != UNBOUNDED:
            self._bound(label, _bounds(dim), dim, name, axis, size)

    def _named(self, name: str, axis: int, label: str, where: str) -> None:
        asked = self.axes.get(name, {}).get(axis)
        if asked not in (None, label, _label(name, axis)):
            raise self._contradiction(name, axis, str(asked), where, label)
        self.axes.setdefault(name, {})[axis] = label

    def _contradiction(self, name: str, axis: int, label: str, where: str, dim: Any) -> InputError:
        return InputError(
            f"dynamic_axes[{name!r}][{axis}] is {label!r}, and {where} is {written(dim)}: they contradict each other",
            hint="describe the axis in one of the two, or alike in both",
        )

    def _bounded(self, dim: Any, name: str, axis: int, size: int) -> None:
        """The bounds of a Dim, and for `2*dim + 1` its formula and the bounds of `dim`."""
        root = getattr(dim, "root", None)
        if root is None:
            self._bound(dim.__name__, _bounds(dim), dim, name, axis, size)
            return
        offset = int(dim.fn(0))
        self.formulas[dim.__name__] = Formula(((root.__name__, int(dim.fn(1)) - offset),), offset)
        self._bound(root.__name__, _bounds(root), root, name, axis, None)

    def _bound(self, label: str, bounds: Bounds, dim: Any, name: str, axis: int, size: int | None) -> None:
        known = self._said.setdefault(label, dim)
        if _bounds(known) != bounds:
            raise InputError(
                f"{label!r} has two definitions in dynamic_shapes: {written(known)} and {written(dim)}",
                hint="one name is one axis: give both the same bounds, or different names",
            )
        low, high = bounds
        if size is not None and (size < low or (high is not None and size > high)):
            raise InputError(
                f"axis {axis} of {name!r} is {size} in the example, and {written(dim)} allows {_allowed(bounds)}",
                hint="use an example within the bounds, or widen them",
            )
        if high is not None and high <= max(low, 1):
            raise InputError(
                f"{written(dim)} on axis {axis} of {name!r} allows one size alone",
                hint="write the number, or Dim.STATIC",
            )
        if bounds != UNBOUNDED:
            self.bounds[label] = bounds

    def space(self) -> AxisSpace:
        """What was read, with names that are formulas of others understood as such where the example agrees."""
        labels = {label for named in self.axes.values() for label in named.values()}
        sizes = example_sizes(self.call, self.axes)
        for label in sorted(labels - set(self.formulas)):
            formula = read_formula(label, labels - {label} - set(self.formulas))
            if formula is not None and formula.at(sizes) == sizes[label]:
                self.formulas[label] = formula
        used = labels | {root for formula in self.formulas.values() for root in formula.names}
        space = AxisSpace(
            {label: bounds for label, bounds in self.bounds.items() if label in used},
            dict(self.formulas),
            frozenset(self.optional & labels),
            frozenset(self.made_up & labels),
        )
        roots = solve_roots(self.call, self.axes, space)
        for label, size in roots.items():
            if not space.allows({label: size}):
                bounds = space.bounds.get(label, UNBOUNDED)
                raise InputError(
                    f"{label!r} is {size} in the example, and {written(self._said[label])} allows {_allowed(bounds)}",
                    hint="use an example within the bounds, or widen them",
                )
        return space


__all__ = ["DimReader", "is_hint", "written"]
