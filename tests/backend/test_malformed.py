"""A file is untrusted: damaged in any way, it is an error of ours or a model that runs, nothing else.

ONWARD_FUZZ_TRIES says how many tries each half makes; `python -m tests.backend.fuzz` says more about each.
"""

from __future__ import annotations

import os

import pytest

from .fuzz import fuzz

TRIES = int(os.environ.get("ONWARD_FUZZ_TRIES", "400"))


@pytest.mark.parametrize("seed", [0, 1])
def test_damaged_files(seed: int) -> None:
    """In two halves, for two processes. No crash, no hang, no other exception than ours; 800 tries in all, and more if
    ONWARD_FUZZ_TRIES says so."""
    counts, failures = fuzz(TRIES, seed)
    assert not failures, "\n".join(failures)
    assert sum(counts.values()) == TRIES
    assert counts["ran"] > TRIES // 20, "damage so great that nothing runs tests the parser alone"
    assert counts["refused"] > TRIES // 4
