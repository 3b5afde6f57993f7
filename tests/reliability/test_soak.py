"""The soak test sees a leak, and exports do not have one."""

from __future__ import annotations

import torch

from reliability.soak import MOST_GROWTH, Soak, export_once, main, soak


def test_a_planted_leak_is_seen() -> None:
    kept: list[torch.Tensor] = []
    measured = soak(30, 10, step=lambda at: kept.append(torch.ones(1 << 20)))
    assert measured.growth > MOST_GROWTH
    assert len(kept) == 30


def test_times_compare_the_last_tenth_with_an_early_one() -> None:
    assert Soak(20, 5, (100, 101), (9.0,) * 5 + (1.0,) * 13 + (3.0,) * 2).slower == 2.0
    assert round(Soak(20, 5, (100, 101), (1.0,) * 20).growth, 9) == 0.01


def test_every_model_of_the_soak_exports() -> None:
    for at in range(12):
        export_once(at)


def test_a_slice_of_the_soak_stays_within_its_memory() -> None:
    """Caches are full after 200 exports; what every export keeps would be seen between those and the last."""
    assert main(["-n", "400"]) == 0
