"""The heart of the emitter: one ONNX node at a time, simplified, folded, shared, typed.

`emitter.py` is where authors of lowerings look; it describes the whole interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch

from onward.capture.program.facts import Dim, ListFact, Scope, Source, TensorFact
from onward.errors import LoweringError
from onward.lower import constants, dtypes, schemas, simplify
from onward.lower.attributes import as_attributes, as_key, checked_settings
from onward.onnx_operators.folding import fold
from onward.onnx_operators.propagation import propagate
from onward.onnx_operators.random_numbers import RANDOM
from onward.onnx_operators.shared_rules import MAX_BYTES

Value = ir.Value
Number = int | float | bool
Shape = tuple[Dim, ...]

# Their axis counts the axes of the result, not of the input.
_AXIS_OF_RESULT = frozenset({"OneHot", "ConcatFromSequence", "SequenceInsert"})


@dataclass(frozen=True, slots=True)
class Place:
    """The ATen node that is being lowered: what errors, names and metadata say."""

    op: str = ""
    scope: Scope | None = None
    source: Source | None = None
    fact: Any = None
    name: str = "node"


class Session:
    """What an emitter shares with the emitters of its subgraphs: constants, names, facts."""

    def __init__(self) -> None:
        self.dtypes: dict[Value, torch.dtype] = {}
        self.dims: dict[Value, Shape] = {}
        self.lists: dict[Value, ListFact] = {}  # sequences: what is known of their elements
        self.tensors: dict[Value, torch.Tensor] = {}
        self.live: dict[Value, None] = {}  # weights that are read as they are, and are no constants to anybody
        self.by_value: dict[Any, Value] = {}  # small constants by content, big and named ones by memory
        self.named: set[Value] = set()  # parameters and buffers, and what is made of them
        self.folded: dict[Any, tuple[Value, ...] | None] = {}
        self.recipes: dict[Value, tuple[str, Value, dict[str, Any]]] = {}  # how a folded view is made from its weight
        self.functions: dict[Any, ir.Function] = {}  # local functions of the model
        self.names: dict[str, int] = {}
        self.place = Place()
        # How a body of control flow gets into a subgraph: (emitter, body, inputs, operands) -> results. The walk knows.
        self.lower_body: Callable[[Any, Any, Sequence[Any], Sequence[Any]], list[Any]] | None = None

    def unique(self, name: str) -> str:
        """The name itself the first time, then with a counter."""
        if name not in self.names:
            self.names[name] = 0
            return name
        while True:
            self.names[name] += 1
            candidate = f"{name}_{self.names[name]}"
            if candidate not in self.names:
                self.names[candidate] = 0
                return candidate


class _Ops:
    """`g.op.Relu(x)`: every ONNX operator as a method, attributes by keyword."""

    def __init__(self, emitter: Core) -> None:
        self._emitter = emitter

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        emitter = self._emitter

        def call(*inputs: Value | None, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
            return emitter.node(name, inputs, attributes, domain=domain, outputs=outputs)

        self.__dict__[name] = call
        return call


class Core:
    """Nodes, constants and facts. Forms that depend on the opset live in the classes built on this one."""

    def __init__(self, opset: int, *, parent: Core | None = None) -> None:
        self.opset = opset
        self.op = _Ops(self)
        self.nodes: list[ir.Node] = []
        self.opset_imports: dict[str, int] = parent.opset_imports if parent else {"": opset}
        self._parent = parent
        self._session: Session = parent._session if parent else Session()
        self._shared: dict[Any, tuple[Value, ...]] = {}

    # Nodes

    def node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, Any] | None = None,
        domain: str = "",
        outputs: int = 1,
    ) -> Any:
        """Emit an ONNX operator: a Value, or a tuple of them if there are several outputs."""
        values = self._check_inputs(op, inputs)
        schema = schemas.find(op, self.opset, domain)
        if schema is None and domain == "":
            raise self._no_such_operator(op)
        settings = checked_settings(op, attributes or {}, schema)
        self._count_axis_from_front(op, values, settings)
        pure = op not in RANDOM and not any(isinstance(value, ir.Graph) for value in settings.values())
        if pure and domain == "":
            known = simplify.simplify(self, op, values, settings) or self._fold(op, values, settings)
            if known is not None:
                return known if outputs > 1 else known[0]
        if schema is not None and not pure:
            self.check_open(op, [self._session.dtypes.get(value) for value in values if value is not None])
        restore = self._fit(schema, values) if schema is not None and op != "Cast" else None
        if restore is not None and op == "ConstantOfShape":
            restore |= self._fit_filler(schema, settings)
        made = self._make(op, values, settings, domain, outputs, schema, pure)
        if restore and schema is not None:
            made = tuple(self._restore(schema, place, value, restore) for place, value in enumerate(made))
        return made if outputs > 1 else made[0]

    def _check_inputs(self, op: str, inputs: Sequence[Value | None]) -> list[Value | None]:
        values = list(inputs)
        for place, value in enumerate(values):
            if value is not None and not isinstance(value, Value):
                raise TypeError(
                    f"{op}: input {place} is a {type(value).__name__} ({value!r}), not a Value; "
                    "use g.const(...), g.like(x, ...) or g.as_value(...)"
                )
        while values and values[-1] is None:
            values.pop()
        return values

    def _count_axis_from_front(self, op: str, values: list[Value | None], settings: dict[str, Any]) -> None:
        """Many operators take a negative axis only from opset 11 or 13 on; before, say the same from the front.

        ArgMax and ArgMin always: onnxruntime 1.31 gives a wrong shape for a negative axis of a tensor without elements.
        """
        axis = settings.get("axis")
        if axis is None or axis >= 0 or op in _AXIS_OF_RESULT or not values or values[0] is None:
            return
        if self.opset >= 13 and op not in ("ArgMax", "ArgMin"):
            return
        shape = self._session.dims.get(values[0])
        if shape is not None:
            settings["axis"] = axis + len(shape)

    def _no_such_operator(self, op: str) -> LoweringError:
        first = schemas.first_opset(op)
        if first is None or first <= self.opset:
            return self.unsupported(f"ONNX has no operator {op} at opset {self.opset}")
        return self.needs_opset(first)

    def _fold(self, op: str, values: list[Value | None], settings: dict[str, Any]) -> tuple[Value, ...] | None:
        """The constants a node would compute, if its inputs are constants and that costs no memory to speak of."""
        session = self._session
        if not values or any(value is not None and value not in session.tensors for value in values):
            return None
        key = (op, tuple(values), as_key(settings))
        if key not in session.folded:
            tensors = [None if value is None else session.tensors[value] for value in values]
            folded = fold(op, tensors, settings, self.opset)
            session.folded[key] = None if folded is None else self._folded(op, values[0], settings, folded)
        return session.folded[key]

    def _folded(
        self, op: str, base: Value | None, settings: dict[str, Any], folded: list[torch.Tensor]
    ) -> tuple[Value, ...]:
        """Results of folding as constants; what is made of a weight keeps the weight's name in its own."""
        session = self._session
        named = base is not None and base in session.named
        made = tuple(self.const_tensor(x, f"{base.name}.{op.lower()}" if named and base else None) for x in folded)
        if op == "Transpose" and base is not None and made[0] is not base and folded[0].nbytes > MAX_BYTES:
            session.recipes.setdefault(made[0], (op, base, settings))
        return made

    def _make(
        self,
        op: str,
        values: list[Value | None],
        settings: dict[str, Any],
        domain: str,
        outputs: int,
        schema: schemas.OpSchema | None,
        pure: bool,
    ) -> tuple[Value, ...]:
        key = (op, domain, tuple(values), as_key(settings), outputs) if pure else None
        if key is not None:
            layer: Core | None = self
            while layer is not None:
                known = layer._shared.get(key)
                if known is not None and (layer is self or not self._holds_floats(known)):
                    return known
                layer = layer._parent
        if domain not in self.opset_imports:
            self.opset_imports[domain] = 1
        node = ir.Node(domain, op, values, as_attributes(settings), num_outputs=outputs)
        self.nodes.append(node)
        made = tuple(node.outputs)
        self._infer(op, values, settings, made, schema, domain)
        if key is not None:
            self._shared[key] = made
        return made

    def _holds_floats(self, values: Sequence[Value]) -> bool:
        """Whether a body must not use what a node outside of it makes: onnxruntime fuses nodes that compute with
        floating point numbers (a GELU), and forgets that a body uses a result of one of them."""
        dtypes = [self._session.dtypes.get(value) for value in values]
        return any(dtype is None or dtype.is_floating_point for dtype in dtypes)

    def _infer(
        self,
        op: str,
        values: list[Value | None],
        settings: dict[str, Any],
        made: tuple[Value, ...],
        schema: schemas.OpSchema | None,
        domain: str,
    ) -> None:
        session = self._session
        if schema is not None:
            variables = self._variables(schema, values)
            for place, value in enumerate(made):
                dtype = _output_dtype(schema, place, variables, settings)
                if dtype is not None:
                    session.dtypes[value] = dtype
        if domain == "":
            shapes = [None if value is None else session.dims.get(value) for value in values]
            tensors = [None if value is None else session.tensors.get(value) for value in values]
            for value, shape in zip(made, propagate(op, shapes, tensors, settings, len(made)), strict=False):
                if shape is not None:
                    self.annotate(value, shape)

    # The dtype bridge: what the schema or onnxruntime's CPU kernels do not take is computed in a neighbouring type.

    def _variables(self, schema: schemas.OpSchema, values: Sequence[Value | None]) -> dict[str, torch.dtype]:
        found: dict[str, torch.dtype] = {}
        for place, value in enumerate(values):
            formal = schema.input(place)
            if formal is None:
                raise TypeError(f"{schema.name} takes {len(schema.inputs)} inputs, not {len(values)}")
            dtype = None if value is None else self._session.dtypes.get(value)
            if dtype is None:
                continue
            if formal.dtype is not None:
                if formal.dtype is not dtype:
                    raise TypeError(f"{schema.name}: input {place} has to be {formal.dtype}, not {dtype}")
            elif formal.homogeneous and found.setdefault(formal.variable, dtype) is not dtype:
                raise TypeError(
                    f"{schema.name}: inputs of one type ({formal.variable}) are {found[formal.variable]} and "
                    f"{dtype}; use g.cast or g.promote"
                )
        return found

    def check_open(self, op: str, given: Sequence[torch.dtype | None]) -> None:
        """Refuse types that an operator does not carry: those of control flow and of copies, which are not cast."""
        refused = schemas.not_carried(op, self.opset, given)
        if refused is not None:
            raise self.unsupported(f"ONNX operator {op} does not take {refused} at opset {self.opset}")

    def _fit(self, schema: schemas.OpSchema, values: list[Value | None]) -> dict[str, torch.dtype]:
        """Cast inputs, in place, to types that run; the variables whose outputs have to be cast back."""
        restore: dict[str, torch.dtype] = {}
        for variable, dtype in self._variables(schema, values).items():
            allowed = schema.allowed.get(variable)
            if allowed is None or dtype in allowed:
                continue
            instead = dtypes.compute_instead(dtype, allowed)
            if instead is None:
                raise self.unsupported(f"ONNX operator {schema.name} does not take {dtype} at opset {self.opset}")
            restore[variable] = dtype
            for place, value in enumerate(values):
                formal = schema.input(place)
                if value is not None and formal is not None and formal.variable == variable:
                    values[place] = self.cast(value, instead)
        return restore

    def _fit_filler(self, schema: schemas.OpSchema | None, settings: dict[str, Any]) -> dict[str, torch.dtype]:
        """The same for ConstantOfShape, whose type is that of its attribute: no bfloat16 before opset 20."""
        filler, allowed = settings.get("value"), schema.allowed.get("T2") if schema is not None else None
        if filler is None or allowed is None or filler.dtype in allowed:
            return {}
        instead = dtypes.compute_instead(filler.dtype, allowed)
        if instead is None:
            raise self.unsupported(f"ONNX operator ConstantOfShape does not take {filler.dtype} at opset {self.opset}")
        settings["value"] = filler.to(instead)
        return {"T2": filler.dtype}

    def _restore(self, schema: schemas.OpSchema, place: int, value: Value, restore: dict[str, torch.dtype]) -> Value:
        formal = schema.output(place)
        return self.cast(value, restore[formal.variable]) if formal and formal.variable in restore else value

    # Facts

    @property
    def place(self) -> Place:
        """The ATen node being lowered: its operator's name, module and source line."""
        return self._session.place

    @property
    def out(self) -> Any:
        """What capture knows of the result of the node being lowered: a TensorFact, a tuple of them, a SizeFact, or a
        ListFact."""
        return self._session.place.fact

    @property
    def out_dtype(self) -> torch.dtype:
        """The dtype of the (first) result of the node being lowered."""
        fact = self.out
        while isinstance(fact, (tuple, list)):
            fact = fact[0]
        if not isinstance(fact, TensorFact):
            raise TypeError(f"{self._session.place.op} has no tensor result")
        return fact.dtype

    def dims(self, x: Value) -> Shape | None:
        """The dimensions of a value: ints and SymDims (compared by fingerprint); None if unknown."""
        return self._session.dims.get(x)

    def known_dims(self, x: Value) -> Shape:
        """The dimensions of a value, or an error that says they are needed."""
        found = self._session.dims.get(x)
        if found is None:
            raise self.unsupported(f"the dimensions of {x.name or 'an intermediate value'} are not known")
        return found

    def rank(self, x: Value) -> int:
        return len(self.known_dims(x))

    def dtype(self, x: Value) -> torch.dtype:
        found = self._session.dtypes.get(x)
        if found is None:
            raise self.unsupported(f"the dtype of {x.name or 'an intermediate value'} is not known")
        return found

    def annotate(self, x: Value, shape: Sequence[Dim] | None = None, dtype: torch.dtype | None = None) -> Value:
        """State what propagation cannot know. Returns the value."""
        if shape is not None and x not in self._session.tensors:
            self._session.dims[x] = tuple(shape)
            self._found_axes(x)
        if dtype is not None:
            self._session.dtypes[x] = dtype
        return x

    def _found_axes(self, x: Value) -> None:
        """A hook: the dimensions of a value became known."""

    # Constants

    def const(self, value: Any, dtype: torch.dtype | None = None) -> Value:
        """A constant: 0-d from a number, 1-D from a list; ints are int64, floats float32 unless a dtype is given."""
        key = None
        if not isinstance(value, torch.Tensor):
            items = tuple(value) if isinstance(value, (list, tuple)) else value
            key = ("const", repr(items), dtype)
            if key in self._session.by_value:
                return self._session.by_value[key]
        made = self.const_tensor(constants.make_tensor(value, dtype))
        if key is not None:
            self._session.by_value[key] = made
        return made

    def like(self, x: Value, value: Number) -> Value:
        """A 0-d constant of x's dtype."""
        return self.const(value, self.dtype(x))

    def const_tensor(self, tensor: torch.Tensor, name: str | None = None) -> Value:
        """A tensor as it is, not copied. Small ones without a name are shared by content, others by memory."""
        session = self._session
        key = constants.share_key(tensor) if name is None else None
        if key is None and tensor.device.type != "meta" and tensor.numel():
            key = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        found = session.by_value.get(key) if key is not None else None
        if found is not None:
            return found
        made = constants.initializer(tensor, session.unique(name or constants.describe(tensor)))
        session.tensors[made] = tensor
        session.dtypes[made] = tensor.dtype
        session.dims[made] = tuple(tensor.shape)
        if name is not None:
            session.named.add(made)
        if key is not None:
            session.by_value[key] = made
        return made

    def const_packed(self, tensor: torch.Tensor, kind: ir.DataType) -> Value:
        """Small integers, two in a byte, which no type of PyTorch's holds: `tensor` has one in each element."""
        low, high = torch.cat([tensor.flatten(), tensor.new_zeros(tensor.numel() % 2)]).view(-1, 2).unbind(1)
        packed = ir.PackedTensor(((high << 4) | (low & 15)).view(torch.uint8).numpy(), kind, shape=tensor.shape)
        name = self._session.unique(constants.describe(tensor))
        made = ir.Value(name=name, shape=ir.Shape(tensor.shape), type=ir.TensorType(kind), const_value=packed)
        return self._kept(made, tensor)

    def const_kept(self, tensor: torch.Tensor) -> Value:
        """A constant that is stored as it is: what is worked out from it is worked out when the file is loaded."""
        return self._kept(constants.initializer(tensor, self._session.unique(constants.describe(tensor))), tensor)

    def live_weight(self, tensor: torch.Tensor, name: str) -> Value:
        """A weight that is stored as it is: no constant, for nothing may be worked out from it beforehand."""
        made = self._kept(constants.initializer(tensor, self._session.unique(name)), tensor)
        made.meta[constants.LIVE] = name
        return made

    def _kept(self, made: Value, tensor: torch.Tensor) -> Value:
        self._session.live[made] = None
        self._session.dims[made], self._session.dtypes[made] = tuple(tensor.shape), tensor.dtype
        return made

    def const_from(self, how: str, sources: Sequence[Value], make: Callable[[], torch.Tensor]) -> Value:
        """A constant worked out from others (`how`, in a word): made once, however often it is asked for."""
        key = ("from", how, tuple(sources))
        if key not in self._session.by_value:
            self._session.by_value[key] = self.const_tensor(make(), f"{sources[0].name}.{how}")
        return self._session.by_value[key]

    def value_of(self, x: Value | None) -> torch.Tensor | None:
        """The tensor of a constant; None for anything that is computed when the model runs."""
        return None if x is None else self._session.tensors.get(x)

    def is_const(self, x: Value) -> bool:
        return x in self._session.tensors

    # Casts

    def cast(self, x: Value, dtype: torch.dtype) -> Value:
        """x as another dtype, the way `Tensor.to` does it (float to int truncates, anything to bool is `!= 0`)."""
        present = self._session.dtypes.get(x)
        if present is dtype:
            return x
        if x not in self._session.tensors:
            needed = max(schemas.first_cast(each) for each in (present, dtype) if each is not None)
            if self.opset < needed:
                raise self.needs_opset(needed, f"a cast of {present} to {dtype}")
        return self.op.Cast(x, to=dtypes.to_onnx(dtype))

    # Errors

    def _error(self, what: str, hint: str | None = None) -> LoweringError:
        place = self._session.place
        return LoweringError(
            what,
            op=place.op or None,
            module=place.scope.path if place.scope else None,
            source=str(place.source) if place.source else None,
            hint=hint,
        )

    def unsupported(self, reason: str) -> LoweringError:
        """The error for what a lowering cannot do: `raise g.unsupported("ceil_mode with dilation > 1")`."""
        op = self._session.place.op
        return self._error(f"{op} is not supported this way: {reason}" if op else reason)

    def can_run(self, op: str) -> bool:
        """Whether an ONNX operator exists at this opset and onnxruntime runs it: some newer versions have no kernel."""
        schema = schemas.find(op, self.opset)
        return schema is not None and schema.runs

    def needs_opset(self, opset: int, what: str | None = None) -> LoweringError:
        """The error for what a newer opset can do; `what` says it where it is not the operator as such."""
        what = what or self._session.place.op or "this operator"
        return self._error(
            f"{what} has no lowering for opset {self.opset} (exists from {opset})",
            f"try opset_version={opset}, or register one of your own: onward.register_custom_op_symbolic(...)",
        )


# Attributes


def _output_dtype(
    schema: schemas.OpSchema, place: int, variables: dict[str, torch.dtype], settings: dict[str, Any]
) -> torch.dtype | None:
    formal = schema.output(place)
    if formal is None:
        return None
    if formal.dtype is not None:
        return formal.dtype
    if formal.variable in schema.single:
        return schema.single[formal.variable]
    if formal.variable in variables:
        return variables[formal.variable] if formal.homogeneous else None
    if "to" in settings or "dtype" in settings:
        return dtypes.to_torch(settings.get("to") or settings["dtype"])
    if schema.name == "ConstantOfShape":
        return settings["value"].dtype if "value" in settings else torch.float32
    if schema.name == "QuantizeLinear":
        return torch.uint8
    if schema.name == "DequantizeLinear" and not settings.get("output_dtype"):
        return variables.get("T2")  # from opset 23 on: that of the scale
    if schema.name in ("RandomNormal", "RandomUniform"):
        return torch.float32
    return next(iter(variables.values()), None) if schema.name in _FIRST_INPUT else None


_FIRST_INPUT = frozenset({"EyeLike", "RandomNormalLike", "RandomUniformLike", "Bernoulli"})
