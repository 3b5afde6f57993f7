"""`onward.export`, top to bottom."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, BinaryIO

import onnx_ir as ir

from .capture import CapturedProgram, asked_axes, bind_call, trace
from .capture.exported import check_mode, own_request
from .capture.exported_axes import program_axes
from .capture.model import (
    check_model,
    kept_together,
    modes_of,
    select_model_mode_for_export,
    unwrap,
    without_compiling,
)
from .capture.mutable import with_mutable_buffers
from .capture.weights import chosen_weights
from .classic import resolve
from .lower import keeps_whole, lower_program, registry_for
from .passes import expose_weights, modules_to_functions, tidy
from .program import Program
from .report import write_artifacts
from .stages import Stages
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
    verbose            print the graph, as print(program) does
    training           the mode in which the model is exported: onward.TrainingMode.EVAL, .TRAINING, or .PRESERVE
    mutable_buffers    True makes an input and an output of every buffer that the model changes, such as a KV cache
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
    args, kwargs, options = own_request(model, args, kwargs, options)
    call = bind_call(model, args, kwargs, options.input_names)
    if options.mutable_buffers:
        with select_model_mode_for_export(model, options.training), without_compiling():
            call = with_mutable_buffers(model, call)
    asked = asked_axes(model, call, options.dynamic_axes, options.dynamic_shapes, options.output_names)
    asked = program_axes(model, call, asked)
    registry = registry_for(options.custom_translation_table)
    stages = Stages()
    with stages("capture"), select_model_mode_for_export(model, options.training), without_compiling():
        modes = modes_of(model)
        weights = chosen_weights(model, options, call.weight_names)
        captured = trace(
            model,
            call,
            asked.inputs,
            output_names=options.output_names,
            output_axes=asked.outputs,
            space=asked.space,
            is_primitive=keeps_whole(
                options.operator_export_type,
                functools.cache(lambda op: registry.has_lowering(op, options.opset_version)),
            ),
            allow_static_axes=options.allow_static_axes,
            weights=weights,
        )
    together = kept_together(model, options.export_modules_as_functions)

    def build(captured: CapturedProgram) -> ir.Model:
        """The graph; `program.apply_weights` asks for it again."""
        with stages("lower"):
            graph = lower_program(
                captured,
                options.opset_version,
                registry=registry,
                custom_opsets=options.custom_opsets,
                doc_strings=not options.strip_doc_string,
                keep_together=together,
                operators=options.operator_export_type,
            )
        with stages("tidy"):
            graph = tidy(graph) if options.optimize else graph
            modules_to_functions(graph)
            if options.keep_initializers_as_inputs or not options.export_params:
                expose_weights(graph, [each.name for each in weights.state], keep=options.export_params)
        return graph

    program = Program(build(captured), captured, model, modes=modes, build=build, external_data=options.external_data)
    if options.verbose:
        print(program)
    if options.enable_onnx_checker:
        with stages("check"):
            program.check()
    verification = None
    with stages("write and verify" if options.verify else "write"):
        if f is not None and options.verify:
            verification = program.save_verified(f)
        elif f is not None:
            program.save(f)
        elif options.verify:
            verification = program.verify()
    if options.report or options.dump_exported_program:
        write_artifacts(
            program,
            options.artifacts_dir,
            report=options.report,
            captured=options.dump_exported_program,
            verification=verification,
        )
    if options.profile:
        print(stages)
    return program


_NOT_OPTIONS = ("model", "args", "f", "positional", "kwargs", "older")
