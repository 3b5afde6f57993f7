"""Names for what a model returns, and for its axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import InputError
from ..call.inputs import AxisNames, check_axis, checked_names, nobodys_axes, unique_names
from ..decisions.decisions import Decisions
from ..ground.names import encodable
from ..ground.tree import Path
from ..program.facts import ListFact, SymDim, TensorFact, caution
from ..sizes.dims import DimTable


def name_outputs(paths: Sequence[Path], chosen: Sequence[str] | None, taken: Sequence[str]) -> tuple[str, ...]:
    """The user's names first; then the keys of dicts and fields, `output` or `output_0`, ... for the rest.

    One that is an input's name too adds `_out`.
    """
    chosen = checked_names("output_names", chosen)
    if len(chosen) > len(paths):
        raise InputError(
            f"output_names has {len(chosen)} names, and the model returns {len(paths)} tensor{'s' * (len(paths) != 1)}",
            hint="give at most one name per tensor that forward returns",
        )
    clash = sorted((set(chosen) & set(taken)) | {name for name in chosen if chosen.count(name) > 1})
    if clash:
        raise InputError(
            f"{', '.join(map(repr, clash))} names more than one input or output", hint="every one needs its own name"
        )
    rest = [encodable(_default(path)) for path in paths[len(chosen) :]]
    rest = [f"{name}_out" if name in taken else name for name in rest]  # a state that goes in and comes out
    names = unique_names([*taken, *chosen, *rest])[len(taken) :]
    return tuple(names)


def _default(path: Path) -> str:
    if not path:
        return "output"
    return "_".join(path) if not path[0].isdigit() else "_".join(("output", *path))


def name_output_axes(
    dims: DimTable,
    decisions: Decisions,
    facts: Mapping[str, TensorFact | ListFact],
    wanted: Mapping[str, AxisNames],
    input_names: Sequence[str],
) -> None:
    """Output axes that the user names: an axis that follows an input's keeps that name, others take the new one."""
    for output, axes in wanted.items():
        if output not in facts:
            raise nobodys_axes(output, input_names, facts)
        for axis, name in axes.items():
            dim = facts[output].shape[check_axis(output, axis, facts[output].rank)]
            asked = f"dynamic_axes[{output!r}][{axis}] is {name!r}"
            if dim is None:
                _note(decisions, f"{asked}, but the tensors of that list differ there", "The file has no name there")
                continue
            if not isinstance(dim, SymDim):
                _note(decisions, f"{asked}, but the model always gives {dim} there", f"The file says {dim}")
                continue
            follows = dims.name_of(dim.values)
            if follows is None:
                dims.rename(dim, name)
            elif name not in (follows, f"{output}_axis_{axis}"):  # a name of the user's own choosing
                _note(decisions, f"{asked}, but that axis always equals {follows!r}", f"The file says {follows!r}")


def _note(decisions: Decisions, what: str, means: str) -> None:
    decisions.note(caution(what, means, "leave that axis out of dynamic_axes"))
