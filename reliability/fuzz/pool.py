"""Worker processes: each judges many programs; one that dies or hangs is replaced, and its program is recorded."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .judge import DIED, EXCEPTION, TIMEOUT, Verdict

PER_WORKER = 400  # torch.jit keeps every script for good, so a worker is replaced now and then
SECONDS = 60.0  # for one program


class _Worker:
    def __init__(self, judging: Callable[[int, Path], Verdict]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, judging), daemon=True)
        self.process.start()
        theirs.close()
        try:
            self.connection.recv()
        except EOFError:
            raise RuntimeError("a worker of the fuzzer did not start; its own message is above") from None
        self.seed: int | None = None
        self.since = time.monotonic()
        self.done = 0

    def give(self, seed: int) -> None:
        self.seed, self.since = seed, time.monotonic()
        self.connection.send(seed)

    def stop(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


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
    """The verdict on every seed, as they come. `judging` must be a function of a module, so that it can be pickled."""
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
                gone = verdict.kind in (DIED, TIMEOUT)
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
    if time.monotonic() - worker.since > seconds:
        return Verdict(TIMEOUT, f"no answer within {seconds:g} s")
    return None
