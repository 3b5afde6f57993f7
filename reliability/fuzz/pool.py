"""Worker processes: each judges many programs; one that dies or hangs is replaced, and its program is recorded."""

from __future__ import annotations

import functools
import multiprocessing
import os
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .judge import DIED, EXCEPTION, REFUSED, TIMEOUT, Verdict

PER_WORKER = 400  # torch.jit keeps every script for good, so a worker is replaced now and then
SECONDS = 60.0  # of computing, for one program: a busy machine is no reason to call a program slow
WAITING = 10  # times as long by the clock, for a program that waits and does not compute


class _Worker:
    def __init__(self, judging: Callable[[int, Path], Verdict]) -> None:
        context = _context()
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, judging), daemon=True)
        self.process.start()
        theirs.close()
        try:
            self.connection.recv()
        except EOFError:
            raise RuntimeError("a worker of the fuzzer did not start; its own message is above") from None
        self.seed: int | None = None
        self.since, self.computed = time.monotonic(), 0.0
        self.done = 0

    def give(self, seed: int) -> None:
        self.seed, self.since, self.computed = seed, time.monotonic(), _computed(self.process.pid)
        self.connection.send(seed)

    def is_late(self, seconds: float) -> bool:
        """Whether the present program has had its time, by the clock of the processor or, much later, by that of the
        wall."""
        passed = time.monotonic() - self.since
        if passed <= seconds:
            return False
        return passed > WAITING * seconds or _computed(self.process.pid) - self.computed > seconds

    def stop(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


@functools.cache
def _context() -> Any:
    """Workers begin as copies of a process that has imported what they need, where the system has such copies: they
    start at once, and know nothing of the process that asks for them."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["reliability.fuzz.tasks"])
    return context


def _computed(pid: int | None) -> float:
    """The seconds that a process has computed for; by the wall's clock where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _work(connection: Connection, judging: Callable[[int, Path], Verdict]) -> None:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    connection.send("ready")
    with tempfile.TemporaryDirectory(prefix="onward-fuzz-") as folder:
        while True:
            try:
                seed = connection.recv()
            except EOFError:
                return
            try:
                verdict = judging(seed, Path(folder))
            except Exception as error:  # of the fuzzer itself: shown, never hidden
                verdict = Verdict(EXCEPTION, f"in the fuzzer: {type(error).__name__}: {error}")
            connection.send(verdict)


def judged(
    seeds: Iterable[int], jobs: int, judging: Callable[[int, Path], Verdict], *, seconds: float = SECONDS
) -> Iterator[tuple[int, Verdict]]:
    """The verdict on every seed, as they come. `judging` must be a function of a module, so that it can be pickled.

    What PyTorch refuses is judged again at the end, in a process in which nothing was exported: if PyTorch takes it
    there, an export before it has left something behind.
    """
    refused: dict[int, Verdict] = {}
    for seed, verdict in _judged(seeds, jobs, judging, seconds, fresh=False):
        if verdict.kind == REFUSED:
            refused[seed] = verdict
        else:
            yield seed, verdict
    for seed, verdict in _judged(refused, 1, judging, seconds, fresh=True):
        if verdict.kind != REFUSED:
            told = f"PyTorch refuses it behind other exports, and not in a fresh process: {refused[seed].detail}"
            verdict = Verdict(EXCEPTION, told)
        yield seed, verdict


def _judged(
    seeds: Iterable[int], jobs: int, judging: Callable[[int, Path], Verdict], seconds: float, *, fresh: bool
) -> Iterator[tuple[int, Verdict]]:
    """`fresh`: a process is replaced once it has exported something."""
    waiting = deque(seeds)
    workers: list[_Worker] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                workers.append(_Worker(judging))
                workers[-1].give(waiting.popleft())
            ready = wait([each.connection for each in workers], timeout=1.0)
            for worker in list(workers):
                verdict = _heard(worker, worker.connection in ready, seconds)
                if verdict is None:
                    continue
                assert worker.seed is not None
                yield worker.seed, verdict
                worker.done += 1
                gone = verdict.kind in (DIED, TIMEOUT) or (fresh and verdict.kind != REFUSED)
                if gone or not waiting or worker.done >= PER_WORKER:
                    worker.stop()
                    workers.remove(worker)
                else:
                    worker.give(waiting.popleft())
    finally:
        for worker in workers:
            worker.stop()


def _heard(worker: _Worker, ready: bool, seconds: float) -> Verdict | None:
    if ready:
        try:
            answer: Any = worker.connection.recv()
        except (EOFError, ConnectionError):
            worker.process.join()
            return Verdict(DIED, f"exit code {worker.process.exitcode}")
        return answer
    if worker.is_late(seconds):
        return Verdict(TIMEOUT, f"no answer within {seconds:g} s")
    return None
