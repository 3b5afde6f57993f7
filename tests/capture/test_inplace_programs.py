"""Random programs of views, writes and reads say the same when they are captured.

`ONWARD_PROGRAMS=2000 pytest tests/capture/test_inplace_programs.py` runs that many. All go through capture, and the
captured program runs in PyTorch at several sizes; every tenth goes through onnxruntime as well.
"""

from __future__ import annotations

import functools
import os
import warnings

import hypothesis
import torch

import onward
from onward.capture.program.execute import execute
from onward.verify import Session

from .inplace_programs import SIZES, Step, inputs_at, programs, run
from .tracing import traced

COUNT = int(os.environ.get("ONWARD_PROGRAMS", "60"))
AXES = {"x": {0: "rows"}, "k": {0: "rows"}}
SETTINGS = hypothesis.settings(
    max_examples=COUNT,
    deadline=None,
    derandomize="ONWARD_PROGRAMS" not in os.environ,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


def compare(wanted: tuple[torch.Tensor, ...], got: tuple[torch.Tensor, ...], where: str) -> None:
    for number, (want, have) in enumerate(zip(wanted, got, strict=True)):
        assert want.dtype == have.dtype, f"register {number} {where}"
        torch.testing.assert_close(
            have, want, equal_nan=True, msg=lambda text, n=number: f"register {n} {where}: {text}"
        )


def model_of(steps: tuple[Step, ...]) -> functools.partial[tuple[torch.Tensor, ...]]:
    model = functools.partial(run, steps)
    model.__name__ = "program"  # type: ignore[attr-defined]
    return model


@SETTINGS
@hypothesis.given(programs())
def test_captured_programs_say_the_same(steps: tuple[Step, ...]) -> None:
    model = model_of(steps)
    example = inputs_at(SIZES[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        # A part of an axis is shorter where the axis is; the sizes here are all longer than that.
        warnings.filterwarnings("ignore", ".*length_of_slice", onward.CaptureWarning)
        program = traced(model, example, AXES)
    for mine, fresh in zip(example, inputs_at(SIZES[0]), strict=True):
        assert torch.equal(mine, fresh), "the example was changed"
    for rows in SIZES:
        compare(model(*inputs_at(rows)), execute(program, inputs_at(rows)), f"at {rows} rows")


@hypothesis.settings(SETTINGS, max_examples=max(1, COUNT // 10))
@hypothesis.given(programs(most=8))
def test_exported_programs_say_the_same(steps: tuple[Step, ...]) -> None:
    model = model_of(steps)
    program = onward.export(model, inputs_at(SIZES[0]), dynamic_axes=AXES, allow_constant_outputs=True)
    session = Session(program.model, threads=1)
    for rows in SIZES:
        compare(model(*inputs_at(rows)), tuple(session.run(list(inputs_at(rows)))), f"at {rows} rows")
