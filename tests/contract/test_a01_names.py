"""The public names that scripts import from `torch.onnx` have counterparts (issue 3's second figure)."""

from __future__ import annotations

import importlib

import pytest

NAMES = (
    "export", "ONNXProgram", "OperatorExportTypes", "TrainingMode", "is_in_onnx_export", "register_custom_op_symbolic",
    "unregister_custom_op_symbolic", "select_model_mode_for_export", "set_training", "symbolic_helper.parse_args",
    "utils.export", "utils.is_in_onnx_export", "utils.register_custom_op_symbolic", "utils.set_training",
    "utils.select_model_mode_for_export", "operators.shape_as_tensor", "operators.reshape_from_tensor_shape",
    "errors.OnnxExporterError", "errors.OnnxExporterWarning", "errors.SymbolicValueError",
    "errors.UnsupportedOperatorError",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_has_a_counterpart(name: str) -> None:
    place, _, attribute = f"onward.onnx.{name}".rpartition(".")
    assert hasattr(importlib.import_module(place), attribute)
