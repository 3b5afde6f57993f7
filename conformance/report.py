"""What a sweep found, for people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any


def passes(unit: dict[str, Any]) -> bool:
    """An operator passes with all of its samples; one that is right for the example's values only does not."""
    return all(sample["status"] == "pass" for sample in unit["samples"])


def summary(units: Iterable[dict[str, Any]]) -> str:
    """The counts: operators and samples, by dtype, and what failed how.

    Samples with complex numbers have lines of their own, so that the counts for real types are those of real numbers.
    """
    by_dtype: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for unit in units:
        for kind, some in kinds(unit):
            by_dtype[kind].append({**unit, "samples": some})
    lines = []
    for dtype, all_units in by_dtype.items():
        judged = [unit for unit in all_units if unit["samples"]]
        good = sum(map(passes, judged))
        statuses = Counter(sample["status"] for unit in judged for sample in unit["samples"])
        failed = {status: {unit["op"] for unit in judged if any(s["status"] == status for s in unit["samples"])}
                  for status in statuses if status != "pass"}  # fmt: skip
        lines.append(
            f"{dtype}: {good} of {len(judged)} operators ({100 * good / max(1, len(judged)):.1f}%), "
            f"{statuses['pass']} of {sum(statuses.values())} samples"
        )
        lines += [f"  {status:<9}{statuses[status]} samples of {len(ops)} operators" for status, ops in failed.items()]
        without = len(all_units) - len(judged)
        if without:
            lines.append(f"  {without} operators have no sample that can be judged")
    return "\n".join(lines)


def kinds(unit: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """A unit's samples by the line that they are counted in."""
    dtype, samples = unit["dtype"], unit["samples"]
    apart = [] if dtype.startswith("complex") else [sample for sample in samples if sample["complex"]]
    rest = [(dtype, [sample for sample in samples if sample not in apart])]
    return rest if not apart else [*rest, (f"{dtype} made complex", apart)]


def failures(units: Iterable[dict[str, Any]]) -> str:
    """One line per sample that did not pass."""
    return "\n".join(
        f"{sample['status']:<9}{unit['op']} {unit['dtype']} {sample['sample']}: {sample['reason']}"
        for unit in units
        for sample in unit["samples"]
        if sample["status"] != "pass"
    )
