"""The steps of an export, each a function; `api.export` puts them in a row."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from .capture import CapturedProgram, asked_axes, bind_call, trace
from .capture.attempt.mutable_buffers import with_mutable_buffers
from .capture.call.weights import Weights
from .capture.frontends.front_ends import front_end_of
from .capture.frontends.model import Modes, kept_together, modes_of, select_model_mode_for_export
from .capture.frontends.twins import one_copy
from .capture.ground.threads import ONE_AT_A_TIME
from .capture.python.compiling import without_compiling
from .errors import FrozenAxisError, RefusedSizesError
from .lower import keeps_whole, lower_program, registry_for
from .lower.file_formats import check_prepared, format_named
from .lower.origins import keep_present
from .options import ExportOptions
from .passes import expose_weights, modules_to_functions, tidy
from .program import Program
from .report import write_artifacts
from .stage_times import Stages


@contextlib.contextmanager
def collecting_later() -> Iterator[None]:
    """Garbage is collected after an export, not in the middle of it: one pass over a process with large packages takes
    as long as a small export."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@dataclass(frozen=True)
class Taken:
    """A captured model: the program, the weights as the export asks for them, and every module's mode meanwhile."""

    program: CapturedProgram
    weights: Weights
    modes: Modes


def capture(model: Any, args: Any, kwargs: Mapping[str, Any] | None, options: ExportOptions) -> Taken:
    """Run the model under the tracer, as the options ask."""
    check_prepared(model, options)
    front_end = front_end_of(model)
    args, kwargs, options = front_end.example(model, args, kwargs, options)
    call = bind_call(model, args, kwargs, options.input_names, front_end.signature(model))
    if options.mutable_buffers:
        with ONE_AT_A_TIME, select_model_mode_for_export(model, options.training), without_compiling():
            call = with_mutable_buffers(model, call)
    asked = asked_axes(model, call, options.dynamic_axes, options.dynamic_shapes, options.output_names)
    asked = front_end.axes(model, call, asked)
    registry = registry_for(options.custom_translation_table)
    has_lowering = functools.cache(lambda op, of_complex: registry.has_lowering(op, options.opset_version, of_complex))
    with ONE_AT_A_TIME, select_model_mode_for_export(model, options.training), without_compiling(), one_copy():
        modes = modes_of(model)
        weights = front_end.weights(model, options, call.weight_names)
        try:
            program = trace(
                model,
                call,
                asked.inputs,
                output_names=options.output_names,
                output_axes=asked.outputs,
                space=asked.space,
                is_primitive=keeps_whole(options.operator_export_type, has_lowering),
                allow_static_axes=options.allow_static_axes,
                allow_constant_outputs=options.allow_constant_outputs,
                weights=weights,
                accept=lambda program: lower_program(
                    program,
                    options.opset_version,
                    registry=registry,
                    custom_opsets=options.custom_opsets,
                    operators=options.operator_export_type,
                ),
            )
        except (FrozenAxisError, RefusedSizesError) as error:
            unknown = [name for name in asked.outputs if name not in (options.output_names or ())]
            if unknown:  # axes of outputs, as far as anybody knows by now
                names = ", ".join(map(repr, unknown))
                error.add_detail(f"no input is called {names}: the inputs are {', '.join(call.names)}")
            raise
    return Taken(program, weights, modes)


def builder(
    model: Any, weights: Weights, options: ExportOptions, stages: Stages
) -> Callable[[CapturedProgram], ir.Model]:
    """What makes the graph of a captured program; `program.apply_weights` asks for it again."""
    together = kept_together(model, options.export_modules_as_functions)
    registry = registry_for(options.custom_translation_table)

    def build(captured: CapturedProgram) -> ir.Model:
        form = format_named(options.quant_format)
        with stages("lower"), form.around():
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
            if form.finish is not None:
                form.finish(graph, model)
            keep_present(graph)
        return graph

    return build


def hand_over(program: Program, f: Any, options: ExportOptions, stages: Stages) -> None:
    """Print, check, write and verify, as the options ask."""
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
