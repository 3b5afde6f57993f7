"""`python -m bench.python_code`: ordinary Python in `forward`, exported by onward and by both exporters of PyTorch.

Each file runs in onnxruntime on inputs that the exporter did not see: other data, which takes the other way through
the code, or other sizes of the dynamic axis. A file is right if it gives PyTorch's results on all of them. A file that
fails on one of them is wrong.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnxruntime
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from .exporters import EXPORTERS
from .models import BenchModel

RIGHT, WRONG, REFUSED = "right", "wrong", "refuses"


class Steps(nn.Module):
    """A recurrent cell, called for every step of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(x.shape[1], 4)
        for step in x:
            state = self.cell(step, state)
        return state


def branch(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x - 1


def early_return(x: Tensor) -> Tensor:
    if x.abs().max() < 1:
        return x
    return x / x.abs().max()


def halve(x: Tensor) -> Tensor:
    while x.abs().sum() > 4:
        x = x / 2
    return x


def search(x: Tensor) -> Tensor:
    total = torch.zeros(4)
    for row in x:
        total = total + row
        if total.max() > 2:
            break
    return total


def many_rows(x: Tensor) -> Tensor:
    return x.mean(0) if x.shape[0] > 6 else x.sum(0)


def pad_to_even(x: Tensor) -> Tensor:
    if x.shape[0] % 2:
        x = nn.functional.pad(x, (0, 0, 0, 1))
    return x.reshape(x.shape[0] // 2, 8)


def scaled(x: Tensor) -> Tensor:
    return x[: int(x.shape[0] * 0.5) + 1] * x.shape[0]


def positions(x: Tensor) -> Tensor:
    return x + torch.arange(len(x)).unsqueeze(1) / x.shape[0]


class Calls(nn.Module):
    """A function as a module, which is what all exporters take."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@dataclass(frozen=True)
class Row:
    title: str
    model: Callable[[], nn.Module]
    example: Tensor
    others: tuple[Tensor, ...]


def _rows(*sizes: int, scale: float = 1.0) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(scale * torch.randn(size, 4, generator=generator) for size in sizes)


SMALL, LARGE = torch.full((3, 4), 0.1), torch.full((3, 4), 9.0)
DATA = (
    Row("if on data", lambda: Calls(branch), SMALL, (-SMALL, LARGE)),
    Row("early return on data", lambda: Calls(early_return), SMALL, (LARGE, -LARGE)),
    Row("while on data", lambda: Calls(halve), LARGE, (SMALL, 4 * LARGE)),
    Row("for over an axis, with break", lambda: Calls(search), SMALL, (LARGE, *_rows(1, 9))),
    Row("for over an axis, with state", Steps, torch.randn(3, 2, 4), (torch.randn(1, 2, 4), torch.randn(7, 2, 4))),
)
SIZES = (
    Row("if on a size", lambda: Calls(many_rows), _rows(4)[0], _rows(2, 9)),
    Row("pad to an even size", lambda: Calls(pad_to_even), _rows(4)[0], _rows(2, 5, 7)),
    Row("int() and slices of a size", lambda: Calls(scaled), _rows(4)[0], _rows(2, 5, 9)),
    Row("len() and arange", lambda: Calls(positions), _rows(4)[0], _rows(2, 5, 9)),
)


def outcome(row: Row, exporter: str, folder: Path) -> str:
    """Whether an exporter refuses the model, writes a file that is right on every input, or writes one that is not."""
    torch.manual_seed(0)
    model = row.model().eval()
    sizes = {"n": len(row.example)}
    spec = BenchModel(
        "row", row.title, lambda: model, lambda *_: (row.example,), ("x",), {"x": {0: "n"}}, sizes, sizes, sizes
    )
    path = folder / f"{exporter}.onnx"
    path.unlink(missing_ok=True)
    with warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")
        try:
            EXPORTERS[exporter](spec, None)(model, (row.example,), path)
        except Exception:
            return REFUSED
    return RIGHT if _agrees(model, path, (row.example, *row.others)) else WRONG


def _agrees(model: nn.Module, path: Path, inputs: Sequence[Tensor]) -> bool:
    """Whether onnxruntime and PyTorch have the same results. A file that fails at a size is wrong there."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), settings)
        (name,) = (each.name for each in session.get_inputs())
        answers = [torch.from_numpy(session.run(None, {name: each.numpy()})[0]) for each in inputs]
    except Exception:
        return False
    with torch.no_grad():
        expected = [model(each) for each in inputs]
    return all(
        ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)
        for ours, theirs in zip(answers, expected, strict=True)
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Exporters print progress and log what they cannot do."""
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)


def measure() -> dict[str, dict[str, str]]:
    """By the title of a row, and then by exporter."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            row.title: {exporter: outcome(row, exporter, Path(folder)) for exporter in EXPORTERS}
            for row in (*DATA, *SIZES)
        }


def show(results: dict[str, dict[str, str]], console: Console) -> None:
    table = Table("model", *EXPORTERS)
    for title, answers in results.items():
        table.add_row(title, *(answers[exporter] for exporter in EXPORTERS))
    for name, rows in (("right, control flow on data", DATA), ("right, Python on sizes", SIZES)):
        count = {each: sum(results[row.title][each] == RIGHT for row in rows) for each in EXPORTERS}
        table.add_row(name, *(f"{count[exporter]} of {len(rows)}" for exporter in EXPORTERS))
    console.print(table)


if __name__ == "__main__":
    show(measure(), Console())
