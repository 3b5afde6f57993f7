"""Verification: the written model in onnxruntime against PyTorch, with tolerances that fit the type."""

from onward.capture.call.values import fresh
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
from onward.verify.randomness import random_outputs
from onward.verify.report import Check, Verification
from onward.verify.rounding import output_steps
from onward.verify.run import verify_run
from onward.verify.runs import Subject, verify_runs
from onward.verify.runtime import Session, load_onnxruntime, supported_opset
from onward.verify.sizes import resize, sizes_to_try

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
