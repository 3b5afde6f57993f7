"""Verification: the written model in onnxruntime against PyTorch, with tolerances that fit the type."""

from onward.capture.call.values import fresh
from onward.verify.all_runs import Subject, verify_runs
from onward.verify.compare import (
    Comparison,
    Tolerance,
    as_pytorch,
    check,
    compare,
    compare_output,
    raise_unless_ok,
    tolerances,
)
from onward.verify.one_run import verify_run
from onward.verify.other_sizes import resize, sizes_to_try
from onward.verify.randomness import random_outputs
from onward.verify.report import Check, Verification
from onward.verify.rounding import output_steps
from onward.verify.runtime import Session, load_onnxruntime, supported_opset

__all__ = [
    "Check",
    "Comparison",
    "Session",
    "Subject",
    "Tolerance",
    "Verification",
    "as_pytorch",
    "check",
    "compare",
    "compare_output",
    "fresh",
    "load_onnxruntime",
    "output_steps",
    "raise_unless_ok",
    "random_outputs",
    "resize",
    "sizes_to_try",
    "supported_opset",
    "tolerances",
    "verify_run",
    "verify_runs",
]
