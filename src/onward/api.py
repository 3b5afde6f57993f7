"""`onward.export`, top to bottom."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, BinaryIO

from typing_extensions import Unpack

from .capture.frontends.exported import check_mode
from .capture.frontends.model import check_model, unwrap
from .given_parameters import resolve
from .parameters import ExportParameters, with_parameters
from .program import Program
from .report import write_report
from .stages import Stages
from .steps import builder, capture, collecting_later, hand_over
from .verify import load_onnxruntime
from .write.staging import check_target


@with_parameters
def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | BinaryIO | None = None,
    *positional: Any,
    kwargs: Mapping[str, Any] | None = None,
    **parameters: Unpack[ExportParameters],
) -> Program:
    """Turn a live model into ONNX.

    model         an nn.Module, a function, a script, or an ExportedProgram with its own example and dynamic axes;
                  DataParallel, DistributedDataParallel and torch.compile are unwrapped
    args, kwargs  an example call: a tensor, or a tuple (nested tuples, lists, dicts, dataclasses are fine; a trailing
                  dict holds keyword arguments). Tensors become inputs of the file, everything else a part of it.
    f             a path, a binary file object, or nothing: the program is returned in any case

    A parameter that is None is one that is not given.
    """
    check_target(f)
    options = resolve(positional, parameters, f)
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
