"""How far the rows of contract section H are: a line for each, and a total.

    python -m tests.contract.h_table [-k text]

Every row runs in a process of its own, so that one that hangs or crashes stops nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import torch

import onward

from . import (
    h01_branches,
    h01_calls,
    h01_values,
    h01_writes,
    h02_algorithms,
    h02_limits,
    h02_while,
    h03_for,
    h03_lists,
    h03_nested,
    h03_recurrent,
    h05_not_kept,
)
from .h_rows import SECONDS, Outcome, Row, judge

TABLES = {
    "h01": (h01_branches, h01_calls, h01_values, h01_writes),
    "h02": (h02_while, h02_limits, h02_algorithms),
    "h03": (h03_for, h03_lists, h03_nested, h03_recurrent),
    "h05": (h05_not_kept,),
}
ROWS = {name: [row for module in modules for row in module.ROWS] for name, modules in TABLES.items()}


def guarded(row: Row, seconds: int = SECONDS) -> Outcome:
    """`judge` in a process of its own, which the system ends wherever it is after so many seconds of computing."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            os.write(writer, json.dumps(vars(judge(row, seconds=0))).encode()[:60000])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        which = os.WTERMSIG(status)
        if which == signal.SIGPROF:
            return Outcome("hangs", f"stopped after {seconds} s", seconds=seconds)
        return Outcome("crash", f"the process was ended by {signal.Signals(which).name}")
    return Outcome(**json.loads(said)) if said else Outcome("crash", "the process ended without a word")


def report(rows: Sequence[Row], run: Callable[[Row], Outcome]) -> Iterator[str]:
    """Lines to print while the rows run."""
    width = max([len(row.name) for row in rows], default=0)
    kinds: Counter[str] = Counter()
    kept = seconds = 0.0
    for row in rows:
        outcome = run(row)
        good = outcome.suits(row)
        kept += good
        kinds[outcome.kind] += 1
        seconds += outcome.seconds
        slow = f"  {outcome.seconds:.1f} s" if outcome.seconds > 0.5 else ""
        said = "" if good and outcome.kind == "kept" else f"  {outcome}"
        yield f"{'ok' if good else '--'}  {row.name:{width}}{slow}{said}"
    yield f"{kept:.0f} of {len(rows)} as promised in {seconds:.0f} s; " + ", ".join(
        f"{kind} {count}" for kind, count in kinds.most_common()
    )


def warm_up() -> None:
    """Import what an export imports, so that no row pays for it; no threads may start before the forks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onward.export(torch.nn.ReLU(), (torch.zeros(1),), verify=False).proto()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="TEXT", default="", help="only rows with this in their name (h02_newton)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warm_up()
    rows = [row for name, table in ROWS.items() for row in table if options.k in f"{name}_{row.name}"]
    for line in report(rows, guarded):
        print(line, flush=True)


if __name__ == "__main__":
    main()
