"""`onward inspect`: what is in a file."""

from __future__ import annotations

import math
from collections import Counter
from typing import Annotated, Any

import onnx_ir as ir
import typer

from onward.errors import ExportError, InputError
from onward.files import Compatibility, check_target, infer_shapes
from onward.files.compat import Finding, held_against
from onward.files.compat import targets as known_targets
from onward.write.files import readable

from .command import EXIT_CODES, FAILED, Answer, Debug, Json, plain, table, working
from .feeds import ModelFile, Opened, dtype_name, open_file, port_of, port_text
from .mistakes import UsageMistake

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
    *named, _ = known_targets()  # the last one is a range of opsets
    return [each for each in (*named, "opset-") if each.startswith(incomplete)]


def inspect(
    model: ModelFile,
    targets: Annotated[
        list[str],
        typer.Option(
            "--for",
            metavar="TARGET",
            help="Where would it run? Repeat it for several targets.",
            autocompletion=_completed,
        ),
    ] = [],  # noqa: B006 (typer copies it)
    top: Annotated[int, typer.Option(min=0, help="How many of the largest weights.")] = 8,
    as_json: Json = False,
    debug: Debug = False,
) -> Answer:
    """Show what is in an ONNX file: inputs and outputs, opsets, operators, weights, multiplications, metadata."""
    for target in targets:
        _check(target)
    with working(f"reading {model}"):
        opened = open_file(model)
        data = described(opened, top) if as_json or not targets else {}
    if not targets:
        return Answer(data, lambda: _show(data))
    with working(f"holding {model} against {', '.join(targets)}"):
        found = held_against(opened.path, list(dict.fromkeys(targets)))
    data["compatibility"] = [each.to_dict() for each in found]
    return Answer(data, lambda: _show_compatibility(found), 0 if all(each.ok for each in found) else FAILED)


def _check(target: str) -> None:
    try:
        check_target(target)
    except InputError as error:
        raise UsageMistake(f"--for: {error.what}", hint=error.hint) from error


def described(opened: Opened, top: int) -> dict[str, Any]:
    """All of it for machines."""
    model, graph = opened.model, opened.model.graph
    nodes = [node for each in model.graphs() for node in each]
    held = {
        str(value.name): value.const_value
        for each in model.graphs()
        for value in each.initializers.values()
        if value.const_value is not None
    }
    largest = sorted(held.items(), key=lambda each: (-each[1].nbytes, each[0]))[:top]
    return {
        "file": str(opened.path),
        "bytes": opened.bytes,
        "name": graph.name,
        "producer": f"{model.producer_name or ''} {model.producer_version or ''}".strip(),
        "ir_version": model.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in sorted(model.opset_imports.items())},
        "inputs": [port_of(value) for value in graph.inputs if not value.is_initializer()],
        "outputs": [port_of(value) for value in graph.outputs],
        "nodes": len(nodes),
        "functions": len(model.functions),
        "operators": dict(sorted(Counter(map(_operator, nodes)).items(), key=lambda each: (-each[1], each[0]))),
        "weights": {
            "count": len(held),
            "parameters": sum(each.size for each in held.values()),
            "bytes": sum(each.nbytes for each in held.values()),
            "types": dict(sorted(Counter(dtype_name(each.dtype) for each in held.values()).items())),
            "largest": [
                {"name": name, "dtype": dtype_name(each.dtype), "shape": list(each.shape.numpy()), "bytes": each.nbytes}
                for name, each in largest
            ],
        },
        "multiplications": multiplications(model),
        "metadata": dict(sorted(model.metadata_props.items())),
    }  # fmt: skip


def _operator(node: ir.Node) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def multiplications(model: ir.Model) -> int | None:
    """Of Conv, ConvTranspose, Gemm and MatMul, each dynamic axis counted as 1; None if shapes cannot be known."""
    try:
        inferred = infer_shapes(model)
    except ExportError:
        return None
    total = 0
    for node in inferred.graph:
        if node.domain not in ("", "ai.onnx") or node.op_type not in _COUNTS:
            continue
        shapes = [_sizes(value) for value in (*node.inputs[:2], node.outputs[0])]
        if any(shape is None for shape in shapes):
            return None
        total += _COUNTS[node.op_type](node, *shapes)
    return total


def _sizes(value: ir.Value | None) -> list[int] | None:
    if value is None or value.shape is None:
        return None
    return [size if isinstance(size, int) else 1 for size in value.shape]


def _gemm(node: ir.Node, a: list[int], b: list[int], y: list[int]) -> int:
    flipped = node.attributes.get_int("transA", 0)
    return math.prod(y) * a[0 if flipped else 1]


_COUNTS = {
    "Conv": lambda node, x, w, y: math.prod(y) * math.prod(w[1:]),
    "ConvTranspose": lambda node, x, w, y: math.prod(x) * math.prod(w[1:]),
    "MatMul": lambda node, a, b, y: math.prod(y) * a[-1],
    "Gemm": _gemm,
}


def _show(data: dict[str, Any]) -> None:
    opsets = ", ".join(f"{domain} {version}" for domain, version in data["opsets"].items())
    print(f"{data['file']}: {readable(data['bytes'])}, {data['nodes']} nodes, {plain(data['name'] or 'no name')}")
    print(
        f"by {plain(data['producer'] or 'an unknown producer')}; opset {plain(opsets)}; IR version {data['ir_version']}"
    )
    if data["multiplications"] is not None:
        dynamic = any(isinstance(size, str) for port in data["inputs"] for size in port["shape"] or ())
        print(f"{_short(data['multiplications'])} multiplications{' with dynamic axes at 1' if dynamic else ''}")
    weights = data["weights"]
    print(f"{_short(weights['parameters'])} numbers in {weights['count']} weights, {readable(weights['bytes'])}")
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
