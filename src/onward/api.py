"""`onward.export`, top to bottom."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from .capture import bind_call, dynamic_inputs, trace
from .capture.model import check_model, evaluation_mode, unwrap, without_compiling
from .errors import InputError
from .lower import has_lowering, lower_program
from .options import DEFAULT_OPSET, ExportOptions, check_flag
from .passes import tidy
from .program import Program
from .verify import load_onnxruntime
from .write.staging import check_target


def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | BinaryIO | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    opset_version: int | None = None,
    external_data: bool | None = None,
    use_external_data_format: bool | None = None,
    verify: bool = False,
    allow_static_axes: bool = False,
) -> Program:
    """Turn a live model into ONNX.

    model              an nn.Module or a function; DataParallel, DistributedDataParallel and torch.compile are unwrapped
    args, kwargs       an example call: a tensor, or a tuple (nested tuples, lists, dicts, dataclasses are fine; a
                       trailing dict holds keyword arguments). Tensors become inputs, everything else is baked in.
    f                  a path, a binary file object, or nothing: the program is returned in any case
    input_names        names for the first inputs; the rest are named after forward's parameters
    output_names       names for the first outputs
    dynamic_axes       axes that may vary: {"x": {0: "batch"}, "y": [0, 2]}; the same name is the same size
    opset_version      9 up to the newest that onnxruntime loads
    external_data      weights in a file of their own: True, False, or None for "when over 2 GiB"
    verify             compare onnxruntime with PyTorch on the example and at other sizes; a difference raises
    allow_static_axes  an axis that the model freezes is written as fixed, with a warning, instead of an error
    """
    check_target(f)
    options = ExportOptions(
        input_names=input_names,
        output_names=output_names,
        dynamic_axes=dynamic_axes,
        opset_version=DEFAULT_OPSET if opset_version is None else opset_version,
        external_data=_external(external_data, use_external_data_format, f),
        verify=verify,
        allow_static_axes=allow_static_axes,
    )
    if options.verify:
        load_onnxruntime()
    model = unwrap(model)
    check_model(model)
    call = bind_call(model, args, kwargs, options.input_names)
    input_axes, output_axes = dynamic_inputs(call, options.dynamic_axes, options.output_names)
    with evaluation_mode(model), without_compiling():
        captured = trace(
            model,
            call,
            input_axes,
            output_names=options.output_names,
            output_axes=output_axes,
            is_primitive=lambda op: has_lowering(op, options.opset_version),
            allow_static_axes=options.allow_static_axes,
        )
    program = Program(tidy(lower_program(captured, options.opset_version)), captured, model)
    if f is not None and options.verify:
        program.save_verified(f, external_data=options.external_data)
    elif f is not None:
        program.save(f, external_data=options.external_data)
    elif options.verify:
        program.verify()
    return program


def _external(external_data: bool | None, use_external_data_format: bool | None, f: Any) -> bool | None:
    """The old name and the new one for the same thing."""
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
    if external_data is not None and f is None:
        raise InputError(
            f"external_data={external_data!r} says how to write a file, and there is none to write",
            hint="give a path, or pass external_data to program.save(path) later",
        )
    if external_data and not isinstance(f, (str, os.PathLike)):
        raise InputError("a stream has no place for a data file", hint="give a path, or leave external_data out")
    return external_data
