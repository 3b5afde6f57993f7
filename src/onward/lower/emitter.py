"""The emitter: what a lowering calls `g`.

    @lowers(aten.hardtanh.default)
    def hardtanh(g: Emitter, x: Value, lo: float = -1, hi: float = 1) -> Value:
        '''hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor'''
        return g.clip(x, lo, hi)

**What a lowering gets and returns.** Tensors are `Value`s (constants too). Numbers, bools, None, strings, dtypes and
lists arrive as they are; a number that depends on sizes arrives as a `SizeValue` (also inside lists), on which
`+ - * // /` work. It returns a Value, or a tuple or list of Values for an operator with several results. A result whose
dtype differs from what capture saw is cast to it; one whose shape contradicts capture is an error.

**Nodes.**  g.op.Conv(x, w, b, strides=[1, 1])   g.op.TopK(x, k, outputs=2) -> tuple  g.node("Name", inputs, attributes)
    Inputs are Values or None (absent). Attributes are converted to the type the schema asks for (ints serve as floats,
    a torch.dtype as INT, a torch.Tensor as TENSOR, an onnx_ir.Graph as GRAPH); None means not given; a wrong name is an
    error. Constants fold, equal nodes are shared, identities vanish. Element types that the schema or onnxruntime's CPU
    kernels lack are computed in the nearest type that runs and cast back: do not write casts for that.

**Constants.**  g.const(1)  g.const([1, 2])  g.const(0.5, torch.float16)  g.like(x, 2) (0-d, x's dtype)
    g.const_tensor(tensor)  g.value_of(x) -> torch.Tensor or None  g.is_const(x)
    g.const_from("flipped", [w], lambda: ...): a constant worked out from others, once however often they are used
    g.as_value(a, dtype=None): a number, size or Value as a Value

**Facts.**  g.out (TensorFact, or a tuple)  g.out_dtype  g.dims(x) -> (int | SymDim, ...) or None  g.known_dims(x)
    g.rank(x)  g.dtype(x)  g.annotate(x, dims, dtype) where propagation cannot know  g.opset
    g.fact_of_list(x) -> ListFact of a sequence, or None  g.annotate_list(x, fact)
    g.place.op, g.place.scope, g.place.source: the ATen node being lowered

**Dtypes.**  g.cast(x, dtype)  g.promote(x, 2, y) -> all as g.out_dtype  g.promote(x, y, dtype=...)
    g.result_type(x, 2) -> what PyTorch would promote to

**Sizes.**  g.dim_size(x, axis) -> int or SizeValue  g.numel(x, axes)  g.shape([2, s, dim]) -> 1-D int64
    g.size(s) -> int64 [1]  g.scalar(s) -> 0-d.  Ints, SymDims (from g.dims), SizeValues and one-element Values serve.

**Forms that differ between opsets** (always use these):
    g.squeeze(x, axes)  g.unsqueeze(x, axes)  g.reduce("ReduceSum", x, axes, keepdims)  g.reshape(x, sizes)
    g.slice(x, starts, ends, axes, steps)  g.split(x, sizes, axis)  g.pad(x, pads, mode, value)  g.expand(x, sizes)
    g.flatten(x, start, end)  g.arange(start, end, step, dtype)  g.topk(x, k, axis, largest, sorted)  g.clip(x, lo, hi)
    g.max(x, y, ...)  g.min(x, y, ...)  g.equal  g.not_equal  g.less_or_equal  g.greater_or_equal  g.where(c, x, y)
    g.mod (sign of y)  g.fmod (sign of x)  g.floor_divide  g.trunc  g.round  g.pow(x, exponent)  g.cumsum(x, axis)
    g.softmax(x, axis)  g.log_softmax(x, axis)  g.layer_norm(x, axes, weight, bias, epsilon)  g.one_hot(i, depth, dtype)
    g.gather_elements(x, i, axis)  g.scatter_elements(x, i, updates, axis, reduction)  g.resize(x, sizes=..., mode=...)
    Their axes may be negative. So may the `axis` attribute of any g.op.X at every opset.

**Subgraphs.**  body = g.subgraph("body"); i = body.input("i", torch.int64, ()); ...; graph = body.graph([outputs]);
    g.node("Loop", [...], {"body": graph}, outputs=n). Values of the outer graph may be used inside, never the reverse.

**Gaps.**  g.can_run("RandomNormal"): the operator exists at this opset and onnxruntime has a kernel for that version.

**Errors.**  raise g.unsupported("ceil_mode with dilation > 1")    raise g.needs_opset(13)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import from_torch_dtype

from onward.capture.program.facts import Dim, ListFact
from onward.lower import dtypes, schemas
from onward.lower.bridge_math import Bridge
from onward.lower.core import Number, Place, Value
from onward.lower.size_values import Size, SizeValue

__all__ = ["Emitter", "Number", "Place", "Size", "SizeValue", "Value"]


class Emitter(Bridge):
    """Builds one graph: see the top of this file."""

    def __init__(self, opset: int, *, parent: Emitter | None = None, name: str = "") -> None:
        super().__init__(opset, parent=parent)
        self.name = name
        self.inputs: list[Value] = []

    # Numbers and dtypes

    def as_value(self, value: Value | Number | SizeValue, dtype: torch.dtype | None = None) -> Value:
        """A Value, a number or a size as a Value; cast to the dtype if one is given."""
        if isinstance(value, Value):
            return value if dtype is None else self.cast(value, dtype)
        if isinstance(value, SizeValue):
            made = self.scalar(value)
            return made if dtype is None else self.cast(made, dtype)
        return self.const(value, dtype)

    def promote(self, *values: Value | Number | SizeValue, dtype: torch.dtype | None = None) -> list[Value]:
        """All as the dtype of the result (or the one given); numbers become 0-d constants."""
        wanted = self.out_dtype if dtype is None else dtype
        return [self.as_value(value, wanted) for value in values]

    def result_type(self, *values: Value | Number | SizeValue) -> torch.dtype:
        """PyTorch's promotion: tensors with axes, then 0-d ones, then numbers; the later only lift the kind."""
        ranks: list[torch.dtype | None] = [None, None, None]
        for value in values:
            if isinstance(value, Value):
                rank, dtype = (1 if self.dims(value) == () else 0), self.dtype(value)
            else:
                kind = value.values[0] if isinstance(value, SizeValue) else value
                rank, dtype = 2, dtypes.python_dtype(kind)
                dtype = torch.get_default_dtype() if dtype.is_floating_point else dtype
            known = ranks[rank]
            ranks[rank] = dtype if known is None else torch.promote_types(known, dtype)
        result: torch.dtype | None = None
        for dtype_or_none in ranks:
            if dtype_or_none is None:
                continue
            if result is None or _kind(dtype_or_none) > _kind(result):
                result = dtype_or_none
        if result is None:
            raise TypeError("result_type needs at least one value")
        return result

    # Subgraphs

    @property
    def is_body(self) -> bool:
        """Whether this is the graph of a branch or a loop."""
        return self._parent is not None

    def subgraph(self, name: str) -> Emitter:
        """An emitter for the body of an If or a Loop. It may use values of this one; this one must not use its own."""
        return Emitter(self.opset, parent=self, name=name)

    def input(self, name: str, dtype: torch.dtype, shape: Sequence[Dim] | None = None) -> Value:
        """Declare an input of this graph."""
        value = ir.Value(name=self._session.unique(name), type=ir.TensorType(dtypes.to_onnx(dtype)))
        if shape is not None:
            value.shape = onnx_shape(shape)
        self.inputs.append(value)
        return self.annotate(value, shape, dtype)

    def input_list(self, name: str, fact: ListFact) -> Value:
        """The same for a sequence."""
        value = ir.Value(name=self._session.unique(name))
        self.inputs.append(value)
        return self.annotate_list(value, fact)

    def graph(self, outputs: Sequence[Value]) -> ir.Graph:
        """The finished body, to be given as an attribute."""
        own = {value for node in self.nodes for value in node.outputs}
        results: list[Value] = []
        for output in outputs:
            if output not in own or output in results:  # a body may only return what it computes, each value once
                output = self.identity(output)
            results.append(output)
        base = self._session.place.name
        nodes = drop_dead(self.nodes, results)
        for node in nodes:
            self.name_node(node, f"{base}.{self.name}.{node.op_type}")
            for value in node.outputs:
                self.describe(value)
        return ir.Graph(self.inputs, results, nodes=nodes, name=self._session.unique(f"{base}.{self.name}"))

    def lower(self, body: Any, inputs: Sequence[Any] = (), operands: Sequence[Any] = ()) -> list[Any]:
        """Lower a captured body (`capture/program/regions.py`) into this graph; what its results became."""
        if self._session.lower_body is None:
            raise TypeError("bodies can only be lowered as part of a program")
        return self._session.lower_body(self, body, inputs, operands)

    def identity(self, x: Value) -> Value:
        """A copy of x under a name of its own; what `g.op.Identity` would drop."""
        fact = self._session.lists.get(x)
        if fact is not None:
            return self._identity_of_list(x, fact)
        dtype = self._session.dtypes.get(x)
        self.check_open("Identity", [dtype])
        node = ir.Node("", "Identity", [x], num_outputs=1)
        self.nodes.append(node)
        made = node.outputs[0]
        return self.annotate(made, self.dims(x), dtype)

    def _identity_of_list(self, x: Value, fact: ListFact) -> Value:
        """The same for a sequence, which Identity takes from opset 14 on: before, one more element comes and goes."""
        if self.opset >= 14:
            nodes = [ir.Node("", "Identity", [x], num_outputs=1)]
        else:
            more = self.const_tensor(torch.zeros((1,) * fact.rank, dtype=fact.dtype))
            nodes = [ir.Node("", "SequenceInsert", [x, more], num_outputs=1)]
            nodes.append(ir.Node("", "SequenceErase", [nodes[0].outputs[0]], num_outputs=1))
        self.nodes += nodes
        for node in nodes:
            self.annotate_list(node.outputs[0], fact)
        return nodes[-1].outputs[0]

    # Lists

    def fact_of_list(self, x: Value) -> ListFact | None:
        """What is known of the elements of a sequence; None for any other value."""
        return self._session.lists.get(x)

    def annotate_list(self, x: Value, fact: ListFact) -> Value:
        """State that a value is a sequence. Returns the value."""
        self._session.lists[x] = fact
        self._session.dtypes.pop(x, None)  # some operators have one by their attributes: it is not the value's
        x.type = ir.SequenceType(ir.TensorType(dtypes.to_onnx(fact.dtype)))
        x.shape = onnx_shape(fact.shape)
        return x

    # Local functions

    def add_function(self, proto: onnx.FunctionProto) -> tuple[str, str]:
        """Make a function a local function of the model; its domain and name, for `g.node(name, ..., domain=...)`."""
        written_for = next((each.version for each in proto.opset_import if each.domain == ""), self.opset)
        for node in proto.node:
            versions = [schemas.find(node.op_type, opset) for opset in (written_for, self.opset)]
            if node.domain == "" and len({each and each.since for each in versions}) > 1:
                raise self.unsupported(
                    f"the function {proto.name} is written for opset {written_for}, where {node.op_type} is another "
                    f"than in opset {self.opset}; export with opset_version={written_for}, or write it for {self.opset}"
                )
        function = ir.serde.deserialize_function(proto)
        known = self._session.functions.setdefault(function.identifier(), function)
        if known is not function and ir.serde.serialize_function(known) != ir.serde.serialize_function(function):
            raise self.unsupported(f"two different functions are called {proto.domain}::{proto.name}")
        self.opset_imports.setdefault(proto.domain, 1)
        return proto.domain, proto.name

    # Names and types on the finished graph

    def name_node(self, node: ir.Node, name: str) -> None:
        """Give a node and its outputs their names."""
        node.name = self._session.unique(name)
        for place, value in enumerate(node.outputs):
            if value.name is None:
                value.name = node.name if len(node.outputs) == 1 else self._session.unique(f"{node.name}.{place}")

    def describe(self, value: Value, shape: Sequence[Dim] | None = None) -> None:
        """Write what is known of a value onto it, for the file to tell."""
        dtype = self._session.dtypes.get(value)
        if value.type is None and dtype is not None:
            maker = value.producer()
            known_to_onnx = maker is None or maker.domain == ""  # other domains may compute with complex numbers
            value.type = ir.TensorType(dtypes.to_onnx(dtype) if known_to_onnx else from_torch_dtype(dtype))
        known = self._session.dims.get(value) if shape is None else shape
        if value.shape is None and known is not None:
            value.shape = onnx_shape(known)


def _kind(dtype: torch.dtype) -> int:
    """bool < integers < floats < complex"""
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype is torch.bool else 1


def onnx_shape(shape: Sequence[Dim | None]) -> ir.Shape:
    """Dimensions as ONNX writes them: numbers, names, or nothing where there is no name."""
    return ir.Shape([dim if dim is None or isinstance(dim, int) else dim.name or None for dim in shape])


def used_values(node: ir.Node) -> list[Value]:
    """Every value a node reads, those that its subgraphs take from outside included."""
    found = [value for value in node.inputs if value is not None]
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            graph = attribute.as_graph()
            found.extend(value for inner in graph for value in used_values(inner))
            found.extend(graph.outputs)
    return found


# Their outputs after the first are optional, and a runtime that need not make them is faster without.
_OPTIONAL_OUTPUTS = frozenset({"MaxPool", "LSTM", "GRU", "RNN"})


def drop_dead(nodes: Sequence[ir.Node], outputs: Sequence[Value]) -> list[ir.Node]:
    """The nodes that the outputs need, in order; the others are detached from their inputs. Optional outputs that
    nobody reads go too."""
    live, kept = set(outputs), []
    for node in reversed(nodes):
        if any(value in live for value in node.outputs):
            live.update(used_values(node))
            kept.append(node)
            if node.op_type in _OPTIONAL_OUTPUTS and node.domain == "":
                node.resize_outputs(1 + max(place for place, value in enumerate(node.outputs) if value in live))
        else:
            for place in range(len(node.inputs)):
                node.replace_input_with(place, None)
    return kept[::-1]
