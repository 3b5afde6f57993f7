"""What `onward inspect` says of a file, for machines."""

from __future__ import annotations

from collections import Counter
from typing import Any

from onward.files.parameters import all_parameters, held
from onward.report.call_shapes import assumed_axes, assumed_sizes
from onward.report.contents import contents
from onward.write.type_texts import dtype_name, operator_name

from .file_inputs import Opened, port_of


def described(opened: Opened, top: int) -> dict[str, Any]:
    """What `onward inspect` shows. Operations are counted as on the report page, at the smallest sizes that the file
    allows."""
    model, graph = opened.model, opened.model.graph
    nodes = [node for each in model.graphs() for node in each]
    weights = list(held(model))
    largest = sorted(weights, key=lambda each: (-each[1].nbytes, each[0]))[:top]
    counted = contents(model, assumed_sizes(model)).data["totals"]
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
        "operators": dict(sorted(Counter(map(operator_name, nodes)).items(), key=lambda each: (-each[1], each[0]))),
        "weights": {
            "count": len(weights),
            "parameters": all_parameters(model),
            "bytes": sum(each.nbytes for _, each in weights),
            "types": dict(sorted(Counter(dtype_name(each.dtype) for _, each in weights).items())),
            "largest": [
                {"name": name, "dtype": dtype_name(each.dtype), "shape": list(each.shape.numpy()), "bytes": each.nbytes}
                for name, each in largest
            ],
        },
        "flops": counted["flops"],
        "flops_unknown": counted["flops_unknown"],
        "flops_at": assumed_axes(model),
        "metadata": dict(sorted(model.metadata_props.items())),
    }  # fmt: skip
