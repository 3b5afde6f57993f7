"""The figures to reach, judged from one run's results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .exporters import PEERS

MEGABYTE = 1e6
CORRECT = 1e-3  # a file whose relative error is larger computes something else and is no peer to compare with


@dataclass(frozen=True)
class Figure:
    """One requirement on one model; `reached` is None where there is nothing to compare with."""

    name: str
    value: float | None
    limit: float | None
    reached: bool | None
    unit: str = "x"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def at_most(name: str, value: float | None, limit: float | None, unit: str = "x") -> Figure:
    return Figure(name, value, limit, None if value is None or limit is None else value <= limit, unit)


def at_least(name: str, value: float | None, limit: float, unit: str = "x") -> Figure:
    return Figure(name, value, limit, None if value is None else value >= limit, unit)


def exported(record: dict[str, Any] | None) -> bool:
    return record is not None and record["status"] == "ok"


def correct(record: dict[str, Any] | None) -> bool:
    """Exported, and right at the example's sizes and at others."""
    if record is None or not exported(record):
        return False
    return all(check.get("relative", float("inf")) <= CORRECT for check in record["checks"].values())


def latency(record: dict[str, Any] | None) -> float | None:
    return ((record or {}).get("latency") or {}).get("seconds")


def better_peer(entry: dict[str, Any], key: str) -> float | None:
    """The smallest value among the peers whose file is right."""
    peers = [entry["exporters"].get(name) for name in PEERS]
    values = [latency(peer) if key == "latency" else peer[key] for peer in peers if peer is not None and correct(peer)]
    return min((value for value in values if value is not None), default=None)


def ratio(value: float | None, reference: float | None) -> float | None:
    return None if value is None or not reference else value / reference


def judge(entry: dict[str, Any]) -> list[Figure]:
    """Every figure of one model; none at all where onward was not measured."""
    ours = entry["exporters"].get("onward")
    if ours is None:
        return []
    if not exported(ours):
        return [Figure("exports", None, None, False, "")]
    checks = ours["checks"].values()
    seconds = ours["export_seconds"]
    times = {name: (entry["exporters"].get(name) or {}).get("export_seconds") for name in PEERS}
    floor, weights = entry["floor"].get("seconds"), ours["weights_bytes"]
    return [
        Figure("exports", None, None, True, ""),
        at_most("relative error", max(check.get("relative", float("inf")) for check in checks), CORRECT, ""),
        at_least("times faster than dynamo", ratio(times["dynamo"], seconds), 10),
        at_least("times faster than legacy", ratio(times["legacy"], seconds), 1),
        at_most("export time, 2x floor + 0.5 s", seconds, None if floor is None else 2 * floor + 0.5, "s"),
        at_most(
            "peak memory, weights / 4 + 150 MB",
            ours["peak_bytes"] / MEGABYTE,
            weights / 4 / MEGABYTE + 150,
            "MB",
        ),
        at_most("nodes, better peer", ours["nodes"], better_peer(entry, "nodes"), ""),
        at_most("latency over better peer", ratio(latency(ours), better_peer(entry, "latency")), 1.05),
    ]
