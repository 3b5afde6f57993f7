"""What a compatibility check asks of a node: operator and version, types and shapes, constants, where it comes from.

Findings are gathered here too: what several nodes have in common is said once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import onnx_ir as ir

from ...lower.schemas import definition
from ...write.node_scopes import scope_of, source_of
from ...write.type_texts import dtype_name, operator_name

Verdict = Literal["problem", "condition", "unknown"]
Said = tuple[Verdict, str, str]
"""A verdict, a text, and the key of its source."""


@dataclass(frozen=True)
class Place:
    """A node: its name and operator, the module and the line of code that it was written for, if the file says so."""

    node: str
    operator: str
    output: str
    module: str = ""
    source: str = ""

    def __str__(self) -> str:
        named = self.node or (f"the node of '{self.output}'" if self.output else "a node without a name")
        return named + (f" in {self.module}" if self.module else "") + (f" ({self.source})" if self.source else "")


@dataclass(frozen=True)
class Finding:
    """One thing to know, and the nodes that it is about (none: the model as a whole)."""

    verdict: Verdict
    operator: str
    text: str
    source: str
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Step:
    """A node in its graph: `opsets` are those of the model, or of the function that the node is in."""

    node: ir.Node
    opsets: Mapping[str, int]

    @property
    def domain(self) -> str:
        return self.node.domain

    @property
    def operator(self) -> str:
        return operator_name(self.node)

    @property
    def opset(self) -> int | None:
        return next((each for domain, each in self.opsets.items() if domain_of(domain) == self.domain), None)

    @property
    def place(self) -> Place:
        output = next((value.name for value in self.node.outputs if value.name), None)
        module = self.node.metadata_props.get("onward.scope") or scope_of(self.node)
        return Place(self.node.name or "", self.operator, output or "", module, source_of(self.node))

    def schema(self, version: int | None = None) -> Any:
        """The operator's definition at a version, by default the model's; None if ONNX has none there."""
        opset = self.opset if version is None else version
        return None if opset is None else definition(self.node.op_type, opset, self.domain)


@dataclass
class Findings:
    """Findings on the way; the same sentence about several nodes is one."""

    found: dict[tuple[Verdict, str, str, str], list[Place]] = field(default_factory=dict)

    def add(self, said: Said, step: Step | None = None) -> None:
        verdict, text, source = said
        places = self.found.setdefault((verdict, step.operator if step else "", text, source), [])
        if step is not None:
            places.append(step.place)

    def __iter__(self) -> Iterator[Finding]:
        order = {"problem": 0, "unknown": 1, "condition": 2}
        for (verdict, operator, text, source), places in sorted(
            self.found.items(), key=lambda each: (order[each[0][0]], bool(each[0][1]))
        ):
            yield Finding(verdict, operator, text, source, tuple(places))


def domain_of(name: str) -> str:
    """ONNX's own domain has two names."""
    return "" if name == "ai.onnx" else name


def steps(model: ir.Model) -> Iterator[Step]:
    """Every node, of bodies and functions too. Calls of the model's own functions are no operators."""
    roots: tuple[ir.Graph | ir.Function, ...] = (model.graph, *model.functions.values())
    for root in roots:
        opsets = dict(root.opset_imports)
        for node in ir.traversal.RecursiveGraphIterator(root):
            if node.op_identifier() not in model.functions:
                yield Step(node, opsets)


# Values


def element_of(value: ir.Value | None) -> str | None:
    """The name of the type of the elements, of a sequence's too; None if it is not known."""
    if value is None or value.type is None or value.type.dtype == ir.DataType.UNDEFINED:
        return None
    return dtype_name(value.type.dtype)


def type_string(value: ir.Value) -> str | None:
    """As schemas and kernels write it: `tensor(float)`, `seq(tensor(int64))`; None if it is not known."""
    return _type_string(value.type)


def _type_string(kind: Any) -> str | None:
    if isinstance(kind, ir.SequenceType | ir.OptionalType):
        inner = _type_string(kind.elem_type)
        return f"{'seq' if isinstance(kind, ir.SequenceType) else 'optional'}({inner})" if inner else None
    if not isinstance(kind, ir.TensorType | ir.SparseTensorType) or kind.dtype == ir.DataType.UNDEFINED:
        return None
    return f"{'sparse_tensor' if isinstance(kind, ir.SparseTensorType) else 'tensor'}({kind.dtype.name.lower()})"


def is_constant(value: ir.Value) -> bool:
    producer = value.producer()
    return value.is_initializer() or (producer is not None and producer.op_type == "Constant")


def constant_of(value: ir.Value) -> Any:
    """The numbers of a constant; None if there are none in the file to read."""
    tensor = value.const_value
    producer = value.producer()
    if tensor is None and producer is not None and producer.op_type == "Constant" and "value" in producer.attributes:
        tensor = producer.attributes["value"].as_tensor()
    return None if tensor is None or tensor.dtype == ir.DataType.STRING else tensor.numpy()


def is_dynamic(value: ir.Value) -> bool:
    return value.shape is None or any(not isinstance(size, int) for size in value.shape)
