"""Take ONNX text through a pass, and hold the result against the original in onnxruntime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import torch

from onward.verify import Session, compare
from onward.write import to_proto


def apply(a_pass: Callable[[ir.Model], bool], text: str) -> tuple[bool, ir.Model]:
    """Run a pass on a model given as text: it must report truly, be idempotent, and keep the model's meaning."""
    original = onnx.parser.parse_model(text)
    onnx.checker.check_model(original, full_check=True)
    model = ir.from_proto(original)
    changed = a_pass(model)
    proto = to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    if not changed:
        assert proto.graph.node == to_proto(ir.from_proto(original)).graph.node, "changed without saying so"
    assert not a_pass(model), "a second run changed something"
    _same_results(original, proto)
    return changed, model


def op_types(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def _same_results(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    rng = np.random.default_rng(0)
    inputs = {}
    constants = {initializer.name for initializer in before.graph.initializer}
    for value in before.graph.input:
        if value.name not in constants:
            shape = [dim.dim_value or 3 for dim in value.type.tensor_type.shape.dim]
            inputs[value.name] = torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))
    old, new = Session(before), Session(after)
    assert (old.input_names, old.output_names) == (new.input_names, new.output_names)
    for name, want, got in zip(old.output_names, old.run(inputs), new.run(inputs), strict=True):
        result = compare(want, got, name)
        assert result.ok, str(result)
