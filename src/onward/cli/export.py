"""`onward export`: a model from anywhere into an ONNX file, verified."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from .command import EXIT_CODES, Answer, Debug, Force, Json, check_free, plain, working
from .flags import flag, in_flags
from .rebuild import Args, Function, Inputs, Seed, Strict, WeightsFile, asked, example_call, rebuild

EPILOG = f"""Examples:
  onward export mynets.resnet:build --arg depth=50 -i "x:f32[1,3,224,224]" --dynamic x:0=batch -o m.onnx
  onward export train.py:Net -i "x:f32[batch=2,16]; mask:bool[batch=2,16]=ones" --weights w.safetensors -o m.onnx
  onward export scripted.pt -i x=picture.npy -o m.onnx --opset 17
  onward export timm:resnet18 -o m.onnx --json
  onward export hf:bert --arg num_hidden_layers=2 -i "input_ids:i64[1,16]=0..999" -o m.onnx

{EXIT_CODES} A file that does not verify is not
written, and that is 1.
"""
WORDS = in_flags


def export(
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="pkg.module:name, file.py:name, archive.pt, x.pt2, timm:NAME, hf:NAME"),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")],
    arg: Args = [],  # noqa: B006 (typer copies it)
    input: Inputs = [],  # noqa: B006
    dynamic: Annotated[list[str], flag("dynamic_axes", metavar="NAME:AXIS=NAME")] = [],  # noqa: B006
    weights: WeightsFile = None,
    strict: Strict = True,
    opset: Annotated[int | None, flag("opset_version", metavar="N")] = None,
    output_names: Annotated[str | None, flag("output_names", metavar="NAMES")] = None,
    seed: Seed = 0,
    training: Annotated[bool, flag("training")] = False,
    external_data: Annotated[bool | None, flag("external_data")] = None,
    allow_static_axes: Annotated[bool, flag("allow_static_axes")] = False,
    allow_constant_outputs: Annotated[bool, flag("allow_constant_outputs")] = False,
    verify: Annotated[bool, flag("verify")] = True,
    report: Annotated[bool, flag("report")] = False,
    function: Function = False,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> Answer:
    """Export a model to ONNX and verify the file in onnxruntime, on the example and at other sizes."""
    import onward
    from onward.errors import InputError, UnknownNameError
    from onward.options import check_opset

    from . import axes as dynamic_axes
    from .mistakes import UsageMistake
    from .specs import parse_dynamic

    if opset is not None:
        try:
            check_opset(opset)
        except InputError as error:
            raise UsageMistake(error.what, hint=error.hint) from error
    axes = parse_dynamic(dynamic)
    what = asked(target, arg, input, weights, strict, seed, function)
    page = output.with_suffix(".html") if report else None
    check_free(output, force, *([".data"] if external_data is not False else []))
    if page is not None:
        check_free(page, force)
    start = time.perf_counter()
    with working(f"building {target}"):
        built = rebuild(what)
        call = example_call(what, built.target)
    for name, named in what.given.axes.items():
        dynamic_axes.join(axes.setdefault(str(name), {}), named, str(name))
    dynamic_axes.check(axes, call, built.model)
    with working(f"exporting {target}"):
        try:
            program = onward.export(
                built.model,
                call.args,
                kwargs=call.kwargs,
                input_names=call.input_names,
                output_names=output_names.split(",") if output_names else None,
                dynamic_axes=dynamic_axes.unbounded(axes) or None,
                dynamic_shapes=dynamic_axes.bounded(axes) or None,
                opset_version=opset,
                training=onward.TrainingMode.TRAINING if training else None,
                external_data=external_data,
                allow_static_axes=allow_static_axes,
                allow_constant_outputs=allow_constant_outputs,
            )
        except UnknownNameError as error:
            raise dynamic_axes.nobodys(axes, error) from error
    verification = None
    with working(f"writing and verifying {output}" if verify else f"writing {output}"):
        if verify:
            verification = program.save_verified(output)
        else:
            program.save(output)
    if page is not None:
        from onward.report import write_report

        with working(f"writing {page}"):
            write_report(program, page, verification)
    seconds = time.perf_counter() - start
    size = sum(os.path.getsize(path) for path in (output, Path(f"{output}.data")) if path.exists())
    data: dict[str, Any] = {
        "ok": True,
        "file": str(output),
        "bytes": size,
        "opset": program.opset_version,
        "nodes": sum(1 for _ in program.model.graph),
        "inputs": [_port(port) for port in program.inputs],
        "outputs": [_port(port) for port in program.outputs],
        "warnings": list(map(in_flags, program.warnings)),
        "remarks": list(built.remarks),
        "verified": verification_data(verification),
        "report": str(page) if page is not None else None,
        "seconds": round(seconds, 3),
    }
    return Answer(data, lambda: _show(program, verification, data))


def _port(port: Any) -> dict[str, Any]:
    bounds = {port.axes[axis]: list(each) for axis, each in port.bounds.items()}
    told = {"name": port.name, "dtype": str(port.dtype).removeprefix("torch."), "shape": list(port.shape)}
    return {**told, "bounds": bounds} if bounds else told


def verification_data(verification: Any) -> dict[str, Any] | None:
    """A verification for machines."""
    if verification is None:
        return None
    ran = [check for check in verification.checks if check.skipped is None]
    return {
        "ok": verification.ok,
        "max_scaled_error": verification.max_scaled_error,
        "runs": [check.label for check in ran],
        "skipped": {check.label: check.skipped for check in verification.checks if check.skipped is not None},
        "disagree": [str(each) for check in ran for each in check.comparisons if not each.ok],
        "warnings": list(verification.warnings),
    }


def _show(program: Any, verification: Any, data: dict[str, Any]) -> None:
    from onward.write.files import readable

    print("\n".join(plain(line) for line in repr(program).splitlines()[:-1]))  # the last line is told below
    for remark in data["remarks"]:
        print(f"note: {plain(remark)}")
    if verification is not None:
        print(f"verified: {plain(verification.summary())}")
    else:
        print("not verified")
    print(f"{data['file']}: {readable(data['bytes'])}, {data['seconds']:.1f} s")
    if data["report"]:
        print(f"report: {data['report']}")
