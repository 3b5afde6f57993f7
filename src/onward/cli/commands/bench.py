"""`onward bench`: how long a file takes in onnxruntime, alone or beside another."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..console.command import EXIT_CODES, Answer, Debug, Json, ModelFile, table, working
from ..models.model_options import Inputs, Seed

EPILOG = f"""Examples:
  onward bench m.onnx -i "x:f32[8,3,224,224]" --threads 1
  onward bench less.onnx theirs.onnx       in turns, so that both have the same weather

{EXIT_CODES}
"""


def bench(
    model: ModelFile,
    other: Annotated[
        Path | None, typer.Argument(metavar="OTHER", help="Another file, run alternately with the first.")
    ] = None,
    input: Inputs = [],  # noqa: B006 (typer copies it)
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="How often each file is run.")] = 30,
    warmup: Annotated[
        int, typer.Option(metavar="N", min=0, help="How often each file is run before the time is taken.")
    ] = 3,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads for one operator; the default is onnxruntime's.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> Answer:
    """Time an ONNX file in onnxruntime; two files are run in turns."""
    from onward.errors import InputError
    from onward.verify import Session

    from ..files.file_inputs import feeds_of, given_inputs, open_file

    given = given_inputs(input, seed)
    opened = [open_file(path) for path in (model, other) if path is not None]
    with working("loading"):
        sessions = [Session(each.path, threads=threads, reproducible=False) for each in opened]
        feeds = feeds_of(opened[0], given, sessions[0].run)
    calls: list[Callable[[], Any]] = []
    for each, session in zip(opened, sessions, strict=True):
        if len(each.input_names) != len(feeds):
            raise InputError(f"'{each.path}' has the inputs {', '.join(each.input_names)}, and not those of '{model}'")
        same = set(each.input_names) == set(feeds)
        named = feeds if same else dict(zip(each.input_names, feeds.values(), strict=True))
        calls.append(lambda session=session, named=named: session.run(named))  # type: ignore[misc]
    times = timed(calls, rounds, warmup)
    rows: list[dict[str, Any]] = [
        {"file": str(each.path), **_summary(spent)} for each, spent in zip(opened, times, strict=True)
    ]
    data: dict[str, Any] = {"ok": True, "rounds": rounds, "threads": threads, "files": rows}
    if other is not None:
        data["ratio"] = rows[0]["median_ms"] / rows[1]["median_ms"]
    return Answer(data, lambda: _show(data))


def timed(calls: list[Callable[[], Any]], rounds: int, warmup: int) -> list[list[float]]:
    """Seconds of every call in every round; who goes first changes from round to round."""
    for _ in range(warmup):
        for call in calls:
            call()
    spent: list[list[float]] = [[] for _ in calls]
    for turn in _shown(range(rounds)):
        order = list(range(len(calls)))
        for place in order if turn % 2 == 0 else reversed(order):
            start = time.perf_counter()
            calls[place]()
            spent[place].append(time.perf_counter() - start)
    return spent


def _shown(rounds: range) -> Iterable[int]:
    if not sys.stderr.isatty():
        return rounds
    from rich.console import Console
    from rich.progress import track

    return track(rounds, "timing", console=Console(stderr=True), transient=True)


def _summary(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "median_ms": statistics.median(ordered) * 1e3,
        "min_ms": ordered[0] * 1e3,
        "p90_ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))] * 1e3,
    }


def _show(data: dict[str, Any]) -> None:
    rows = [[row["file"], *(f"{row[key]:.3f}" for key in ("median_ms", "min_ms", "p90_ms"))] for row in data["files"]]
    table(["file", "median ms", "min ms", "p90 ms"], rows)
    if "ratio" in data:
        slower = data["ratio"] > 1
        factor = data["ratio"] if slower else 1 / data["ratio"]
        print(f"\n{data['files'][0]['file']} is {factor:.2f} times {'slower' if slower else 'faster'} (medians)")
