"""From a captured program to an ONNX model: one walk over the fx graph."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir
import torch
from torch import fx

from onward.capture.program.facts import (
    CapturedProgram,
    Constant,
    ListFact,
    SizeFact,
    SymDim,
    TensorFact,
    is_complex,
    pair_tensor,
)
from onward.capture.program.regions import Body
from onward.errors import ExportError, LoweringError, UnsupportedOpError
from onward.lower import registry as registries
from onward.lower.aten_nodes import encode
from onward.lower.complex import Complex, as_pair, constant, from_pair, pair_fact, real_fact
from onward.lower.constants import SMALL
from onward.lower.core import Place
from onward.lower.emitter import Emitter, SizeValue, Value, drop_dead, onnx_shape, used_values
from onward.lower.limits import described_limits, refusing
from onward.lower.lists import check_lists
from onward.lower.operator_forms import OperatorForms, number_dtype, results_of
from onward.lower.origins import ORIGINS, origins
from onward.lower.proven import forget_unproven
from onward.lower.regions import FENCE, MODELS_OWN, REGIONS, Choice, Regions
from onward.lower.sizes import is_size_function
from onward.lower.symbolic.registration import users
from onward.options import OperatorExportTypes

_SYM_SIZE = torch.ops.aten.sym_size.int
_SYM_NUMEL = torch.ops.aten.sym_numel.default


def lower_program(
    program: CapturedProgram,
    opset: int,
    *,
    registry: registries.Registry | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    producer_version: str | None = None,
    doc_strings: bool = False,
    keep_together: Choice | None = None,
    operators: OperatorExportTypes = OperatorExportTypes.ONNX,
) -> ir.Model:
    """The program as an ONNX model in the default domain's `opset`; `custom_opsets` are versions of other domains.

    With `doc_strings` every node says which line of the user's code it comes from, by its whole path. `keep_together`
    says of a module's class whether its nodes form a region (regions.py), `operators` which calls are written down as
    they are (operator_forms.py).
    """
    walk = _Walk(program, opset, registry or users, doc_strings, keep_together, operators)
    graph = walk.run()
    _set_versions(graph, custom_opsets or {})
    model = ir.Model(
        graph,
        ir_version=ir_version(opset, local_functions=bool(walk.session.functions)),
        producer_name="onward",
        producer_version=producer_version,
        functions=list(walk.session.functions.values()),
        metadata_props={**_bounds(program), **described_limits(program)},
    )
    model.meta[REGIONS] = walk.regions.table
    model.meta[ORIGINS] = origins(program.graph, walk.values, graph)
    return model


def _bounds(program: CapturedProgram) -> dict[str, str]:
    """`onward.axis.batch: 2..64` for every axis that the user bounded: onnxruntime shows it as custom metadata."""
    ports = [*program.inputs, *program.outputs]
    found = {port.axes[axis]: bounds for port in ports for axis, bounds in port.bounds.items()}
    return {f"onward.axis.{name}": f"{low}..{'' if high is None else high}" for name, (low, high) in found.items()}


def _set_versions(graph: ir.Graph, custom_opsets: Mapping[str, int]) -> None:
    for domain, version in custom_opsets.items():
        if domain in graph.opset_imports:
            graph.opset_imports[domain] = version
        else:
            used = ", ".join(sorted(map(repr, filter(None, graph.opset_imports)))) or "none"
            warnings.warn(
                f"custom_opsets names the domain {domain!r}, and no node of the model is of it (domains used: {used})",
                stacklevel=2,
            )


def ir_version(opset: int, *, local_functions: bool = False) -> int:
    """The oldest file format that may carry an opset, so that the oldest runtimes that know the opset read the file.

    Local functions came with version 8.
    """
    return max(onnx.helper.OP_SET_ID_VERSION_MAP[("ai.onnx", opset)], 8 if local_functions else 0)


def missing_lowerings(graph: fx.Graph, opset: int, registry: registries.Registry) -> dict[Any, list[fx.Node]]:
    """The operators of a graph that cannot be lowered, with the nodes that call them."""
    missing: dict[Any, list[fx.Node]] = {}
    has_lowering = functools.cache(lambda target, of_complex: registry.has_lowering(target, opset, of_complex))
    for node in _all_nodes(graph):
        if node.op != "call_function" or node.target in (operator.getitem, _SYM_SIZE, _SYM_NUMEL):
            continue
        if not is_size_function(node.target) and not has_lowering(node.target, _of_complex(node)):
            missing.setdefault(node.target, []).append(node)
    return missing


def _all_nodes(graph: fx.Graph) -> Iterator[fx.Node]:
    """The nodes of a graph, and those of the bodies in it."""
    for node in graph.nodes:
        yield node
        for argument in node.args:
            if isinstance(argument, Body):
                yield from _all_nodes(argument.graph)


class _Walk:
    def __init__(
        self,
        program: CapturedProgram,
        opset: int,
        registry: registries.Registry,
        doc_strings: bool = False,
        keep_together: Choice | None = None,
        operators: OperatorExportTypes = OperatorExportTypes.ONNX,
    ) -> None:
        self.program, self.opset, self.registry, self.doc_strings = program, opset, registry, doc_strings
        self.g = Emitter(opset)
        self.session = self.g._session
        self.session.lower_body = self.lower_body
        self.values: dict[fx.Node, Any] = {}
        self.regions = Regions(self.g, program.graph, self.values, keep_together)
        self._lowerings: dict[Any, registries.Lowering | None] = {}
        self.forms = OperatorForms(operators)

    def run(self) -> ir.Graph:
        check_lists(_all_nodes(self.program.graph), self.opset)
        missing = missing_lowerings(self.program.graph, self.opset, self.registry)
        missing = {target: nodes for target, nodes in missing.items() if not self.forms.can_write(target)}
        if missing:
            raise self._all_missing(missing)
        for port in (*self.program.inputs, *self.program.outputs):
            self.session.names.setdefault(port.name, 0)
        ports = iter(self.program.inputs)
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, next(ports))
            elif node.op == "get_attr":
                self._constant(node, self.program.constants[str(node.target)])
            elif node.op == "call_function":
                self.regions.follow(node)
                self._call(node)
            elif node.op == "output":
                self.regions.follow(None)
                return self._finish(node)
        raise LoweringError("the captured graph has no output node")

    def lower_body(self, g: Emitter, body: Body, inputs: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        """A body of control flow into the graph of another emitter; what its results became."""
        outer, place = self.g, self.session.place
        self.g = g
        try:
            for node, value in zip(body.placeholders, (*inputs, *operands), strict=True):
                self.values[node] = value
            for node in body.graph.nodes:
                if node.op == "call_function":
                    self._call(node)
            return [self._value(result) for result in body.results]
        finally:
            self.g, self.session.place = outer, place

    def _placeholder(self, node: fx.Node, port: Any) -> None:
        fact = self._fact_in_file(port.fact)
        value = ir.Value(name=port.name, shape=onnx_shape(fact.shape))
        self.g.inputs.append(value)
        self.g.annotate(value, fact.shape, fact.dtype)
        self.g.describe(value)
        self._enter(node, value, port.fact, port.name)

    def _constant(self, node: fx.Node, given: Constant) -> None:
        if not (given.tensor.is_complex() and self.forms.splits_complex):
            if given.live:
                self.values[node] = self.g.live_weight(given.tensor, given.name)
            else:
                self.values[node] = self.g.const_tensor(given.tensor, _constant_name(given, node))
        elif given.live:
            self._enter(node, self.g.live_weight(pair_tensor(given.tensor), given.name), node.meta["val"], given.name)
        else:
            self.values[node] = constant(self.g, given.tensor, _constant_name(given, node))

    def _enter(self, node: fx.Node, value: Value, fact: TensorFact, name: str) -> None:
        """A value from outside: a pair is split."""
        first = len(self.g.nodes)
        made = from_pair(self.g, value, fact) if self.forms.splits_complex else value
        self._name(self.g.nodes[first:], made, Place(name=name))
        self.values[node] = made

    def _fact_in_file(self, fact: Any) -> Any:
        return pair_fact(fact) if self.forms.splits_complex else fact

    # Calls

    def _call(self, node: fx.Node) -> None:
        target = node.target
        if target is operator.getitem:
            self._pick(node)
            return
        self.session.place = place = self._place(node)
        first = len(self.g.nodes)
        try:
            fact = node.meta.get("val")
            if self.forms.writes_sizes:
                result: Any = self._lower(node)
            elif target is _SYM_SIZE:
                result = self.g.dim_size(self._shaped(node.args[0]), node.args[1])  # type: ignore[arg-type]
            elif target is _SYM_NUMEL:
                result = self.g.numel(self._shaped(node.args[0]))
            else:
                result = self._lower(node)
            self.values[node] = self._settle(result, results_of(fact)[1])
        except ExportError as error:
            placed = self._placed(error, place)
            if placed is error:
                raise
            raise placed from error
        except Exception as error:
            raise self._failed(error, place, node) from error
        self._name(self.g.nodes[first:], self.values[node], place)

    def _shaped(self, node: Any) -> Value:
        """A value that has the axes of a node's result."""
        value = self.values[node]
        return value.real if isinstance(value, Complex) else value

    def _pick(self, node: fx.Node) -> None:
        """One result of several. A lowering may leave out (or give None for) results that nobody reads."""
        origin, index = node.args
        results = self._value(origin)
        picked = results[index] if -len(results) <= index < len(results) else None  # type: ignore[operator]
        if picked is None and node.users:
            place = self._place(origin)  # type: ignore[arg-type]
            self.session.place = place
            raise self.g.unsupported(f"its result {index} is not computed")
        self.values[node] = picked

    def _lower(self, node: fx.Node) -> Any:
        args, kwargs = self._value(node.args), self._value(node.kwargs)
        target = node.target
        fact = node.meta.get("val")
        if isinstance(fact, TensorFact):
            self.g.doubt(fact.shape, _numbers_among(args))
        of_complex = self.forms.splits_complex and _of_complex(node)
        if (target, of_complex) not in self._lowerings:
            self._lowerings[target, of_complex] = self.registry.find(target, self.opset, of_complex)
        lowering = self._lowerings[target, of_complex]
        if of_complex and lowering is not registries.complex_registry.find(target, self.opset):
            args, kwargs = as_pair(self.g, args), as_pair(self.g, kwargs)  # a user's function, which knows Values only
        facts = (fact, *(used.meta.get("val") for used in node.all_input_nodes))
        name = self.forms.name(target, has_lowering=lowering is not None, facts=facts)
        if name is not None:
            return self._write_down(node, args, kwargs, name)
        if lowering is None:
            return self._on_sizes(target, args, node.meta.get("val"))
        if self._holds_nothing(fact):
            return self._nothing(fact)
        try:
            positional, named = lowering.bind(target, args, kwargs)
            return lowering.function(self.g, *positional, **named)
        except LoweringError:
            name = self.forms.name(target, has_lowering=False)
            if name is None:
                raise
            return self._write_down(node, args, kwargs, name)

    def _nothing(self, fact: Any) -> Any:
        """Results without elements: their shapes say all there is, and runtimes fail on many of them."""
        if not isinstance(fact, TensorFact):
            return [self._nothing(each) for each in fact]
        if fact.is_static:
            return self.g.const_tensor(torch.empty([int(dim) for dim in fact.shape], dtype=fact.dtype))  # type: ignore[arg-type]
        empty = self.g.op.ConstantOfShape(self.g.shape(fact.shape), value=torch.zeros(1, dtype=fact.dtype))
        return self.g.annotate(empty, fact.shape)

    def _holds_nothing(self, fact: Any) -> bool:
        """Whether every result is known to have no elements, at any size of any dynamic axis."""
        if isinstance(fact, (tuple, list)):
            return bool(fact) and all(map(self._holds_nothing, fact))
        if not isinstance(fact, TensorFact) or fact.dtype.is_complex or 0 not in fact.shape:
            return False
        return all(isinstance(dim, int) or self.g.is_at_hand(dim) for dim in fact.shape)

    def _write_down(self, node: fx.Node, args: Sequence[Any], kwargs: dict[str, Any], name: tuple[str, str]) -> Any:
        """The call itself as a node."""
        outputs, _ = results_of(node.meta.get("val"))
        result = encode(self.g, node.target, args, kwargs, name, outputs)
        fact = node.meta.get("val")
        if isinstance(fact, SizeFact):
            self.g.describe(self.g.annotate(result, (), number_dtype(fact)))
        return result

    def _on_sizes(self, function: Any, args: Sequence[Any], fact: Any) -> Any:
        """Arithmetic on sizes: nothing is emitted before somebody needs the number."""
        if not any(isinstance(arg, SizeValue) for arg in args):
            return function(*args)
        if not isinstance(fact, SizeFact):
            return SizeValue.of(function, *args)
        size = SizeValue(fact.values, function, tuple(args))
        if len(set(fact.values)) == 1:  # capture found out that other sizes differ, or it were a plain number
            size.exact = False
        self.g.note_size(size)
        return size

    def _value(self, argument: Any) -> Any:
        """An fx argument with every node replaced by what it became."""
        if isinstance(argument, fx.Node):
            # What a body takes from outside went in as operands, and passed the fences there.
            return self.values[argument] if self.g.is_body else self.regions.seen_from_here(argument)
        if isinstance(argument, tuple):
            return tuple(self._value(item) for item in argument)
        if isinstance(argument, list):
            return [self._value(item) for item in argument]
        if isinstance(argument, dict):
            return {name: self._value(item) for name, item in argument.items()}
        return argument

    def _settle(self, result: Any, fact: Any) -> Any:
        """Hold a result against what capture saw: the dtype is brought in line, a contradicting shape is an error."""
        if isinstance(result, (tuple, list)):
            facts = fact if isinstance(fact, (tuple, list)) else [None] * len(result)
            if len(facts) < len(result):
                raise TypeError(f"the lowering returned {len(result)} values, the operator has {len(facts)}")
            return [self._settle(item, item_fact) for item, item_fact in zip(result, facts, strict=False)]
        if isinstance(fact, TensorFact) and fact.dtype.is_complex and self.forms.splits_complex:
            made = result if isinstance(result, Complex) else from_pair(self.g, self.g.as_value(result), fact)
            return Complex(*(self._settle_tensor(part, real_fact(fact)) for part in made.parts))  # type: ignore[union-attr]
        if isinstance(result, Value) and isinstance(fact, TensorFact):
            return self._settle_tensor(result, fact)
        if isinstance(result, Value) and isinstance(fact, ListFact):
            return result if self.g.fact_of_list(result) is not None else self.g.annotate_list(result, fact)
        if isinstance(result, Value) and isinstance(fact, SizeFact):
            return SizeValue(fact.values, "given", (result,))
        if isinstance(fact, TensorFact) and isinstance(result, (int, float, SizeValue)):
            return self._settle_tensor(self.g.as_value(result, fact.dtype), fact)
        return result

    def _settle_tensor(self, value: Value, fact: TensorFact) -> Value:
        g = self.g
        if self.session.dtypes.get(value, fact.dtype) is not fact.dtype:
            value = g.cast(value, fact.dtype)
        known = g.dims(value)
        if known is not None and not _agree(known, fact.shape):
            raise ValueError(f"the lowering gives a tensor of shape {_text(known)}, PyTorch one of {_text(fact.shape)}")
        if value.producer() is not None:
            g.annotate(value, fact.shape, fact.dtype)
            g.describe(value, fact.shape)
        return value

    # Names and places

    def _place(self, node: fx.Node) -> Place:
        scope, source = node.meta.get("scope"), node.meta.get("source")
        name = registries.op_name(node.target)
        short = name.split(".")[1] if isinstance(node.target, torch._ops.OpOverload) else name.rpartition(".")[2]
        path = scope.path if scope is not None else ""
        return Place(name, scope, source, node.meta.get("val"), f"{path}.{short}" if path else short)

    def _name(self, nodes: Sequence[ir.Node], result: Any, place: Place) -> None:
        """The node that makes the result is named after module and operator; its helpers add their ONNX type."""
        results = result if isinstance(result, list) else [result]
        numbers = [each.operands[0] for each in results if isinstance(each, SizeValue) and each.function == "given"]
        makers = {value.producer() for value in (*results, *numbers) if isinstance(value, Value)}
        pairs = (zip(each.parts, ("real", "imag"), strict=False) for each in results if isinstance(each, Complex))
        of_parts = {part.producer(): kind for pair in pairs for part, kind in pair}
        metadata = {**({"onward.aten": place.op} if place.op else {}), **self.regions.metadata}
        if place.scope is not None:
            metadata["onward.scope"] = place.scope.path
        if place.scope is not None and place.scope.classes:
            metadata["onward.classes"] = str(place.scope)
        if place.source is not None:
            metadata["onward.source"] = place.source.short
        for node in nodes:
            if FENCE in node.metadata_props or node.name:
                continue
            suffix = "" if node in makers else f".{of_parts.get(node, node.op_type)}"
            self.g.name_node(node, f"{place.name}{suffix}")
        for node in _with_bodies(nodes):
            for key, text in metadata.items():
                node.metadata_props.setdefault(key, text)
            if self.doc_strings and place.source is not None and node.doc_string is None:
                node.doc_string = f"{place.source} in {place.source.function}"

    # The end

    def _finish(self, node: fx.Node) -> ir.Graph:
        g = self.g
        self.session.place = Place("output", name="output")
        first = len(g.nodes)
        results = node.args[0] if isinstance(node.args[0], (tuple, list)) else [node.args[0]]
        outputs: list[Value] = []
        own = {value for emitted in g.nodes for value in emitted.outputs}
        is_limited = bool(self.program.limits)
        for result, port in zip(results, self.program.outputs, strict=True):
            value, fact = as_pair(g, self._value(result)), self._fact_in_file(port.fact)
            if not port.is_list:
                value = g.as_value(value, fact.dtype)
                if is_limited:
                    value, is_limited = refusing(g, self.program, value), False
            if (value not in own and value.producer() is None) or value in outputs:
                value = g.identity(value)
            value.name = port.name
            value.shape = onnx_shape(fact.shape)
            g.describe(value)
            outputs.append(value)
        self._name(g.nodes[first:], outputs, self.session.place)
        self._restore_weights(outputs)
        nodes = drop_dead(g.nodes, outputs)
        for emitted in nodes:
            for value in emitted.outputs:
                if value.type is None and value in self.session.dtypes:
                    g.describe(value, value.shape)  # type: ignore[arg-type]
        program = self.program
        forget_unproven(nodes, g.inputs, outputs, list(program.axes), program.space, self.session.tensors)
        return ir.Graph(
            g.inputs,
            outputs,
            nodes=nodes,
            initializers=self._initializers(nodes),
            opset_imports=dict(g.opset_imports),
            name=self.program.model_name or "model",
        )

    def _initializers(self, nodes: Sequence[ir.Node]) -> list[Value]:
        """The constants and live weights that are read, in the order of their first use."""
        found: dict[Value, None] = {}
        tensors, live = self.session.tensors, self.session.live
        for node in nodes:
            found.update((value, None) for value in used_values(node) if value in tensors or value in live)
        for value in found:
            value.meta[MODELS_OWN] = value in self.session.named or value in live
        return list(found)

    def _restore_weights(self, outputs: Sequence[Value]) -> None:
        """A weight that is read both as it is and transposed is stored once, with the Transpose as a node."""
        g = self.g
        live = set(self._initializers(_needed(g.nodes, outputs)))
        for value, (op, base, settings) in self.session.recipes.items():
            if value in live and base in live:
                name = value.name
                replaced = ir.Value(name=name, shape=value.shape, type=value.type)
                node = ir.Node("", op, [base], [ir.AttrInt64s("perm", settings["perm"])], outputs=[replaced], name=name)
                value.replace_all_uses_with(replaced)
                g.nodes.insert(0, node)

    # Errors

    def _called(self, node: fx.Node) -> str:
        """An operator's name, with the one that the user called where PyTorch decomposed that."""
        name, within = registries.op_name(node.target), node.meta.get("within")
        return name if within is None else f"{within} (by way of {name})"

    def _all_missing(self, missing: dict[Any, list[fx.Node]]) -> UnsupportedOpError:
        details = []
        for target, nodes in missing.items():
            name, first = self._called(nodes[0]), nodes[0]
            since = [version for version in self.registry.available_since(target) if version > self.opset]
            exists = f" (exists from {since[0]})" if since else ""
            source, scope = first.meta.get("source"), first.meta.get("scope")
            where = f" at {source}" if source else ""
            inside = f" in {scope.path}" if scope is not None and scope.path else ""
            details.append(f"{name}: {len(nodes)} call{'s' * (len(nodes) > 1)}{exists}, first{where}{inside}")
        target, nodes = next(iter(missing.items()))
        name, place = self._called(nodes[0]), self._place(nodes[0])
        newer = [min(v for v in self.registry.available_since(t) if v > self.opset) for t in missing if
                 any(v > self.opset for v in self.registry.available_since(t))]  # fmt: skip
        upgrade = f"try opset_version={max(newer)}, or " if len(newer) == len(missing) else ""
        calls = [_registration(each[0].meta.get("within", op), self.opset) for op, each in missing.items()]
        one = len(missing) == 1
        exists = f" (exists from {newer[0]})" if one and newer else ""
        return UnsupportedOpError(
            f"{name} has no lowering for opset {self.opset}{exists}"
            if one
            else f"{len(missing)} operators have no lowering for opset {self.opset}",
            op=name,
            module=(place.scope.path or None) if one and place.scope else None,
            source=str(place.source) if one and place.source else None,
            hint=f"{upgrade}register one: {calls[0]}" if one else "\n    ".join([f"{upgrade}register them:", *calls]),
            details=details if not one or len(nodes) > 1 else (),
        )

    def _placed(self, error: ExportError, place: Place) -> ExportError:
        """The same error, with the operator's place if it has none yet."""
        if error.module or error.source or not isinstance(error, LoweringError):
            return error
        return type(error)(
            error.what,
            op=error.op or place.op,
            module=place.scope.path if place.scope else None,
            source=str(place.source) if place.source else None,
            hint=error.hint,
            details=error.details,
        )

    def _failed(self, error: Exception, place: Place, node: fx.Node) -> LoweringError:
        what, hint = f"the lowering of {place.op} failed: {type(error).__name__}: {error}", None
        moving = _numbers_that_follow_sizes(node) if isinstance(error, TypeError | ValueError) else []
        if moving:
            verb = "depends" if len(moving) == 1 else "depend"
            what = f"{place.op} is not supported this way: its {' and '.join(moving)} {verb} on sizes"
            hint = "use numbers that are the same at all sizes there, or ask for a fixed axis"
        return LoweringError(
            what,
            op=place.op,
            module=place.scope.path if place.scope else None,
            source=str(place.source) if place.source else None,
            hint=hint,
        )


def _numbers_that_follow_sizes(node: fx.Node) -> list[str]:
    """The parameters of an operator, `stride` for example, that get a size. ONNX has many as fixed attributes."""
    schema = getattr(node.target, "_schema", None)
    named = {each.name: node.args[i] for i, each in enumerate(schema.arguments) if i < len(node.args)} if schema else {}
    types = {each.name: str(each.type) for each in schema.arguments} if schema else {}
    found = {**named, **node.kwargs}
    return [
        name for name, given in found.items()
        if "Tensor" not in types.get(name, "Tensor")
        and any(isinstance(each, fx.Node) for each in torch.utils._pytree.tree_leaves(given))
    ]  # fmt: skip


def _of_complex(node: fx.Node) -> bool:
    """Whether a call is one of an operator with complex numbers. Branches and loops hand them over themselves."""
    return isinstance(node.target, torch._ops.OpOverload) and (is_complex(node.args) or is_complex(node.kwargs))


def _registration(op: Any, opset: int) -> str:
    """What to write to add an operator."""
    name = str(registries.op_key(op)).removesuffix(".default")
    return f'onward.register_custom_op_symbolic("{name}", function, {opset})'


def _needed(nodes: Sequence[ir.Node], outputs: Sequence[Value]) -> list[ir.Node]:
    live, kept = set(outputs), []
    for node in reversed(nodes):
        if any(value in live for value in node.outputs):
            live.update(used_values(node))
            kept.append(node)
    return kept[::-1]


def _with_bodies(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Nodes, and those in the bodies of their If, Loop and Scan."""
    for node in nodes:
        yield node
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from _with_bodies(attribute.as_graph())


def _constant_name(constant: Constant, node: fx.Node) -> str | None:
    """A parameter's or a buffer's own name, which what was made of it begins with. Any other tensor that the model
    made on the way is named after the module that reads it first, or, if it is small, by what it holds."""
    if constant.kind != "constant" or constant.origin is not None:
        return constant.origin or constant.name
    if constant.tensor.numel() <= SMALL:
        return None
    scope = next((user.meta["scope"] for user in node.users if user.meta.get("scope") is not None), None)
    return f"{scope.path}.constant" if scope is not None and scope.path else "constant"


def _agree(known: Sequence[Any], seen: Sequence[Any]) -> bool:
    """Whether a propagated shape can be the captured one: equal rank, equal static sizes."""
    if len(known) != len(seen):
        return False
    return all(a == b for a, b in zip(known, seen, strict=True) if isinstance(a, int) and isinstance(b, int))


def _text(shape: Sequence[Any]) -> str:
    return "[" + ", ".join(str(dim.name or dim.values) if isinstance(dim, SymDim) else str(dim) for dim in shape) + "]"


__all__ = ["ir_version", "lower_program", "missing_lowerings"]


def _numbers_among(args: Sequence[Any]) -> list[Any]:
    """Arguments, and the items of those that are lists."""
    return [item for arg in args for item in (arg if isinstance(arg, (list, tuple)) else (arg,))]
