"""Damaged models, prepared and run: `python -m tests.backend.fuzz --tries 20000 --seed 7` does more than the test.

Every try is made from its number alone, so one that fails can be repeated: `--only 1234`. Tries run in a process of
their own under a watchdog: a crash and a hang are found like any other failure, and the tries behind them still run.
"""

from __future__ import annotations

import argparse
import collections
import logging
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import torch

import onward
import onward.backend

from .fuzz_changes import changed
from .fuzz_seeds import seeds

LIMITS = onward.backend.Limits(max_elements=2**22, max_bytes=2**28, max_nodes=5000, max_loop_turns=300, max_seconds=5)
PATIENCE = 60.0  # seconds for one try
START = 300.0  # seconds more until the first one, on a busy machine
MEMORY = 12 << 30  # of address space: beyond that something got past the limits


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Cut short, or a few bytes changed: anywhere, or among the first, which are structure and not weights."""
    kind = chance.randrange(4)
    if kind == 0:
        return content[: chance.randrange(len(content))]
    copy = bytearray(content)
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(content) if kind == 1 else min(900, len(content)))
        if kind == 3:
            copy[place] ^= 1 << chance.randrange(8)
        else:
            copy[place] = chance.randrange(256)
    return bytes(copy)


def attempt(number: int, seed: int, folder: Path) -> str:
    """One try: "ran", "refused", or the text of an exception that is not ours."""
    chance = random.Random(f"{seed} {number}")
    start = chance.choice(seeds())
    if chance.random() < 0.4:
        content = damaged(start.content, chance)
    else:
        content = changed(start.content, chance)
    model: Any = content
    if start.data:
        model = folder / "m.onnx"
        model.write_bytes(content)
        (folder / "data.bin").write_bytes(start.data)
    elif chance.random() < 0.2:
        try:
            model = onnx.ModelProto.FromString(content)
        except Exception:  # protobuf's own error: the bytes then
            model = content
    torch.manual_seed(number)
    try:
        rep = onward.backend.prepare(model, limits=LIMITS)
        rep.run([value.copy() if hasattr(value, "copy") else value for value in start.inputs])
    except onward.ExportError:
        return "refused"
    except Exception:
        return f"{start.name}\n{traceback.format_exc()}"
    return "ran"


def work(numbers: Iterator[int], seed: int) -> None:
    """In the child: a line before each try and its outcome after it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)  # onnx_ir says much about each
    warnings.simplefilter("ignore")
    seeds()
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            print(f"try {number}", flush=True)
            print(repr(attempt(number, seed, Path(folder))), flush=True)


class Watched:
    """A child that works on a range of tries, killed when it says nothing for too long."""

    def __init__(self, first: int, last: int, seed: int) -> None:
        command = [sys.executable, "-m", "tests.backend.fuzz", "--child", str(first), str(last), "--seed", str(seed)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        self._heard = time.monotonic() + START
        self._over = False
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while self._process.poll() is None:
            if time.monotonic() - self._heard > PATIENCE:
                self._over = True
                self._process.kill()
            time.sleep(0.5)

    def outcomes(self) -> Iterator[tuple[int, str]]:
        """Numbers and outcomes; the last may be "crashed" or "hung"."""
        assert self._process.stdout is not None
        number, open_ = -1, False
        for line in self._process.stdout:
            self._heard = time.monotonic()
            if line.startswith("try "):
                number, open_ = int(line[4:]), True
            elif open_ and line[:1] in "'\"":
                yield number, eval(line, {"__builtins__": {}})  # a string that the child wrote with repr
                open_ = False
        code = self._process.wait()
        if code and not open_ and number < 0:
            raise RuntimeError(f"the child did not start: it ended with {code}")
        if open_:
            yield number, "hung" if self._over else f"crashed with {code}"


def fuzz(tries: int, seed: int) -> tuple[collections.Counter[str], list[str]]:
    """How often what happened, and the failures."""
    counts: collections.Counter[str] = collections.Counter()
    failures = []
    first = 0
    while first < tries:
        last = first
        for number, outcome in Watched(first, tries, seed).outcomes():
            last = number + 1
            good = outcome in ("ran", "refused")
            counts[outcome if good else "failed"] += 1
            if not good:
                failures.append(f"try {number} of seed {seed}: {outcome}")
        if last == first:
            break
        first = last
    return counts, failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one try, in this process")
    parser.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        work(iter(range(*options.child)), options.seed)
    elif options.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(attempt(options.only, options.seed, Path(folder)))
    else:
        start = time.monotonic()
        counts, failures = fuzz(options.tries, options.seed)
        for failure in failures:
            print(failure)
        print(f"{sum(counts.values())} tries in {time.monotonic() - start:.0f} s: {dict(counts)}")
        sys.exit(bool(failures))


if __name__ == "__main__":
    main()
