"""What random programs are made of, by families; each family is a table of writers of one statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import control, decisions, indexing, layers, pointwise, reductions, shapes, sizes, types, writes

FAMILIES: dict[str, tuple[int, list[tuple[int, Callable[[Any], Any]]]]] = {
    "pointwise": (18, pointwise.WRITERS),
    "shapes": (18, shapes.WRITERS),
    "indexing": (12, indexing.WRITERS),
    "reductions": (10, reductions.WRITERS),
    "layers": (16, layers.WRITERS),
    "sizes": (10, sizes.WRITERS),
    "types": (5, types.WRITERS),
    "writes": (8, writes.WRITERS),
    "control": (6, control.WRITERS),
}

DECISIONS = decisions.WRITERS  # in some programs only, beside the others: their exports take longer
