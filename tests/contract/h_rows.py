"""Contract section H: the rows of its tables, and the runner that judges them.

A row is a model in plain Python, as users write it, with the example that it is exported with and other inputs. All
inputs together take every way through the model's code; `h_ways.py` checks that in plain PyTorch.

    ROWS = Table()

    @ROWS.row(floats(1, 2), floats(-1, -2))  # the example first, then the other inputs
    class Sign(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x - 1
"""

from __future__ import annotations

import inspect
import io
import os
import re
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal, TypeVar

import pytest
import torch
from torch import nn

import onward

from .h_not_yet import NOT_YET, SILENT
from .running import open_session, tensors_in

Args = tuple[torch.Tensor, ...]
Axes = Mapping[str, Mapping[int, str]]
Model = TypeVar("Model", bound=Callable[[], nn.Module])
SECONDS = 60  # of computing, after which a row counts as hanging: a busy machine is no reason to call it slow
RTOL, ATOL = 1e-4, 1e-5  # as in control.py


@dataclass(frozen=True)
class Row:
    """`expects` is what contract section H promises for the model.

    kept   the file is right for all inputs, and nothing warns
    warns  the line is named in a CaptureWarning or an error, unless the file is right for all inputs
    error  the line is named in an error
    """

    name: str
    model: Callable[[], nn.Module]
    args: Args
    others: tuple[Args, ...]
    axes: Axes = field(default_factory=dict)
    expects: Literal["kept", "warns", "error"] = "kept"
    reason: str = ""  # why the model cannot be kept
    raises: tuple[Args, ...] = ()  # inputs that the model itself refuses: the file owes nothing there

    def build(self) -> nn.Module:
        """A fresh model, the same every time."""
        torch.manual_seed(0)
        return self.model().eval()

    def expected(self, args: Args) -> list[torch.Tensor]:
        """What plain PyTorch computes, with a fresh model and on copies of the inputs."""
        with torch.no_grad(), redirect_stdout(io.StringIO()):
            return list(tensors_in(self.build()(*[arg.clone() for arg in args])))

    @property
    def file(self) -> str:
        """The name of the file that has the model's lines."""
        return os.path.basename(inspect.getsourcefile(self.model) or "")


class Table(list[Row]):
    """Rows in the order in which their models are written."""

    def row(
        self,
        example: torch.Tensor | Args,
        *others: torch.Tensor | Args,
        axes: Axes | None = None,
        expects: Literal["kept", "warns", "error"] = "kept",
        reason: str = "",
        raises: Sequence[torch.Tensor | Args] = (),
    ) -> Callable[[Model], Model]:
        """Make a row of the class below; its name becomes the row's."""

        def add(model: Model) -> Model:
            name = re.sub(r"(?<!^)(?=[A-Z])", "_", getattr(model, "__name__", "")).lower()
            first, *rest = map(_tuple, (example, *others))
            self.append(Row(name, model, first, tuple(rest), axes or {}, expects, reason, tuple(map(_tuple, raises))))
            return model

        return add


def _tuple(args: torch.Tensor | Args) -> Args:
    return (args,) if isinstance(args, torch.Tensor) else tuple(args)


# Inputs


def floats(*values: Any) -> torch.Tensor:
    """floats(1, 2) is a vector, floats([1, 2], [3, 4]) a matrix."""
    return torch.tensor(values, dtype=torch.float32)


def ints(*values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def bools(*values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bool)


def number(value: float) -> torch.Tensor:
    """A tensor without axes: of int64 if the value is an int, of float32 otherwise."""
    return torch.tensor(value, dtype=torch.int64 if isinstance(value, int) else torch.float32)


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normal random numbers, the same every time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(1000 * seed + sum(shape)))


def sizes(make: Callable[[int], torch.Tensor | Args], *counts: int) -> Iterator[torch.Tensor | Args]:
    """The same input at several sizes; a row spreads it: `*sizes(lambda n: noise(n, 4), 3, 0, 1, 2, 7)`."""
    return map(make, counts)


# The runner


@dataclass(frozen=True)
class Outcome:
    """What an export of a row came to.

    kept     no warning, and right for all inputs
    warned   a CaptureWarning names the line of the model
    error    an error before verification names the line of the model
    silent   wrong without a warning, whether verification noticed or only this runner
    vague    a warning or an error that names no line of the model
    crash    an exception that is not onward's own
    hangs    stopped after SECONDS
    """

    kind: Literal["kept", "warned", "error", "silent", "vague", "crash", "hangs"]
    text: str = ""  # the first line of the error or of the warning
    wrong: str = ""  # which input the file is wrong for, and how
    seconds: float = 0.0  # of the export

    def suits(self, row: Row) -> bool:
        """Whether this is what the contract promises."""
        if row.expects == "kept":
            return self.kind == "kept"
        if row.expects == "warns":
            return self.kind in ("kept", "warned", "error")
        return self.kind == "error"

    def __str__(self) -> str:
        wrong = f"wrong for {self.wrong}" if self.wrong else ""
        return ": ".join(filter(None, (self.kind, wrong, self.text)))


def judge(row: Row, seconds: int = SECONDS) -> Outcome:
    """Export the row, and compare the file with plain PyTorch on the example and on every other input.

    seconds  after which it is stopped; 0 if the caller does that
    """
    started = time.perf_counter()
    try:
        with _stopped_after(seconds) if seconds else nullcontext():
            return _judge(row, started)
    except _TooSlow:
        return Outcome("hangs", f"stopped after {seconds} s", seconds=time.perf_counter() - started)


def check(row: Row) -> None:
    """Fail unless the row comes to what the contract promises.

    A row that is not kept yet must at least be told of, in a warning or in an error.
    """
    outcome = judge(row)
    if not outcome.suits(row) and row.name in NOT_YET:
        assert outcome.kind in ("warned", "error") or row.name in SILENT, f"{row.name} is {outcome}"
        pytest.xfail(NOT_YET[row.name])
    assert outcome.suits(row), f"{row.name} is expected to be {row.expects}, and is {outcome}"


def _judge(row: Row, started: float) -> Outcome:
    wrong, caught = "", []
    try:
        with warnings.catch_warnings(record=True) as caught, redirect_stdout(io.StringIO()):
            warnings.simplefilter("always")
            program = onward.export(row.build(), _copies(row.args), dynamic_axes=row.axes or None, verify=True)
            file = program.proto().SerializeToString()
    except onward.VerifyError as error:  # without verify=True, only a warning would have said anything
        wrong = f"verification: {_line(error)}"
    except onward.ExportError as error:
        kind = "error" if row.file in str(error) else "vague"
        return Outcome(kind, _line(error), seconds=time.perf_counter() - started)
    except Exception as error:
        if isinstance(error, _TooSlow):
            raise
        return Outcome("crash", _line(error), seconds=time.perf_counter() - started)
    seconds = time.perf_counter() - started
    wrong = wrong or first_wrong(row, file)
    told = [each for each in caught if issubclass(each.category, onward.CaptureWarning)]
    named = [each for each in told if row.file in f"{each.message} {each.filename}"]
    if told:
        text = str((named or told)[0].message).splitlines()[0]
        return Outcome("warned" if named else "vague", text, wrong, seconds)
    return Outcome("silent" if wrong else "kept", "", wrong, seconds)


def first_wrong(row: Row, file: bytes) -> str:
    """Which input the file is wrong for, and how; nothing if it is right for all."""
    try:
        session = open_session(file)
    except Exception as error:
        return f"the file does not load: {_line(error)}"
    names = [node.name for node in session.get_inputs()]
    for number, args in enumerate((row.args, *row.others)):
        try:
            feed = dict(zip(names, (arg.numpy() for arg in args), strict=True))
            got = [torch.from_numpy(output) for output in session.run(None, feed)]
            expected = row.expected(args)
            assert len(got) == len(expected), f"{len(got)} outputs, and {len(expected)} are expected"
            for actual, wanted in zip(got, expected, strict=True):
                torch.testing.assert_close(actual, wanted, rtol=RTOL, atol=ATOL, equal_nan=True)
        except Exception as error:
            if isinstance(error, _TooSlow):
                raise
            what = "the example" if not number else f"other input {number} of {len(row.others)}"
            return f"{what}, of shapes {[tuple(arg.shape) for arg in args]}: {_line(error)}"
    return ""


class _TooSlow(Exception):
    pass


@contextmanager
def _stopped_after(seconds: int) -> Iterator[None]:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _copies(args: Iterable[torch.Tensor]) -> Args:
    """A model that writes to its inputs must not spoil the row."""
    return tuple(arg.clone() for arg in args)


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or 'no text').splitlines()[0]}"
