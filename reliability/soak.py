"""`make soak`: thousands of exports in one process; neither memory nor the time of an export may grow.

The models are varied small ones with weights of their own each time, exported with and without dynamic axes, saved, and
now and then verified. Memory is what the operating system counts after garbage was collected and free pages were
handed back.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import io
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

import onward

from .page import record

EARLY = 200  # exports until caches are full; what is measured afterwards is compared with this
MOST_GROWTH = 0.02


class Convolutions(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.last = nn.Linear(width, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(x).mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, width)
        self.steps = nn.LSTM(width, 4, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, (state, _) = self.steps(self.embedding(x))
        return out[:, -1], state.transpose(0, 1).flatten(1)


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(2 * width, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        n = x.shape[1]
        y = self.layer(x + torch.arange(n)[:, None] / n)
        return {"all": y, "half": y[:, : (n + 1) // 2].sum(1)}


class Writes(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.weight
        y[:, 0] += 1
        if x.shape[1] > 100:
            y = y * 2
        return torch.cat([y, torch.zeros(x.shape[0], 2)], 1).sort(dim=1).values


class Scripted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(x[0])
        for i in range(x.size(0)):
            total = total + x[i] * i
        return total


_SCRIPT = torch.jit.script(Scripted())  # once: torch.jit keeps every script for the life of the process


def _cases() -> list[Callable[[int], tuple[nn.Module, tuple[torch.Tensor, ...]]]]:
    def image(at: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        return Convolutions(2 + at % 5), (torch.randn(1 + at % 3, 3, 8, 8),)

    def text(at: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        return Recurrent(3 + at % 4), (torch.randint(0, 11, (2, 4 + at % 3)),)

    def sequence(at: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        width = 2 + at % 3
        return Attention(width).eval(), (torch.randn(2, 4 + at % 4, 2 * width),)

    def written(at: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        return Writes(3 + at % 4), (torch.randn(2 + at % 3, 3 + at % 4),)

    def script(at: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        return _SCRIPT, (torch.randn(3, 2 + at % 4),)

    return [image, text, sequence, written, script]


def export_once(at: int) -> None:
    """The model of this number, exported and saved; every tenth is verified, every fifth has fixed axes."""
    cases = _cases()
    torch.manual_seed(at)
    model, example = cases[at % len(cases)](at // len(cases))
    axes = None if at % 5 == 4 and at % 2 else {"x": {0: "batch"}}
    turn = at // len(cases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onward.CaptureWarning)
        program = onward.export(
            model, example, io.BytesIO(), input_names=["x"], dynamic_axes=axes, opset_version=(None, 13, 17)[turn % 3],
            verify=turn % 10 == 0,
        )  # fmt: skip
    assert program.inputs


@dataclass(frozen=True)
class Soak:
    """memory  bytes after EARLY exports and at the end; times  of every export, in seconds"""

    count: int
    early: int
    memory: tuple[int, int]
    times: tuple[float, ...]

    @property
    def growth(self) -> float:
        return self.memory[1] / self.memory[0] - 1

    @property
    def slower(self) -> float:
        """The last tenth against the tenth behind the early exports."""
        tenth = max(self.count // 10, 1)
        early, late = self.times[self.early : self.early + tenth], self.times[-tenth:]
        return statistics.fmean(late) / statistics.fmean(early) - 1

    def lines(self) -> list[str]:
        first, last = (each / 2**20 for each in self.memory)
        tenth = max(self.count // 10, 1)
        early = 1000 * statistics.fmean(self.times[self.early : self.early + tenth])
        late = 1000 * statistics.fmean(self.times[-tenth:])
        return [
            f"`python -m reliability.soak -n {self.count}`: {self.count:,} exports of small models in one process.",
            "",
            "| | early | at the end | change |",
            "|---|---:|---:|---:|",
            f"| memory after {self.early} and {self.count} exports "
            f"| {first:.1f} MiB | {last:.1f} MiB | {self.growth:+.1%} |",
            f"| time of an export, mean of a tenth | {early:.1f} ms | {late:.1f} ms | {self.slower:+.1%} |",
        ]


def soak(count: int, early: int = EARLY, *, step: Callable[[int], None] = export_once) -> Soak:
    """Run `count` exports and measure."""
    times, first = [], 0
    for at in range(count):
        began = time.perf_counter()
        step(at)
        times.append(time.perf_counter() - began)
        if at + 1 == early:
            first = resident()
        if (at + 1) % 200 == 0:
            print(f"{at + 1} of {count} exports, {resident() / 2**20:.1f} MiB", flush=True)
    return Soak(count, early, (first, resident()), tuple(times))


def resident() -> int:
    """Bytes of memory that this process holds, without garbage and without free pages."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reliability.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-n", "--exports", type=int, default=2000, metavar="N", help="how many exports (2000)")
    parser.add_argument("--record", action="store_true", help="write the figures into docs/reliability.md")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    measured = soak(options.exports, min(EARLY, options.exports // 2))
    print("\n".join(measured.lines()))
    if options.record:
        record("soak", measured.lines())
    return 1 if measured.growth > MOST_GROWTH else 0


if __name__ == "__main__":
    sys.exit(main())
