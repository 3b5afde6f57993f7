"""`onward inspect`: what is in a file."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console.command import EXIT_CODES, FAILED, Answer, Debug, Json, ModelFile, plain, table, working

if TYPE_CHECKING:  # it needs PyTorch, and --help and completion do not
    from onward.files.compat import Compatibility, Finding

EPILOG = f"""Examples:
  onward inspect m.onnx             inputs, outputs, operators, weights, how much it computes
  onward inspect m.onnx --top 30    more of the largest weights
  onward inspect m.onnx --json
  onward inspect m.onnx --for tensorrt               operators and types that would be a problem there
  onward inspect m.onnx --for opset-13 --for coreml  (also: onnxruntime, openvino)

{EXIT_CODES} If --for finds
a problem, that is 1; what is not known is said, and is no problem.
"""


def _completed(incomplete: str) -> list[str]:
    """The names of onward.files.compat.targets(), read from its folder: asking it would import PyTorch."""
    tables = files("onward").joinpath("files/compat/targets").iterdir()
    named = sorted(each.name.removesuffix(".json") for each in tables if each.name.endswith(".json"))
    return [each for each in (*named, "opset-") if each.startswith(incomplete)]


def inspect(
    model: ModelFile,
    targets: Annotated[
        list[str],
        typer.Option(
            "--for",
            metavar="TARGET",
            help="Show whether the file would run on this target; repeat it for several.",
            autocompletion=_completed,
        ),
    ] = [],  # noqa: B006 (typer copies it)
    top: Annotated[int, typer.Option(metavar="N", min=0, help="How many of the largest weights to show.")] = 8,
    as_json: Json = False,
    debug: Debug = False,
) -> Answer:
    """Show what is in an ONNX file: inputs and outputs, opsets, operators, weights, FLOPs, metadata."""
    from onward.files.compat import held_against

    from ..files.file_inputs import open_file
    from ..files.file_summary import described

    for target in targets:
        _check(target)
    with working(f"reading {model}"):
        opened = open_file(model)
        data = described(opened, top) if as_json or not targets else {}
    if not targets:
        return Answer({"ok": True, **data}, lambda: _show(data))
    with working(f"holding {model} against {', '.join(targets)}"):
        found = held_against(opened.model, list(dict.fromkeys(targets)), file=opened.path)
    data["compatibility"] = [each.to_dict() for each in found]
    ok = all(each.ok for each in found)
    return Answer({"ok": ok, **data}, lambda: _show_compatibility(found), 0 if ok else FAILED)


def _check(target: str) -> None:
    from onward.errors import InputError
    from onward.files import check_target

    from ..console.usage_errors import UsageMistake

    try:
        check_target(target)
    except InputError as error:
        raise UsageMistake(f"--for: {error.what}", hint=error.hint) from error


def _show(data: dict[str, Any]) -> None:
    from onward.write.files import readable

    from ..files.file_inputs import port_text

    opsets = ", ".join(f"{domain} {version}" for domain, version in data["opsets"].items())
    print(f"{data['file']}: {readable(data['bytes'])}, {data['nodes']} nodes, {plain(data['name'] or 'no name')}")
    print(
        f"by {plain(data['producer'] or 'an unknown producer')}; opset {plain(opsets)}; IR version {data['ir_version']}"
    )
    print(_flops(data))
    weights = data["weights"]
    print(f"{_short(weights['parameters'])} parameters in {weights['count']} weights, {readable(weights['bytes'])}")
    for title in ("inputs", "outputs"):
        print()
        table([title[:-1], "type"], [[port["name"], port_text(port)] for port in data[title]])
    print()
    table(["operator", "count"], [[name, str(count)] for name, count in data["operators"].items()])
    if weights["largest"]:
        print()
        rows = [
            [each["name"], each["dtype"], "x".join(map(str, each["shape"])) or "scalar", readable(each["bytes"])]
            for each in weights["largest"]
        ]
        table(["largest weights", "type", "shape", "size"], rows)
    if data["metadata"]:
        print()
        table(["metadata", ""], [[key, value[:200]] for key, value in data["metadata"].items()])


def _flops(data: dict[str, Any]) -> str:
    sizes = plain(", ".join(f"{name}={size}" for name, size in data["flops_at"].items()))
    at, unknown = f" at {sizes}" if sizes else "", plain(", ".join(data["flops_unknown"]))
    if data["flops"] is None:
        return f"FLOPs are not known{f'{at}: `onward report -i` counts at sizes of yours' if at else ''}"
    return f"{_short(data['flops'])} FLOPs{at}{f', without {unknown}' if unknown else ''}"


def _show_compatibility(found: list[Compatibility]) -> None:
    for number, each in enumerate(found):
        if number:
            print()
        print(f"{plain(each.title)}: {each.summary()}")
        if each.problems:
            print(f"  a problem means: {plain(each.meaning)}")
        rows = [[_VERDICTS[one.verdict], one.operator or "the model", one.text, _places(one)] for one in each.findings]
        if rows:
            table(["", "operator", "what", "where"], rows)
        for line in each.remarks_and_sources():
            print(plain(line))


_VERDICTS = {"problem": "problem", "unknown": "not known", "condition": "if"}
_SHOWN = 3


def _places(finding: Finding) -> str:
    more = len(finding.places) - _SHOWN
    return "; ".join([*map(str, finding.places[:_SHOWN]), *([f"and {more} more"] if more > 0 else [])])


def _short(count: int) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return str(count)
