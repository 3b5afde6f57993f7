"""A slice of `make threads`: exports from several threads, while others serve and train the same models."""

from __future__ import annotations

from reliability import threads


def test_exports_disturb_nobody_and_nobody_disturbs_them() -> None:
    figures = threads.run(threads=8, exports=1)
    assert figures.errors == []
    assert (figures.exports, figures.different, figures.unharmed) == (8, 0, True)
    assert figures.served and figures.steps


def test_a_difference_is_counted() -> None:
    assert not threads.Figures(exports=1, different=1).is_clean
    assert not threads.Figures(exports=1, errors=["KeyError: 3"]).is_clean
    assert not threads.Figures(exports=1, unharmed=False).is_clean
    assert "- files that differ from that of a lone export: 1" in threads.Figures(different=1).lines()
