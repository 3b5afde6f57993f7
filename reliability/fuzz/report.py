"""The table of a run: how many programs are in each class, and by which seeds the finds come back."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping

from .judge import AGREES, BAD, CLASSES, ERROR, REFUSED, Verdict

_SHOWN = 20  # seeds per class


def lines(verdicts: Mapping[int, Verdict], command: str, seconds: float) -> list[str]:
    """Markdown for docs/reliability.md."""
    counts = Counter(each.kind for each in verdicts.values())
    judged = len(verdicts) - counts[REFUSED]
    runs = sum(each.runs for each in verdicts.values())
    told = [
        f"`{command}`: {len(verdicts):,} programs, {judged:,} of them accepted by PyTorch, {runs:,} runs compared, "
        f"in {seconds / 60:.0f} minutes.",
        "",
        "| class | programs | seeds |",
        "|---|---:|---|",
    ]
    for kind in CLASSES:
        seeds = sorted(seed for seed, each in verdicts.items() if each.kind == kind)
        shown = "" if kind in (AGREES, ERROR, REFUSED) else _listed(seeds)
        told.append(f"| {kind} | {len(seeds):,} | {shown} |")
    return told


def _listed(seeds: list[int]) -> str:
    more = f", and {len(seeds) - _SHOWN} more" if len(seeds) > _SHOWN else ""
    return ", ".join(map(str, seeds[:_SHOWN])) + more


def causes(verdicts: Mapping[int, Verdict]) -> list[str]:
    """What was seen, grouped by what was said; the most frequent first."""
    grouped: dict[tuple[str, str], list[int]] = defaultdict(list)
    for seed, verdict in verdicts.items():
        if verdict.kind in BAD or verdict.kind in (ERROR, REFUSED):
            grouped[verdict.kind, signature(verdict.detail)].append(seed)
    ordered = sorted(grouped.items(), key=lambda item: (item[0][0] not in BAD, item[0][0], -len(item[1])))
    return [f"{kind}: {len(seeds)} x {said}  [{', '.join(map(str, seeds[:6]))}]" for (kind, said), seeds in ordered]


def signature(detail: str) -> str:
    """The same for finds that say the same of other numbers."""
    text = detail.splitlines()[0] if detail else ""
    text = re.sub(r"at \{[^}]*\}", "at other sizes", text)
    text = re.sub(r"max error.*", "", text)
    text = re.sub(r"'[^']*'", "'...'", text)
    return re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "#", text)[:200]
