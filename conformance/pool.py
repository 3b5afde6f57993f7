"""Operators judged in processes of their own: what crashes or hangs costs one operator, not the run."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import torch

from .judge import Settings, Verdict, exporter, judge
from .operators import database
from .samples import samples

_START_SECONDS = 180.0
Task = tuple[str, str]  # operator, dtype


def work(connection: Connection, settings: Settings, count: int) -> None:
    """What a process does: an operator comes in, its samples' verdicts go out, one by one."""
    for stream in (1, 2):  # native code writes there too
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    torch.set_num_threads(1)
    infos, export = database(), exporter(settings)
    connection.send("ready")
    while True:
        key, dtype = connection.recv()
        drawn, passed_over = samples(infos[key], getattr(torch, dtype), count)
        looks = [(sample.text, sample.complex) for sample in drawn]
        connection.send(("samples", looks, dict(passed_over)))
        for sample in drawn:
            verdict = judge(sample, export, lambda stage: connection.send(("stage", stage)))
            connection.send(("verdict", verdict))
        connection.send(("done",))


class Worker:
    """A process, started again whenever it is lost."""

    def __init__(self, settings: Settings, count: int) -> None:
        self._settings, self._count = settings, count
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, self._settings, self._count), daemon=True)
        self._process.start()
        theirs.close()
        if self._next(time.monotonic() + _START_SECONDS) != "ready":
            raise SystemExit("a process of the sweep did not start; run one operator with --jobs 0 to see why")

    def _next(self, deadline: float) -> Any:
        """The next message; None if the process is gone or out of time."""
        with contextlib.suppress(EOFError, OSError):
            if self._connection.poll(max(0.0, deadline - time.monotonic())):
                return self._connection.recv()
        return None

    def judge(self, task: Task, seconds: float) -> dict[str, Any]:
        """All samples of an operator in a dtype. A process that is lost fails the sample it was at, and the rest."""
        began = time.monotonic()
        self._connection.send(task)
        looks: list[tuple[str, bool]] = []
        verdicts: list[Verdict] = []
        passed_over: dict[str, int] = {}
        stage = "export"
        while True:
            message = self._next(began + seconds)
            if message is None:
                reason = "out of time" if self._process.is_alive() else f"the process died ({self._process.exitcode})"
                self._process.kill()
                self._start()
                verdicts += [Verdict(stage, reason)] * (len(looks) - len(verdicts))
                break
            if message[0] == "samples":
                _, looks, passed_over = message
            elif message[0] == "stage":
                stage = message[1]
            elif message[0] == "verdict":
                verdicts.append(message[1])
            else:
                break
        judged = [
            {"sample": text, "complex": is_complex, **asdict(verdict)}
            for (text, is_complex), verdict in zip(looks, verdicts, strict=True)
        ]
        return {"op": task[0], "dtype": task[1], "samples": judged, "passed_over": passed_over,
                "seconds": round(time.monotonic() - began, 2)}  # fmt: skip

    def stop(self) -> None:
        self._process.kill()


def sweep(tasks: list[Task], settings: Settings, *, count: int, jobs: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Judge operators, several at a time; results in the order of the tasks."""
    os.environ["PYTHONHASHSEED"] = "0"  # for the processes: some of the database's generators iterate over sets
    workers: SimpleQueue[Worker] = SimpleQueue()
    made = [Worker(settings, count) for _ in range(min(jobs, len(tasks)))]
    for worker in made:
        workers.put(worker)

    def run(task: Task) -> dict[str, Any]:
        worker = workers.get()
        try:
            return worker.judge(task, seconds)
        finally:
            workers.put(worker)

    try:
        with ThreadPoolExecutor(max(1, len(made))) as threads:
            yield from threads.map(run, tasks)
    finally:
        for worker in made:
            worker.stop()
