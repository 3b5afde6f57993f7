"""Exports from many threads at once, while others serve and train the same models: `python -m reliability.threads`.

Every model has a class of its own in a file of its own: an export reaches into the code and the globals of that file.
No thread may fail, every file must be byte for byte that of an export alone, and the process must be as it was.
"""

from __future__ import annotations

import argparse
import builtins
import importlib
import sys
import tempfile
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import onward

from .page import record

_HEAD = """
    import math
    import torch

    TABLE, SERVED, CALLS = {{}}, {{}}, []


    class Model(torch.nn.Module):
        width = {width}

        def __init__(self):
            super().__init__()
            self.first, self.norm = torch.nn.Linear({width}, 6), torch.nn.BatchNorm1d(6)
            self.attention = torch.nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)
            self.cache, self.count = {{}}, 0
"""

# What the forward of each file does: what an export has to look into Python for.
_BODIES = (
    """
        def forward(self, x):
            return torch.relu(self.norm(self.first(x)))
    """,
    """
        def forward(self, x):
            n = int(x.shape[0])
            if n not in TABLE:
                TABLE[n] = torch.arange(n).float()
            return self.first(x) + TABLE[n][:, None]
    """,
    """
        def forward(self, x):
            key = str(x.shape[0])
            if key not in self.cache:
                self.cache[key] = torch.arange(len(x)).float()
            return self.first(x) * self.cache[key][:, None]
    """,
    """
        def forward(self, x):
            rows, rest = divmod(x.shape[0], 2)
            return self.first(x[: max(min(rows + rest, 3), 1)])
    """,
    """
        def forward(self, x):
            scale = lambda v: int(v) + float(len(x))
            return self.norm(self.first(x)) * scale(2.5) if isinstance(self.count, int) else x
    """,
    """
        def forward(self, x):
            return self.attention(self.first(x)[None])[0]
    """,
    """
        def forward(self, x):
            CALLS.append(1)
            return torch.stack([part.mean() for part in self.first(x).split(2, 1)])
    """,
    """
        def forward(self, x):
            chosen = x[: int((x.abs().sum() >= 0).item()) + 1]
            return self.first(chosen) * math.sqrt(self.width)
    """,
)


@dataclass
class Work:
    """A model in its file, what it is called with, and the file that an export of it alone gives."""

    module: ModuleType
    model: torch.nn.Module
    x: torch.Tensor
    axes: dict[str, dict[int, str]] | None
    alone: bytes = b""

    def export(self) -> bytes:
        options: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": self.axes, "verify": True}
        return onward.export(self.model, (self.x,), **options).proto().SerializeToString()


@dataclass
class Figures:
    """What happened."""

    exports: int = 0
    different: int = 0
    served: int = 0
    steps: int = 0
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)
    unharmed: bool = True

    @property
    def is_clean(self) -> bool:
        return not self.errors and not self.different and self.unharmed

    def lines(self) -> list[str]:
        return [
            f"{self.exports} exports with `verify=True` in {self.seconds:.0f} s, while other threads ran {self.served} "
            f"forward passes and {self.steps} steps of training:",
            "",
            f"- threads that failed: {len(self.errors)}",
            f"- files that differ from that of a lone export: {self.different}",
            f"- builtins, code and globals of the models' files: {'as before' if self.unharmed else 'changed'}",
        ]


def works(folder: Path, count: int) -> list[Work]:
    """Models in files of their own, each different from the others."""
    found = []
    for number in range(count):
        name = f"threads_model_{number}"
        width = 4 + number
        text = textwrap.dedent(_HEAD.format(width=width)) + textwrap.indent(
            textwrap.dedent(_BODIES[number % len(_BODIES)]), "    "
        )
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        module = importlib.import_module(name)
        torch.manual_seed(number)
        axes = {"x": {0: "rows"}} if number % len(_BODIES) in (0, 1, 2, 5) else None
        found.append(Work(module, module.Model().eval(), torch.randn(5, width), axes))
    return found


def run(threads: int, exports: int, servers: int = 2, trainers: int = 1) -> Figures:
    """So many threads with so many exports each, and others that serve and train."""
    figures, stop, lock = Figures(), threading.Event(), threading.Lock()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.path.insert(0, folder)
        try:
            todo = works(Path(folder), threads)
            for each in todo:
                each.alone = each.export()
            before = _state(todo)

            def guarded(work: Callable[[], None]) -> threading.Thread:
                def body() -> None:
                    try:
                        work()
                    except BaseException as error:
                        with lock:
                            figures.errors.append(f"{type(error).__name__}: {error}")

                return threading.Thread(target=body)

            def exporting(work: Work) -> Callable[[], None]:
                def body() -> None:
                    for _ in range(exports):
                        same = work.export() == work.alone
                        with lock:
                            figures.exports += 1
                            figures.different += not same

                return body

            def serving() -> None:
                turn = 0
                while not stop.is_set():
                    each = todo[turn % len(todo)]
                    with torch.no_grad():
                        result = each.model(torch.ones(3 + turn % 4, each.x.shape[1]))
                    if type(result) is not torch.Tensor or torch.compiler.is_exporting():
                        raise AssertionError(f"a serving thread got {type(result)}")
                    each.module.SERVED[threading.get_ident(), turn] = turn
                    turn += 1
                    with lock:
                        figures.served += 1
                for number in range(turn):
                    if (threading.get_ident(), number) not in todo[number % len(todo)].module.SERVED:
                        raise AssertionError("an entry of a serving thread is gone")

            def training() -> None:
                twins = [each.module.Model() for each in todo]
                optimizers = [torch.optim.SGD(each.parameters(), 0.01) for each in twins]
                turn = 0
                while not stop.is_set():
                    place = turn % len(twins)
                    optimizers[place].zero_grad()
                    loss = twins[place](torch.randn(4, todo[place].x.shape[1])).square().mean()
                    loss.backward()
                    if twins[place].first.weight.grad is None:
                        raise AssertionError("a training thread lost its gradients")
                    optimizers[place].step()
                    turn += 1
                    with lock:
                        figures.steps += 1

            others = [*(guarded(serving) for _ in range(servers)), *(guarded(training) for _ in range(trainers))]
            workers = [guarded(exporting(each)) for each in todo]
            start = time.perf_counter()
            for thread in (*others, *workers):
                thread.start()
            for thread in workers:
                thread.join()
            figures.seconds = time.perf_counter() - start
            stop.set()
            for thread in others:
                thread.join()
            figures.unharmed = _state(todo) == before
        finally:
            sys.path.remove(folder)
            for number in range(threads):
                sys.modules.pop(f"threads_model_{number}", None)
    return figures


def _state(todo: list[Work]) -> list[Any]:
    """Builtins, the models' code and the globals of their files, by identity."""
    found: list[Any] = [{name: id(value) for name, value in vars(builtins).items()}]
    for each in todo:
        found.append(id(each.module.Model.forward.__code__))
        found.append({name: id(value) for name, value in vars(each.module).items()})
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m reliability.threads", description=__doc__)
    parser.add_argument("--threads", type=int, default=8, help="threads that export (default: 8)")
    parser.add_argument("--exports", type=int, default=50, help="exports in each of them (default: 50)")
    parser.add_argument("--no-record", action="store_true", help="do not write the figures into docs/reliability.md")
    asked = parser.parse_args()
    figures = run(asked.threads, asked.exports)
    print("\n".join(figures.lines()))
    for error in figures.errors[:10]:
        print(error, file=sys.stderr)
    if not asked.no_record:
        record("threads", figures.lines())
    return 0 if figures.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
