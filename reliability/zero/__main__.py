"""`python -m reliability.zero`: files with a dynamic axis, run where the size of that axis is 0.

    python -m reliability.zero                         every operator of PyTorch's database and every usual layer
    python -m reliability.zero --names cumsum,nn.LSTM  some of them
    python -m reliability.zero --record                write the figures into docs/reliability.md

The example has 2 or more elements along the axis, and what PyTorch gives without any is what the file has to give.
Where PyTorch refuses a size of 0, nothing is asked. Finds that docs/known-defects.md explains (listed.py) are counted
apart; the command fails if there are others.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from reliability.fuzz.judge import AGREES, BAD, ERROR, REFUSED, WARNED, Verdict
from reliability.fuzz.pool import judged
from reliability.page import record

from .cases import subjects
from .judge import MOST_CASES, judge_place
from .listed import listed

LISTED = "in known-defects.md"
CLASSES = (AGREES, ERROR, LISTED, WARNED, *BAD)
SECONDS = 20.0  # for one file


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", help="operators of the database and layers, with commas between them")
    parser.add_argument("--dtype", default="float32", help="of the operators' inputs (float32)")
    parser.add_argument("--opset", type=int, help="onward's own default without it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--json", type=Path, help="where to write every verdict")
    parser.add_argument("--record", action="store_true", help="write the figures into docs/reliability.md")
    options = parser.parse_args(arguments)
    chosen = known = subjects(options.dtype)
    if options.names:
        chosen = options.names.split(",")
        if unknown := [name for name in chosen if name not in known]:
            parser.error(f"no operator of {options.dtype} and no layer is called {', '.join(unknown)}")
    verdicts = _swept(chosen, options.dtype, options.opset, options.jobs)
    if options.json:
        everything = {f"{name}/{case}": [each.kind, each.detail] for (name, case), each in verdicts.items()}
        options.json.write_text(json.dumps(everything, indent=1), encoding="utf-8")
    command = "python -m reliability.zero" + f" --dtype {options.dtype}" * (options.dtype != "float32")
    told = lines(verdicts, command)
    print("\n".join(told))
    if options.record:
        record("zero", told)
    return 1 if any(each.kind in BAD for each in verdicts.values()) else 0


def _swept(names: list[str], dtype: str, opset: int | None, jobs: int) -> dict[tuple[str, int], Verdict]:
    judging = functools.partial(judge_place, names=tuple(names), dtype=dtype, opset=opset)
    found: dict[tuple[str, int], Verdict] = {}
    places = range(len(names) * MOST_CASES)
    for number, (place, verdict) in enumerate(judged(places, jobs, judging, seconds=SECONDS), 1):
        name, case = names[place // MOST_CASES], place % MOST_CASES
        if verdict.kind in (*BAD, WARNED) and listed(name, verdict.detail):
            verdict = replace(verdict, kind=LISTED)
        if verdict.kind != REFUSED:
            found[name, case] = verdict
        if verdict.kind in (*BAD, WARNED):
            print(f"{verdict.kind}: {name}, case {case}: {verdict.detail}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{number}/{len(places)} {name:60.60}", end="", file=sys.stderr, flush=True)
    return dict(sorted(found.items()))


def lines(verdicts: dict[tuple[str, int], Verdict], command: str) -> list[str]:
    """Markdown for docs/reliability.md."""
    counts = Counter(each.kind for each in verdicts.values())
    asked = {name for name, _ in verdicts}
    told = [
        f"`{command}`: {len(verdicts):,} files of {len(asked):,} operators and layers.",
        "",
        "| class | files | operators and layers |",
        "|---|---:|---|",
    ]
    for kind in CLASSES:
        names = sorted({name for (name, _), each in verdicts.items() if each.kind == kind})
        shown = "" if kind in (AGREES, ERROR) else ", ".join(f"`{name}`" for name in names)
        told.append(f"| {kind} | {counts[kind]:,} | {shown} |")
    return told


if __name__ == "__main__":
    sys.exit(main())
