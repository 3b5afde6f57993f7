"""`torch.onnx.ExportableModule`: a module that says its example, its names and its dynamic axes itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from ...options import ExportOptions
from .front_end import PythonModel, is_none_given


class Exportable(PythonModel):
    """What the caller of `export` gives wins over what the module says."""

    brings_example = True

    def takes(self, model: Any) -> bool:
        kind = getattr(torch.onnx, "ExportableModule", None)  # not in every PyTorch
        return kind is not None and isinstance(model, kind)

    def example(
        self, model: Any, args: Any, kwargs: Mapping[str, Any] | None, options: ExportOptions
    ) -> tuple[Any, Mapping[str, Any] | None, ExportOptions]:
        if is_none_given(args, kwargs):
            args, kwargs = model.example_arguments()
        said = {name: getattr(model, name)() for name in ("input_names", "output_names") if not getattr(options, name)}
        if not options.dynamic_axes and options.dynamic_shapes is None:
            said["dynamic_shapes"] = model.dynamic_shapes()
        return args, kwargs, dataclasses.replace(options, **said)
