"""Rows of contract section H that do not come to what it promises yet, and why."""

from __future__ import annotations

_NUMBERS = "numbers that Python computes from data take a way that no run can be forced to"
_MEMORY = "memory is shared on one side of a branch only, and written to"
_SIZES = "a size and data decide together"

NOT_YET = {
    "sorted_items": _NUMBERS,
    "gcd_of_python_numbers": _NUMBERS,
    "view_made_in_a_branch": _MEMORY,
    "insertion_sort": _MEMORY,
    "while_with_or": "a loop that two questions keep going",
    "bisection_that_may_hit": "two variables that are one on one side change places on the other",
    "greedy_decoding": _SIZES,
    "non_maximum_suppression": "the example has too few boxes for another turn",
    "bubble_sort": "too many ways through nested loops",
    "adaptive_step_size": "a plain number changes from turn to turn, and not by the same",
}
SILENT: frozenset[str] = frozenset()
