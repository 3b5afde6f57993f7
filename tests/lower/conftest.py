"""One runner for lowerings: a hand-made program of one op goes through lowering, checker and onnxruntime."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import fx

from onward.capture.ground.axes import AxisSpace
from onward.capture.program.facts import CapturedProgram, Port, Scope, Source, SymDim, TensorFact
from onward.lower.registry import Registry, registry
from onward.lower.walk import lower_program
from tests.opsets import NEWEST

SOME_OPSETS = (9, 10, 11, 12, 13, 18, NEWEST)


def to_tuple(result: Any) -> tuple[torch.Tensor, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def facts_of(probes: Sequence[Sequence[torch.Tensor]], names: dict[tuple[int, ...], str]) -> list[TensorFact]:
    """What capture would know, from the same tensors at several sizes."""
    facts = []
    for tensors in zip(*probes, strict=True):
        dims: list[Any] = []
        for values in zip(*(tensor.shape for tensor in tensors), strict=True):
            name = names.setdefault(values, f"d{len(names)}")
            dims.append(values[0] if len(set(values)) == 1 else SymDim(values, name))
        facts.append(TensorFact(tensors[0].dtype, tuple(dims)))
    return facts


def make_program(
    nodes: Callable[[fx.Graph, list[fx.Node]], Any],
    inputs: Sequence[TensorFact],
    outputs: Sequence[TensorFact],
    constants: dict[str, Any] | None = None,
) -> CapturedProgram:
    graph = fx.Graph()
    placeholders = []
    for i, fact in enumerate(inputs):
        node = graph.placeholder(f"x{i}")
        node.meta["val"] = fact
        placeholders.append(node)
    result = nodes(graph, placeholders)
    graph.output(tuple(result) if isinstance(result, (tuple, list)) else (result,))
    for node in graph.nodes:
        node.meta.setdefault("scope", Scope("block.0"))
        node.meta.setdefault("source", Source("model.py", 42, "forward"))
    known = {
        "graph": graph,
        "constants": constants or {},
        "inputs": tuple(Port(f"x{i}", fact) for i, fact in enumerate(inputs)),
        "outputs": tuple(Port(f"y{i}", fact) for i, fact in enumerate(outputs)),
        "model_name": "case",
        "axes": {dim.name: dim.values for fact in inputs for dim in fact.shape if isinstance(dim, SymDim)},
        "space": AxisSpace(),
    }
    # Lowering reads nothing else of a program; how inputs were passed and outputs are given back is not its business.
    required = [field for field in dataclasses.fields(CapturedProgram) if field.default is dataclasses.MISSING]
    unused = {field.name: None for field in required if field.name not in known}
    return CapturedProgram(**known, **unused)  # type: ignore[arg-type]


def run_model(model: ir.Model, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    proto = ir.serde.serialize_model(model)
    onnx.checker.check_model(proto, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    feeds = {f"x{i}": tensor.numpy() for i, tensor in enumerate(inputs)}
    wanted = {value.name for value in session.get_inputs()}
    return [torch.from_numpy(x) for x in session.run(None, {k: v for k, v in feeds.items() if k in wanted})]


@dataclass
class Checked:
    model: ir.Model

    @property
    def ops(self) -> list[str]:
        return [node.op_type for node in self.model.graph]


def resized(tensor: torch.Tensor, dynamic: Sequence[int], extra: int) -> torch.Tensor:
    """The tensor with more along its dynamic axes, by repeating what is there."""
    for axis in dynamic:
        repeats = [extra + 1 if a == axis else 1 for a in range(tensor.dim())]
        tensor = tensor.repeat(repeats)
        tensor = tensor.narrow(axis, 0, tensor.shape[axis] - extra)
    return tensor


def check_lowering(
    opset: int,
    lowering: Callable[..., Any],
    reference: Callable[..., Any],
    *inputs: torch.Tensor,
    dynamic: dict[int, Sequence[int]] | None = None,
    base: Registry | None = None,
) -> Checked:
    """Lower `lowering(g, *inputs)` as one op and compare onnxruntime with `reference` at two sizes."""
    dynamic = dynamic or {}
    probes = [[resized(x, dynamic.get(i, ()), extra) for i, x in enumerate(inputs)] for extra in (0, 1, 3)]
    names: dict[tuple[int, ...], str] = {}
    in_facts = facts_of(probes, names)
    expected = [to_tuple(reference(*probe)) for probe in probes]
    out_facts = facts_of(expected, names)

    def target(*args: Any) -> Any:
        return reference(*args)

    layer = Registry(base or registry)
    layer.register(target, lowering)

    def nodes(graph: fx.Graph, placeholders: list[fx.Node]) -> Any:
        node = graph.call_function(target, tuple(placeholders))
        node.meta["val"] = tuple(out_facts) if len(out_facts) > 1 else out_facts[0]
        if len(out_facts) == 1:
            return node
        items = [graph.call_function(operator.getitem, (node, i)) for i in range(len(out_facts))]
        for item, fact in zip(items, out_facts, strict=True):
            item.meta["val"] = fact
        return items

    model = lower_program(make_program(nodes, in_facts, out_facts), opset, registry=layer)
    for probe, wanted in list(zip(probes, expected, strict=True))[:: 2 if dynamic else 3]:
        for got, want in zip(run_model(model, probe), wanted, strict=True):
            torch.testing.assert_close(got, want, equal_nan=True)
    return Checked(model)


@pytest.fixture
def check() -> Callable[..., Checked]:
    return check_lowering


@pytest.fixture
def program() -> Callable[..., CapturedProgram]:
    return make_program


@pytest.fixture
def run() -> Callable[..., list[torch.Tensor]]:
    return run_model
