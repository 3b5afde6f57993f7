"""Write src/onward/files/compat/targets/onnxruntime.json: what the installed onnxruntime runs on the CPU.

    python tools/onnxruntime_kernels.py            rewrite the file
    python tools/onnxruntime_kernels.py --check    fail if the committed file differs

Kernels are listed one by one, with the types that each takes: a union over kernels would claim combinations that none
of them has. Operators of the domains that only onnxruntime knows come with their signatures, since the `onnx` package
cannot tell which input a type is about.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema, get_all_opkernel_def

from onward.verify.runtime import supported_opset

TARGET = Path(__file__).parent.parent / "src" / "onward" / "files" / "compat" / "targets" / "onnxruntime.json"
NEWEST = 2**31 - 1
OWN_DOMAINS = ("com.microsoft",)
"""Domains of onnxruntime that models are written in. (`com.microsoft.nchwc` is what its optimiser makes.)"""


def newest_ir_version() -> int:
    """Found by trying."""
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "smallest", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for version in range(onnx.IR_VERSION + 2, 0, -1):
        model.ir_version = version
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's classes share no base but this
            print(f"IR version {version}: {str(error).splitlines()[0][:150]}", file=sys.stderr)
            continue
        return version
    raise SystemExit("no IR version loads")


class Groups:
    """Lists of types that occur again and again, by a short name."""

    def __init__(self) -> None:
        self.names: dict[tuple[str, ...], str] = {}

    def name(self, types: list[str]) -> str:
        return self.names.setdefault(tuple(sorted(types)), f"t{len(self.names)}")


def kernels(groups: Groups) -> dict[str, dict[str, Any]]:
    """domain -> operator -> its kernels: first and last version (None: the newest), {type variable: types}."""
    found: dict[str, dict[str, Any]] = {}
    for kernel in get_all_opkernel_def():
        if kernel.provider != "CPUExecutionProvider" or kernel.domain not in ("", "ai.onnx.ml", *OWN_DOMAINS):
            continue
        record = found.setdefault(kernel.domain, {}).setdefault(kernel.op_name, {"source": "kernels", "kernels": []})
        first, last = kernel.version_range
        types = {name: groups.name(types) for name, types in sorted(kernel.type_constraints.items())}
        record["kernels"].append([first, None if last == NEWEST else last, types])
    for schema in get_all_operator_schema():
        if schema.domain in OWN_DOMAINS and schema.name in found[schema.domain]:
            record = found[schema.domain][schema.name]
            record["inputs"] = [[each.name, each.typeStr] for each in schema.inputs]
            record["outputs"] = [[each.name, each.typeStr] for each in schema.outputs]
    for operators in found.values():
        for record in operators.values():
            record["kernels"].sort(key=lambda kernel: (kernel[0], str(kernel[2])))
    return found


def render(read: str) -> str:
    groups = Groups()
    operators = kernels(groups)
    head = {
        "format": 1,
        "target": "onnxruntime",
        "title": "onnxruntime",
        "version": onnxruntime.__version__,
        "read": read,
        "meaning": "onnxruntime has no kernel for it on the CPU",
        "sources": {
            "kernels": {
                "title": "The kernels of CPUExecutionProvider",
                "package": f"onnxruntime {onnxruntime.__version__}",
                "by": "tools/onnxruntime_kernels.py",
            }
        },
        "opset": {"first": 1, "last": supported_opset(), "source": "kernels"},
        "ir": {"last": newest_ir_version(), "source": "kernels"},
        "absent": {
            "verdict": "unknown",
            "text": "it has no kernel of its own; a library of operators may be registered for it",
            "source": "kernels",
        },
        "groups": {name: list(types) for types, name in groups.names.items()},
    }
    lines = ["{"]
    for key, value in head.items():
        if key == "groups":
            rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(types)}" for name, types in value.items())
            lines.append(f' "groups": {{\n{rows}\n }},')
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)},")
    blocks = []
    for domain, records in sorted(operators.items()):
        rows = ",\n".join(f"   {json.dumps(name)}: {json.dumps(record)}" for name, record in sorted(records.items()))
        blocks.append(f"  {json.dumps(domain)}: {{\n{rows}\n  }}")
    return "\n".join([*lines, ' "operators": {', ",\n".join(blocks), " }", "}"]) + "\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        committed = TARGET.read_text(encoding="utf-8")
        same = render(json.loads(committed)["read"]) == committed
        print("up to date" if same else f"{TARGET} differs from onnxruntime {onnxruntime.__version__}")
        return 0 if same else 1
    text = render(datetime.datetime.now(datetime.timezone.utc).date().isoformat())
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET} ({len(text)} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
