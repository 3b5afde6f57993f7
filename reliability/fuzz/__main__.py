"""`python -m reliability.fuzz`: random programs, exported and compared with plain PyTorch.

python -m reliability.fuzz -n 20000 --seed 0 --jobs 2 --record     a run, its table into docs/reliability.md
python -m reliability.fuzz --seed-of-program 17                    one program, and what becomes of it
python -m reliability.fuzz --minimize 17                           the same with as few statements as possible
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from ..page import record
from .generate import decides, generate
from .judge import BAD, REFUSED, Verdict, judge
from .minimize import minimized
from .pool import judged
from .program import FuzzProgram
from .report import causes, lines
from .tasks import judge_program, judge_seed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reliability.fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-n", "--programs", type=int, default=1000, metavar="N", help="how many programs (1000)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first program (0)")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (2)")
    parser.add_argument("--zero", action="store_true", help="compare at a size of 0 too")
    parser.add_argument("--decided", action="store_true", help="only programs that decide on data")
    parser.add_argument("--record", action="store_true", help="write the table into docs/reliability.md")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every verdict into a file")
    parser.add_argument("--seed-of-program", type=int, metavar="S", help="show one program and what becomes of it")
    parser.add_argument("--minimize", type=int, metavar="S", help="make a program smaller while it stays in its class")
    options = parser.parse_args(arguments)
    if options.seed_of_program is not None:
        return _show(generate(options.seed_of_program), options.zero)
    if options.minimize is not None:
        return _minimize(generate(options.minimize), options.zero)
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    started, verdicts = time.monotonic(), dict[int, Verdict]()
    seeds = list(range(options.seed, options.seed + options.programs))
    if options.decided:
        seeds = list(itertools.islice(filter(decides, itertools.count(options.seed)), options.programs))
    for seed, verdict in judged(seeds, options.jobs, functools.partial(judge_seed, zero=options.zero)):
        verdicts[seed] = verdict
        if verdict.kind in BAD:
            print(
                f"seed {seed}: {verdict.kind}: {verdict.detail.splitlines()[0] if verdict.detail else ''}", flush=True
            )
        if len(verdicts) % 500 == 0:
            bad = sum(each.kind in BAD for each in verdicts.values())
            speed = len(verdicts) / (time.monotonic() - started)
            print(f"{len(verdicts)} of {len(seeds)} programs, {bad} finds, {speed:.1f} programs/s", flush=True)
    if options.json:
        options.json.write_text(json.dumps({seed: asdict(each) for seed, each in verdicts.items()}), encoding="utf-8")
    command = f"python -m reliability.fuzz -n {options.programs} --seed {options.seed}" + " --zero" * options.zero
    command += " --decided" * options.decided
    table = lines(verdicts, command, time.monotonic() - started)
    print("\n".join([*table, "", *causes(verdicts)]))
    if options.record:
        record("fuzz", table)
    return 1 if any(each.kind in BAD for each in verdicts.values()) else 0


def _verdict(program: FuzzProgram, zero: bool) -> Verdict:
    """Judged in a process of its own, which may die."""
    judging = functools.partial(judge_program, program=program, zero=zero)
    return next(verdict for _, verdict in judged([program.seed], 1, judging))


def _show(program: FuzzProgram, zero: bool) -> int:
    print(f"# seed {program.seed}: {program.options()}")
    for each in program.arguments:
        print(f"# {each.name}: {each.dtype} {list(each.shape)}")
    print(program.source())
    verdict = _verdict(program, zero)
    print(f"{verdict.kind}: {verdict.detail}")
    for each in verdict.warned:
        print(f"warning: {each}")
    return 1 if verdict.kind in BAD else 0


def _minimize(program: FuzzProgram, zero: bool) -> int:
    found = _verdict(program, zero)
    died = found.kind not in (each for each in BAD if each not in ("process died", "timeout"))

    def still(candidate: FuzzProgram) -> bool:
        if died:
            return _verdict(candidate, zero).kind == found.kind
        with tempfile.TemporaryDirectory(prefix="onward-fuzz-") as folder:
            return judge(candidate, Path(folder), zero=zero).kind == found.kind

    if found.kind == REFUSED:
        print(f"{found.kind}: {found.detail}")
        return 1
    return _show(minimized(program, still), zero)


if __name__ == "__main__":
    sys.exit(main())
