"""`onward.export`, top to bottom."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, BinaryIO

from .capture.frontends.exported import check_mode
from .capture.frontends.model import check_model, unwrap
from .classic import resolve
from .program import Program
from .report import write_report
from .stages import Stages
from .steps import builder, capture, collecting_later, hand_over
from .verify import load_onnxruntime
from .write.staging import check_target


def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | BinaryIO | None = None,
    *positional: Any,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    opset_version: int | None = None,
    verify: bool | None = None,
    allow_static_axes: bool | None = None,
    allow_constant_outputs: bool | None = None,
    external_data: bool | None = None,
    optimize: bool | None = None,
    verbose: bool | None = None,
    strip_doc_string: bool | None = None,
    training: Any = None,
    operator_export_type: Any = None,
    export_params: bool | None = None,
    keep_initializers_as_inputs: bool | None = None,
    do_constant_folding: bool | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    custom_translation_table: Mapping[Any, Any] | None = None,
    export_modules_as_functions: bool | Collection[type] | None = None,
    report: bool | None = None,
    profile: bool | None = None,
    dump_exported_program: bool | None = None,
    artifacts_dir: str | os.PathLike[str] | None = None,
    enable_onnx_checker: bool | None = None,
    mutable_buffers: bool | None = None,
    quant_format: str | None = None,
    dynamo: bool | None = None,
    autograd_inlining: bool | None = None,
    **older: Any,
) -> Program:
    """Turn a live model into ONNX.

    model              an nn.Module, a function, a script, or an ExportedProgram with its own example and dynamic axes;
                       DataParallel, DistributedDataParallel and torch.compile are unwrapped
    args, kwargs       an example call: a tensor, or a tuple (nested tuples, lists, dicts, dataclasses are fine; a
                       trailing dict holds keyword arguments). Tensors become inputs, everything else is baked in.
    f                  a path, a binary file object, or nothing: the program is returned in any case
    input_names        names for the first inputs; the rest are named after forward's parameters
    output_names       names for the first outputs
    dynamic_axes       axes that may vary: {"x": {0: "batch"}, "y": [0, 2]}; the same name is the same size
    dynamic_shapes     the same in every form of torch.export, such as {"x": {0: Dim("batch", max=64)}}
    opset_version      9 up to the newest that onnxruntime loads
    verify             compare onnxruntime with PyTorch on the example and at other sizes; a difference raises
    allow_static_axes  an axis that the model freezes is written as fixed, with a warning, instead of an error
    allow_constant_outputs
                       an output that depends on no input is written as the constant it is, instead of an error
    verbose            print the graph, as print(program) does
    training           the mode in which the model is exported: onward.TrainingMode.EVAL, .TRAINING, or .PRESERVE
    mutable_buffers    True makes an input and an output of every buffer that the model changes, such as a KV cache
    quant_format       how a quantised model is written: "qdq", standard ONNX, or "linger", for its chips
    export_params      False makes inputs of the parameters, in the order of the state dict
    external_data      weights in a file of their own: True, False, or None for "when over 2 GiB"

    docs/migrating.md says what every parameter of `torch.onnx.export`, of today and of older versions, does here.
    """
    named = {name: value for name, value in locals().items() if name not in _NOT_OPTIONS}
    check_target(f)
    options = resolve(positional, {**named, **older}, f)
    if options.verify:
        load_onnxruntime()
    model = unwrap(model)
    check_model(model)
    check_mode(model, options.training)
    stages = Stages()
    with collecting_later():
        with stages("capture"):
            taken = capture(model, args, kwargs, options)
        build = builder(model, taken.weights, options, stages)
        graph = build(taken.program)
    program = Program(
        graph,
        taken.program,
        model,
        modes=taken.modes,
        build=build,
        external_data=options.external_data,
        reporter=write_report,
    )
    hand_over(program, f, options, stages)
    return program


_NOT_OPTIONS = ("model", "args", "f", "positional", "kwargs", "older")
