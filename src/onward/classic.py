"""Parameters from every age of `torch.onnx.export`, brought into one form.

Scripts written for PyTorch 1.3 and for today's are called alike: what still means something acts, under its old name
and by position where it could be given by position; what no longer means anything is accepted with one warning that
says why; what no version ever had is a TypeError.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import InputError
from .options import (
    DEFAULT_OPSET,
    ExportOptions,
    OperatorExportTypes,
    check_flag,
    operator_export_type,
    training_mode,
)

# Every version up to PyTorch 2.4 took these by position after `f`; what came after them differed between versions.
POSITIONAL = ("export_params", "verbose", "training", "input_names", "output_names")

# Accepted, and without meaning here.
WITHOUT_MEANING = {
    "dynamo": "there is one way to capture a model here, and it needs no choice",
    "fallback": "there is one way to capture a model here, and nothing to fall back to",
    "autograd_inlining": "an autograd.Function is written by its symbolic if it has one, otherwise by what it computes",
    "example_outputs": "the outputs are those of the example call, which is run anyway",
    "_retain_param_name": "parameters always keep their names",
    "add_node_names": "nodes always have names",
    "onnx_shape_inference": "shapes are known from running the model",
    "fixed_batch_size": "an axis is fixed unless dynamic_axes or dynamic_shapes says otherwise",
    "propagate": "shapes are known from running the model",
    "google_printer": "verbose=True prints one format",
    "use_new_jit_passes": "TorchScript's passes are not used",
    "onnxscript_compatibility": "onnxscript is not used",
}

# Other names for what another parameter does today.
_SYNONYMS = ("aten", "export_raw_ir", "use_external_data_format")

_ACTING = (
    "input_names", "output_names", "dynamic_axes", "dynamic_shapes", "opset_version", "external_data",
    "verify", "allow_static_axes", "allow_constant_outputs", "optimize", "verbose", "strip_doc_string", "training",
    "operator_export_type",
    "export_params", "keep_initializers_as_inputs", "do_constant_folding", "custom_opsets", "custom_translation_table",
    "export_modules_as_functions", "report", "profile", "dump_exported_program", "artifacts_dir", "enable_onnx_checker",
    "mutable_buffers", "quant_format",
)  # fmt: skip

PARAMETERS = (*_ACTING, *_SYNONYMS, *WITHOUT_MEANING)

# What calls get that do not say otherwise; `onward.init` sets it.
defaults: dict[str, Any] = {}

_warned: set[str] = set()


def resolve(positional: Sequence[Any], named: Mapping[str, Any], f: Any) -> ExportOptions:
    """The options that a call asks for. A parameter that is None was not given."""
    given = {name: value for name, value in named.items() if value is not None}
    _add_positional(given, positional)
    given = {**defaults, **given}
    for name in given:
        if name not in PARAMETERS:
            close = difflib.get_close_matches(name, PARAMETERS, n=1, cutoff=0.5)
            advice = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"export() got an unexpected keyword argument {name!r}{advice}")
    for name in [name for name in given if name in WITHOUT_MEANING]:
        _warn_once(name, WITHOUT_MEANING[name])
        del given[name]
    given["operator_export_type"] = _operators(given)
    given["external_data"] = _external(given.pop("external_data", None), given.pop("use_external_data_format", None), f)
    given["training"] = training_mode(given.get("training"))
    given.setdefault("opset_version", DEFAULT_OPSET)
    return ExportOptions(**given)


def _add_positional(given: dict[str, Any], positional: Sequence[Any]) -> None:
    more = len(positional) - len(POSITIONAL)
    if more > 0:
        raise TypeError(
            f"export() takes {', '.join(POSITIONAL)} by position after f, and got {more} more: "
            "their order differed between versions of PyTorch, so pass them by name"
        )
    for name, value in zip(POSITIONAL, positional, strict=False):
        if name in given:
            raise TypeError(f"export() got multiple values for argument {name!r}")
        if value is not None:
            given[name] = value


def _warn_once(name: str, reason: str) -> None:
    if name not in _warned:
        _warned.add(name)
        warnings.warn(f"{name} has no meaning in onward: {reason}", UserWarning, stacklevel=4)


def _operators(given: dict[str, Any]) -> OperatorExportTypes:
    """`aten=True` and `export_raw_ir=True` are what `operator_export_type` was before it had a name."""
    asked = {operator_export_type(given.pop("operator_export_type"))} if "operator_export_type" in given else set()
    for name, kind in (("aten", OperatorExportTypes.ONNX_ATEN), ("export_raw_ir", OperatorExportTypes.RAW)):
        value = given.pop(name, False)
        check_flag(name, value, "True or False")
        if value:
            asked.add(kind)
    if len(asked) > 1:
        raise InputError(
            "aten, export_raw_ir and operator_export_type contradict each other: "
            + ", ".join(sorted(kind.name for kind in asked)),
            hint="give operator_export_type alone",
        )
    return asked.pop() if asked else OperatorExportTypes.ONNX


def _external(external_data: bool | None, use_external_data_format: bool | None, f: Any) -> bool | None:
    """The old name and the new one for the same thing. Without a file, it is what `program.save` will do."""
    check_flag("external_data", external_data, "True, False or None")
    check_flag("use_external_data_format", use_external_data_format, "True, False or None")
    if None not in (external_data, use_external_data_format) and external_data is not use_external_data_format:
        raise InputError(
            f"external_data={external_data!r} and use_external_data_format={use_external_data_format!r} "
            "contradict each other",
            hint="give external_data alone",
        )
    if external_data is None and use_external_data_format:
        external_data = True  # False was the old default, and never kept a large model from being split
    if external_data and not (f is None or isinstance(f, (str, os.PathLike))):
        raise InputError("a stream has no place for a data file", hint="give a path, or leave external_data out")
    return external_data


__all__ = ["PARAMETERS", "POSITIONAL", "WITHOUT_MEANING", "resolve"]
