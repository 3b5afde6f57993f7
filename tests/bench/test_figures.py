"""What counts as reached in `make bench`, on results written by hand."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from bench.figures import judge
from bench.report import show

FINE = {"example_sizes": {"absolute": 1e-6, "relative": 1e-6}, "other_sizes": {"absolute": 1e-6, "relative": 1e-6}}


def record(seconds: float, nodes: int, latency: float, peak: float = 50e6, **more: Any) -> dict[str, Any]:
    return {
        "status": "ok",
        "export_seconds": seconds,
        "peak_bytes": peak,
        "nodes": nodes,
        "constant_nodes": 0,
        "file_bytes": 1e8,
        "weights_bytes": 1e8,
        "checks": FINE,
        "latency": {"seconds": latency, "runs": 10},
        **more,
    }


def entry(**exporters: dict[str, Any]) -> dict[str, Any]:
    result = {
        "title": "Model",
        "latency_sizes": {"batch": 1},
        "floor": {"seconds": 0.2, "weights_bytes": 1e8},
        "exporters": exporters,
    }
    return result | {"figures": [figure.as_json() for figure in judge(result)]}


def reached(judged: dict[str, Any]) -> dict[str, bool | None]:
    return {figure["name"]: figure["reached"] for figure in judged["figures"]}


def test_everything_reached() -> None:
    judged = entry(onward=record(0.8, 100, 0.0104), dynamo=record(8.0, 120, 0.010), legacy=record(0.9, 100, 0.011))
    assert set(reached(judged).values()) == {True}


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("times faster than dynamo", record(0.81, 100, 0.01)),
        ("times faster than legacy", record(0.91, 100, 0.01)),
        ("export time, 2x floor + 0.5 s", record(0.91, 100, 0.01)),
        ("peak memory, weights / 4 + 150 MB", record(0.8, 100, 0.01, peak=176e6)),
        ("nodes, better peer", record(0.8, 101, 0.01)),
        ("latency over better peer", record(0.8, 100, 0.0106)),
        ("relative error", record(0.8, 100, 0.01, checks={**FINE, "other_sizes": {"failure": "shape"}})),
    ],
)
def test_each_figure_can_be_missed(name: str, ours: dict[str, Any]) -> None:
    judged = entry(onward=ours, dynamo=record(8.0, 120, 0.010), legacy=record(0.9, 100, 0.011))
    assert reached(judged)[name] is False


def test_a_peer_that_is_wrong_at_other_sizes_is_not_compared_with() -> None:
    frozen = record(8.0, 10, 0.001, checks={**FINE, "other_sizes": {"failure": "frozen axis"}})
    judged = entry(onward=record(0.8, 100, 0.01), dynamo=frozen, legacy={"status": "failed", "error": "no"})
    outcome = reached(judged)
    assert outcome["times faster than dynamo"] is True
    assert outcome["nodes, better peer"] is None
    assert outcome["latency over better peer"] is None
    assert outcome["times faster than legacy"] is None


def test_the_report_names_failures_and_misses() -> None:
    slow = record(5.0, 100, 0.01)
    reused = record(8.0, 120, 0.01, reused=True)
    entries = {"model": entry(onward=slow, dynamo=reused, legacy={"status": "failed", "error": "ValueError: no [x]"})}
    console = Console(file=io.StringIO(), width=200)
    show({"models": entries}, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Model, legacy, export: ValueError: no [x]" in text
    assert "8.00*" in text
    assert "Model: 1.60x against 10.00x (0.16 of it)" in text
    assert "nothing to compare with: Model" in text
