"""Names for what a model returns."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError
from .inputs import checked_names, unique_names
from .tree import Path


def name_outputs(paths: Sequence[Path], chosen: Sequence[str] | None, taken: Sequence[str]) -> tuple[str, ...]:
    """The user's names first; then the keys of dicts and fields, `output` or `output_0`, ... for the rest."""
    chosen = checked_names("output_names", chosen)
    if len(chosen) > len(paths):
        raise InputError(
            f"output_names has {len(chosen)} names, and the model returns {len(paths)} tensors",
            hint="give at most one name per tensor that forward returns",
        )
    clash = sorted((set(chosen) & set(taken)) | {name for name in chosen if chosen.count(name) > 1})
    if clash:
        raise InputError(
            f"{', '.join(map(repr, clash))} names more than one input or output", hint="every one needs its own name"
        )
    rest = [_default(path) for path in paths[len(chosen) :]]
    names = unique_names([*taken, *chosen, *rest])[len(taken) :]
    return tuple(names)


def _default(path: Path) -> str:
    if not path:
        return "output"
    return "_".join(path) if not path[0].isdigit() else "_".join(("output", *path))
