"""Sweep the architectures of the packages, each in a process with limits of time and memory."""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import packages

OUT = Path("out") / "zoo"
GIB = 1 << 30


def main() -> int:
    asked = _arguments()
    OUT.mkdir(parents=True, exist_ok=True)
    for package in [asked.package] if asked.package else packages.PACKAGES:
        path = OUT / f"{package}.jsonl"
        known = {} if asked.again else _known(path)
        names = [name for name in packages.module(package).names() if asked.k in name and name not in known]
        done = 0
        with path.open("a", encoding="utf-8") as lines, ThreadPoolExecutor(asked.jobs) as pool:
            answers = pool.map(functools.partial(_in_process, package, asked=asked), names)
            for name, found in zip(names, answers, strict=True):
                done += 1
                lines.write(json.dumps({"name": name} | found) + "\n")
                lines.flush()
                note = found.get("reason") or " / ".join(found.get("warnings", []))
                print(f"{done}/{len(names)} {package} {name}: {found['status']} {note[:200]}", flush=True)
        counts = collections.Counter(found["status"] for found in _known(path).values())
        print(f"{package}: " + ", ".join(f"{count} {status}" for status, count in counts.most_common()))
    return 0


def _in_process(package: str, name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """What the process of one architecture printed, or how it ended."""
    command = [sys.executable, "-W", "ignore", "-m", "zoo.child", package, name]
    limit = int(asked.memory * GIB)
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=asked.seconds,
            check=False,
            env=os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )
    except subprocess.TimeoutExpired:
        return {"status": "too slow", "reason": f"more than {asked.seconds} s"}
    if ended.returncode:
        return {"status": "died", "reason": f"exit {ended.returncode}: {ended.stderr[-300:]}"}
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return answer


def _known(path: Path) -> dict[str, dict[str, Any]]:
    """The last answer for each architecture."""
    if not path.exists():
        return {}
    answers = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {answer["name"]: answer for answer in answers}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m zoo", description=__doc__)
    parser.add_argument("--package", choices=packages.PACKAGES, help="one package; all are swept without it")
    parser.add_argument("-k", default="", metavar="TEXT", help="only architectures with this text in their names")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes at a time")
    parser.add_argument("--seconds", type=float, default=240, help="how long one architecture may take")
    parser.add_argument("--memory", type=float, default=9, help="how many GiB one process may use")
    parser.add_argument("--again", action="store_true", help="sweep what has been swept already, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
