"""From an ONNX graph to a plan.

Operators become the functions of `registry`, by the opsets that the model imports. Functions, the model's own and those
that ONNX defines operators by, are written out in place. PyTorch's operators, which `onward.lower.aten_nodes` wrote
down, are decoded. Whatever is wrong with the graph itself is found here, before anything runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx
import onnx_ir as ir
import torch

from ..errors import BackendError, ExportError
from ..lower import aten_nodes
from ..lower.schemas import definition
from . import gradients
from ._by_shapes import NESTED
from .allowed_calls import check_arguments, check_call, check_results, sizes_follow_from_shapes
from .attributes import attribute_value, element_type, flat, schema_defaults, tensor_value, type_of_result
from .context_functions import ContextFunction
from .limits import DEFAULT, Limits
from .plan import MISSING, Body, Plan, Step, with_frees
from .registry import ABOUT_THE_NODE, Implementation, find
from .size_arithmetic import (
    MOST_NUMBERS,
    NUMBER_OPS,
    OF_TENSORS,
    SIZES,
    NumberOp,
    Numbers,
    as_tensor,
    known_content,
    result_of,
)
from .values import ONNX_TYPES, to_torch

MOST_DEPTH = 100
_STANDARD = ("", "ai.onnx")
IGNORED_ATTRIBUTES = frozenset({"consumed_inputs"})  # of opset 1: what might be computed in place
_INDICES = (ir.DataType.INT64, ir.DataType.INT32)
# Operators whose results are elements of so many of their first inputs.
_PICKS_FROM = {
    "Slice": 1, "Expand": 1, "Reshape": 1, "Unsqueeze": 1, "Squeeze": 1, "Transpose": 1, "Gather": 1, "Flatten": 1,
    "GatherElements": 1, "GatherND": 1, "Identity": 1, "Tile": 1, "Concat": 1000, "Split": 1, "Range": 3,
}  # fmt: skip


class Compiler:
    """What is the same for all graphs of a model."""

    def __init__(
        self,
        functions: Mapping[Any, ir.Function],
        device: torch.device | str = "cpu",
        custom_ops: Collection[str] | None = None,
        limits: Limits = DEFAULT,
    ) -> None:
        self.functions = functions
        self.device = device
        self.custom_ops, self.limits = custom_ops, limits
        self.steps = 0

    def graph(self, graph: ir.Graph, opsets: Mapping[str, int]) -> tuple[Plan, dict[str, bool]]:
        """The plan of a main graph, whose inputs are followed by its initializers.

        The names of the latter too, each with whether the plan reads it: what is taken as numbers is part of the plan.
        """
        scope = _Scope(self, None)
        weights = [value for value in graph.initializers.values() if not value.is_graph_input()]
        for value in (*graph.inputs, *weights):
            scope.define(value)
        for value in weights:
            tensor = value.const_value
            if tensor is not None and (tensor.size <= MOST_NUMBERS or tensor.dtype in _INDICES):
                scope.hold(scope.places[value], tensor_value(tensor))
        scope.nodes(graph, opsets, {}, ())
        plan = scope.plan([*graph.inputs, *weights], graph.outputs)
        return plan, {str(value.name): scope.places[value] in scope.read for value in weights}

    def count(self, where: str) -> None:
        self.steps += 1
        if self.steps > self.limits.max_nodes:  # functions that call functions unfold without end
            raise BackendError(f"the model unfolds into more than {self.limits.max_nodes} nodes", module=where)


class _Scope:
    """The slots of one plan, and how values of the graph find theirs."""

    def __init__(self, compiler: Compiler, outer: _Scope | None) -> None:
        self.compiler, self.outer = compiler, outer
        self.slots = 0
        self.types: list[int] = []
        self.steps: list[Step] = []
        self.constants: list[tuple[int, Any]] = []
        self.places: dict[ir.Value, int] = {}
        self.captured: dict[int, int] = {}  # the outer scope's slot: ours
        self.numbers: dict[int, Numbers | None] = {}  # by the slot of the tensor; None where it has been looked for
        self.contents: dict[int, Any] = {}  # of slots that never change: the tensor, of torch or of the file
        self.pending: set[int] = set()  # slots of tensors that are only numbers so far
        self.read: set[int] = set()  # slots that a step or the caller reads as what they are
        self.natural: set[int] = set()  # slots of integers that are never negative

    def new_slot(self, type_: int = 0) -> int:
        self.slots += 1
        self.types.append(type_)
        return self.slots - 1

    def define(self, value: ir.Value) -> int:
        self.places[value] = self.new_slot(element_type(value))
        return self.places[value]

    def constant(self, content: Any, type_: int) -> int:
        slot = self.new_slot(type_)
        self.constants.append((slot, content))
        self.hold(slot, content)
        return slot

    def hold(self, slot: int, content: Any) -> None:
        """Remember what is in a slot that never changes."""
        self.contents[slot] = content
        if isinstance(content, torch.Tensor):
            self.types[slot] = self.types[slot] or ONNX_TYPES.get(content.dtype, 0)
            if content.dtype in (torch.int64, torch.int32) and bool((content >= 0).all()):
                self.natural.add(slot)

    def find(self, value: ir.Value | None) -> int | None:
        """The slot of a value; one of an outer scope becomes an input of this plan."""
        if value is None or value.name == "":
            return MISSING
        if value in self.places:
            return self.places[value]
        found = self.outer.find(value) if self.outer is not None else None
        if found is None or self.outer is None or found == MISSING:
            return found
        self.places[value] = self._borrowed(self.outer, found)
        return self.places[value]

    def _borrowed(self, outer: _Scope, found: int) -> int:
        """Our slot for one of the outer scope's; numbers come as numbers."""
        numbers = outer.numbers_in(found)
        if numbers is None:
            if found not in self.captured:
                outer.read.add(found)
                self.captured[found] = self.new_slot(outer.types[found])
            return self.captured[found]
        if numbers.slot not in self.captured:
            self.captured[numbers.slot] = self.new_slot()
        slot = self.new_slot(outer.types[found])
        self.numbers[slot] = replace(numbers, slot=self.captured[numbers.slot])
        self.pending.add(slot)
        return slot

    def numbers_in(self, slot: int) -> Numbers | None:
        """What a slot holds as numbers, if it can be had so."""
        if slot not in self.numbers:
            self.numbers[slot] = self._known(self.contents[slot]) if slot in self.contents else None
        return self.numbers[slot]

    def _known(self, content: Any) -> Numbers | None:
        if not isinstance(content, torch.Tensor):
            return None
        found = known_content(content)
        if found is None:
            return None
        natural = content.dtype == torch.int64 and bool((content >= 0).all())
        return Numbers(self.constant(found, 0), content.dim(), content.dtype, found, natural, content.numel())

    def add_numbers(self, numbers: Numbers) -> int:
        """A slot for the tensor of such numbers, which is made when somebody asks for it."""
        slot = self.new_slot(ONNX_TYPES[numbers.dtype])
        self.numbers[slot] = numbers
        if numbers.natural:
            self.natural.add(slot)
        self.pending.add(slot)
        return slot

    def tensor(self, slot: int) -> int:
        """The same slot, with a tensor in it."""
        self.read.add(slot)
        numbers = self.numbers.get(slot)
        if slot in self.pending and numbers is not None:
            self.pending.remove(slot)
            attributes = {"dtype": numbers.dtype, "device": self.compiler.device}
            self.steps.append(Step(as_tensor, (numbers.slot,), (slot,), attributes, {}, "sizes as a tensor", op="Size"))
        return slot

    def plan(self, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> Plan:
        results = [self.tensor(self.slot_of(value, "the graph's outputs")) for value in outputs]
        entries = [*(self.places[value] for value in inputs), *self.captured.values()]
        kept = {*results, *(slot for slot, _ in self.constants)}
        return Plan(self.slots, tuple(entries), tuple(results), with_frees(self.steps, kept), self.constants)

    def slot_of(self, value: ir.Value | None, where: str) -> int:
        slot = self.find(value)
        if slot is None:
            name = value.name if value is not None else ""
            raise BackendError(
                f"the value {name!r} is used before anything computes it, or never computed", module=where
            )
        return slot

    # Nodes

    def nodes(
        self,
        body: ir.Graph | ir.Function,
        opsets: Mapping[str, int],
        given: Mapping[str, ir.Attr],
        path: tuple[Any, ...],
    ) -> None:
        """Every node of a body in the order of the file; `given` are the attributes of a function's call."""
        if len(path) > MOST_DEPTH:
            raise BackendError(f"functions or subgraphs are nested more than {MOST_DEPTH} deep")
        for node in body:
            _Node(self, node, opsets, given, path).compile()


class _Node:
    def __init__(
        self,
        scope: _Scope,
        node: ir.Node,
        opsets: Mapping[str, int],
        given: Mapping[str, ir.Attr],
        path: tuple[Any, ...],
    ) -> None:
        self.scope, self.node, self.opsets, self.given, self.path = scope, node, opsets, given, path
        self.domain = "" if node.domain in _STANDARD else node.domain
        self.where = f"node {node.name!r} ({self.domain or 'ai.onnx'}.{node.op_type})"
        self.attributes = self._resolved()

    def _resolved(self) -> dict[str, ir.Attr]:
        """The attributes, with references to those of the surrounding function replaced."""
        found = {}
        for name, attribute in self.node.attributes.items():
            if attribute.is_ref():
                source = self.given.get(str(attribute.ref_attr_name))
                if source is None:
                    continue
                attribute = ir.Attr(name, source.type, source.value)
            found[name] = attribute
        return found

    def compile(self) -> None:
        self.scope.compiler.count(self.where)
        key = self.node.op_identifier()
        if key in self.scope.compiler.functions:
            return self._inline(self.scope.compiler.functions[key], key)
        if self.domain == "" and self.node.op_type == "Constant":
            return self._constant()
        if aten_nodes.is_call(self.node):
            return self._aten()
        if (self.domain, self.node.op_type) == gradients.OPERATOR:
            return self._gradient()
        version = self._version()
        implementation = find(self.domain, self.node.op_type, version)
        if implementation is not None and self.domain == "" and self._on_numbers(implementation):
            return None
        if implementation is not None:
            return self._call(implementation, version)
        self._by_definition(version)

    def _version(self) -> int:
        names = _STANDARD if self.domain == "" else (self.domain,)
        versions = [self.opsets[name] for name in names if name in self.opsets]
        if not versions and self.domain == "":
            raise BackendError("the model does not say which opset of ai.onnx it uses", module=self.where)
        return versions[0] if versions else 1

    def _slots(self) -> list[int]:
        return [self.scope.slot_of(value, self.where) for value in self.node.inputs]

    def _inputs(self) -> tuple[int, ...]:
        return tuple(self.scope.tensor(slot) for slot in self._slots())

    def _on_numbers(self, implementation: Implementation) -> bool:
        """Whether the node computes sizes or constants, as numbers: then it is done, now or in a step of its own."""
        operation = NUMBER_OPS.get(self.node.op_type)
        if operation is None or len(self.node.outputs) != 1 or not self.node.outputs[0].name:
            return False
        if not implementation.names.issuperset(self.attributes):
            return False  # which is refused
        attributes = {name: attribute_value(attribute) for name, attribute in self.attributes.items()}
        if self.node.op_type in OF_TENSORS:
            self._holds(
                replace(SIZES[self.node.op_type], slot=self._numbers_step(operation, self._inputs(), attributes))
            )
            return True
        slots = self._slots()
        given = [None if slot == MISSING else self.scope.numbers_in(slot) for slot in slots]
        if any(each is None and slot != MISSING for each, slot in zip(given, slots, strict=True)):
            return False
        found = result_of(self.node.op_type, given, attributes)
        if found is None:
            return False
        if found.content is not None:
            slot = self.scope.constant(found.content, 0)
        else:
            places = tuple(MISSING if each is None else each.slot for each in given)
            slot = self._numbers_step(operation, places, attributes)
        self._holds(replace(found, slot=slot))
        return True

    def _numbers_step(self, operation: NumberOp, inputs: tuple[int, ...], attributes: dict[str, Any]) -> int:
        slot = self.scope.new_slot()
        self.scope.steps.append(Step(operation.step, inputs, (slot,), attributes, {}, self.where, op="Size"))
        return slot

    def _holds(self, numbers: Numbers) -> None:
        self.scope.places[self.node.outputs[0]] = self.scope.add_numbers(numbers)

    def _mixed_inputs(self, implementation: Implementation, slots: Sequence[int]) -> tuple[int, ...]:
        """Numbers where the implementation takes them, tensors everywhere else."""
        found = []
        for place, slot in enumerate(slots):
            most = implementation.numbers.get(place, -1)
            numbers = self.scope.numbers_in(slot) if most >= 0 and slot != MISSING else None
            as_numbers = numbers is not None and numbers.rank <= most
            found.append(numbers.slot if numbers is not None and as_numbers else self.scope.tensor(slot))
        return tuple(found)

    def _outputs(self) -> tuple[int, ...]:
        return tuple(self.scope.define(value) if value.name else MISSING for value in self.node.outputs)

    def _step(self, function: Any, op: str) -> None:
        inputs = self._inputs()
        self.scope.steps.append(Step(function, inputs, self._outputs(), {}, {}, self.where, op=op))

    def _constant(self) -> None:
        ((name, attribute),) = self.attributes.items() if len(self.attributes) == 1 else ((None, None),)
        if attribute is None or name is None:
            raise BackendError("a Constant has exactly one attribute", module=self.where)
        content = attribute_value(attribute)
        number = int(attribute.value.dtype) if attribute.type == ir.AttributeType.TENSOR else 0
        if name in ("value_float", "value_floats"):
            content = torch.tensor(content, dtype=torch.float32)
        elif name in ("value_int", "value_ints"):
            content = torch.tensor(content, dtype=torch.int64)
        elif name in ("value_string", "value_strings"):
            content = to_torch(content)
        if isinstance(content, torch.Tensor):
            content = content.to(self.scope.compiler.device)
        self.scope.places[self.node.outputs[0]] = self.scope.constant(content, number)

    def _aten(self) -> None:
        try:
            call = aten_nodes.decode(self.node)
            check_call(call.target, self.scope.compiler.custom_ops)
        except ExportError as error:
            raise BackendError(error.what, op=error.op, module=self.where, hint=error.hint) from error

        def run(*inputs: Any) -> tuple[Any, ...]:
            check_arguments(call.target, *call.bind(inputs))
            results = tuple(flat(call.run(inputs)))
            check_results(results)
            return results

        self._step(run, "ATen" if sizes_follow_from_shapes(call) else "")

    def _call(self, implementation: Implementation, version: int) -> None:
        attributes, bodies = self._bound(implementation, version)
        slots = self._slots()
        inputs = self._mixed_inputs(implementation, slots)
        about = {
            "outputs": len(self.node.outputs),
            "types": tuple(self.scope.types[slot] if slot >= 0 else 0 for slot in slots),
            "opset": version,
            "natural": tuple(slot in self.scope.natural for slot in slots),
        }
        attributes.update({name: about[name] for name in ABOUT_THE_NODE if name in implementation.names})
        outputs = self._outputs()
        if self._is_natural(slots):
            self.scope.natural.update(outputs)
        for slot in outputs:
            if slot >= 0 and not self.scope.types[slot]:
                self.scope.types[slot] = type_of_result(self.node.op_type, attributes, about["types"])
        op = self.node.op_type
        self.scope.steps.append(Step(implementation.function, inputs, outputs, attributes, bodies, self.where, op=op))

    def _is_natural(self, slots: Sequence[int]) -> bool:
        """Whether the results are integers that are never negative because those they are picked from are not."""
        count = _PICKS_FROM.get(self.node.op_type) if self.domain == "" else None
        return count is not None and bool(slots) and all(slot in self.scope.natural for slot in slots[:count])

    def _bound(self, implementation: Implementation, version: int) -> tuple[dict[str, Any], dict[str, Body]]:
        found: dict[str, Any] = {}
        defaults = schema_defaults(self.domain, self.node.op_type, version)
        for name, attribute in defaults.items():
            if name in implementation.names or implementation.takes_all:
                found[name] = attribute_value(attribute)
        bodies: dict[str, Body] = {}
        for name, attribute in self.attributes.items():
            if attribute.type == ir.AttributeType.GRAPH:
                bodies[name] = self._body(attribute.as_graph())
            elif name in implementation.names or implementation.takes_all:
                found[name] = attribute_value(attribute, self.scope.compiler.device)
            elif name in IGNORED_ATTRIBUTES and self.domain == "":
                continue
            elif name not in defaults or attribute.value != defaults[name].value:
                raise BackendError(f"the attribute {name}={attribute.value!r} is not supported", module=self.where)
        return found, bodies

    def _body(self, graph: ir.Graph) -> Body:
        inner = _Scope(self.scope.compiler, self.scope)
        for value in graph.initializers.values():
            if value.const_value is not None:
                content = tensor_value(value.const_value, self.scope.compiler.device)
                inner.places[value] = inner.constant(content, int(value.const_value.dtype))
        for value in graph.inputs:
            inner.define(value)
        inner.nodes(graph, self.opsets, self.given, (*self.path, id(graph)))
        plan = inner.plan(graph.inputs, graph.outputs)
        return Body(plan, tuple(inner.captured))

    def _gradient(self) -> None:
        """The nodes that it differentiates are a body."""
        about = {name: attribute_value(attribute) for name, attribute in self.attributes.items()}
        xs, zs = about.get("xs", []), about.get("zs", [])
        nodes, sources, target = gradients.differentiated(self.node, xs, zs, about.get("y", ""))
        inner = _Scope(self.scope.compiler, self.scope)
        for value in sources:
            inner.define(value)
        for node in nodes:
            _Node(inner, node, self.opsets, self.given, (*self.path, id(self.node))).compile()
        body = Body(inner.plan(sources, [target]), tuple(inner.captured))
        inputs = self._inputs()
        step = Step(gradients.gradient, inputs, self._outputs(), {"count": len(xs)}, {"body": body}, self.where)
        self.scope.steps.append(step)

    # Functions

    def _inline(self, function: ir.Function, key: Any) -> None:
        """A call of a function: its nodes, on the slots of the call."""
        if key in self.path:
            raise BackendError(f"the function {key} calls itself", module=self.where)
        given = {name: attribute for name, attribute in function.attributes.items() if attribute.value is not None}
        given.update(self.attributes)
        if len(self.node.inputs) > len(function.inputs) or len(self.node.outputs) > len(function.outputs):
            raise BackendError(f"the function {key} has fewer inputs or outputs than its call", module=self.where)
        slots = [*self._slots(), *[MISSING] * (len(function.inputs) - len(self.node.inputs))]
        before = dict(self.scope.places)
        self.scope.places.update(zip(function.inputs, slots, strict=True))
        opsets = {**self.opsets, **function.opset_imports}
        self.scope.nodes(function, opsets, given, (*self.path, key))
        results = [self.scope.slot_of(value, self.where) for value in function.outputs]
        # The next call of the same function has the same values, on other slots.
        self.scope.places = before
        self.scope.places.update(
            (value, slot) for value, slot in zip(self.node.outputs, results, strict=False) if value.name
        )

    def _by_definition(self, version: int) -> None:
        """An operator that ONNX defines by others."""
        schema = definition(self.node.op_type, version, self.domain)
        if schema is not None and schema.has_function:
            body = schema.get_function_with_opset_version(version) or schema.function_body.SerializeToString()
            function = ir.serde.deserialize_function(onnx.FunctionProto.FromString(body))
            for name, attribute in schema_defaults(self.domain, self.node.op_type, version).items():
                self.attributes.setdefault(name, attribute)
            return self._inline(function, self.node.op_identifier())
        if schema is not None and schema.has_context_dependent_function:
            proto = onnx.NodeProto(op_type=self.node.op_type, domain=self.node.domain, name=self.node.name or "")
            proto.attribute.extend(ir.serde.serialize_attribute(each) for each in self.attributes.values())
            inputs = self._inputs()
            types = tuple(self.scope.types[slot] if slot >= 0 else 0 for slot in inputs)
            wanted = tuple(bool(value.name) for value in self.node.outputs)
            return self._step(ContextFunction(schema, version, proto, wanted, types, dict(self.opsets)), NESTED)
        raise BackendError(
            f"the operator {self.domain or 'ai.onnx'}.{self.node.op_type} is not implemented for opset {version}",
            module=self.where,
            hint="implement it with @onward.backend.implements, or give the model a function of that name",
        )
