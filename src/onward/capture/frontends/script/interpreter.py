"""Run a TorchScript graph on traced tensors.

Everything that is known while tracing (lists, tuples, dicts, strings, None, numbers that depend on nothing) is plain
Python here and leaves no trace in the graph. Tensor operators go to PyTorch's dispatcher like any model's. A branch or
a loop that depends on data, or on a dynamic size, is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ....errors import CaptureError
from ...functions.element_counts import TAKES_A_COUNT
from ...ground.source import at_source
from ...record.explained_errors import ScriptRaised
from ...record.other_sizes import ProbeRejected
from ...record.tracer import Tracer
from ...sizes.sizes import SYMBOLIC, is_from_data
from .columns import NotAlike
from .containers import Attributes, Snapshot
from .enumerations import dtype_of
from .flow import Flow
from .graphs import CALL_METHOD, is_pytorchs_module, prepared, source_of
from .list_operators import concerns, on_rows, parted, unbound
from .lists import ScriptDict, ScriptList, ScriptObject, adopt, plain
from .operators import GENERAL, MATH, ON_CONTAINERS, PLAIN
from .optionals import Maybe, concerns_optionals, on_optionals
from .texts import WRITING, UnknownText, concerns_texts, on_texts, text_of

_MOST_TURNS = 1000  # a loop with a known number of turns is written out up to here


class Interpreter:
    """One call of a script while a model is traced."""

    def __init__(self, tracer: Tracer, attributes: Attributes) -> None:
        self._tracer = tracer
        self._attributes = attributes  # what the script read from its modules, or assigned to them
        self._open: list[Snapshot] = []  # of the branches and loops that are being traced
        self._in_pytorchs = False  # whether the code is that of a module of PyTorch's own

    def run(self, graph: Any, inputs: Sequence[Any]) -> Any:
        """The result of a graph: one value, or a tuple."""
        graph = prepared(graph)
        values = dict(zip([value.unique() for value in graph.inputs()], map(adopt, inputs), strict=True))
        outer = self._in_pytorchs
        if inputs and isinstance(inputs[0], torch._C.ScriptModule):
            self._in_pytorchs = is_pytorchs_module(inputs[0])
        try:
            results = self._block(graph, values)
        finally:
            self._in_pytorchs = outer
        return results[0] if len(results) == 1 else tuple(results)

    def _block(self, block: Any, values: dict[int, Any]) -> list[Any]:
        for node in block.nodes():
            with at_source(source_of(node)):
                self._step(node, values)
        outputs = block.outputs() if hasattr(block, "outputs") else ()
        return [values[value.unique()] for value in outputs]

    def _step(self, node: Any, values: dict[int, Any]) -> None:
        kind = node.kind()
        special = _SPECIAL.get(kind)
        if special is not None:
            special(self, node, values)
            return
        inputs = [values[value.unique()] for value in node.inputs()]
        try:
            result = _adopted(self._compute(node, kind, inputs))
        except NotAlike as error:
            raise self._unlike(kind, error) from error
        outputs = [value.unique() for value in node.outputs()]
        if len(outputs) == 1:
            values[outputs[0]] = self._as_declared(node, kind, result)
        elif outputs:
            values.update(zip(outputs, result, strict=True))

    def _as_declared(self, node: Any, kind: str, result: Any) -> Any:
        """A number of the type that the script declares: `2 ** n` is a float there, and Python has an int."""
        wanted = _DECLARED.get(node.output().type().kind())
        if wanted is None or isinstance(result, _NUMBERS[wanted]) or not isinstance(result, _ANY_NUMBER):
            return result
        if wanted == "float":
            return torch.sym_float(result) if isinstance(result, SYMBOLIC) else float(result)
        raise self._unknown(kind)

    def _compute(self, node: Any, kind: str, inputs: list[Any]) -> Any:
        if len(inputs) > 1 and isinstance(inputs[0], dict) and isinstance(inputs[1], SYMBOLIC):
            raise self._key_unknown(kind)
        if concerns_optionals(inputs):
            result = on_optionals(kind, inputs)
            if result is NotImplemented:
                raise self._may_be_none(kind)
            return result
        if concerns_texts(inputs):
            result = on_texts(kind, inputs)
            if result is NotImplemented:
                raise self._text_unknown(kind)
            return result
        if kind in WRITING:
            return UnknownText() if any(map(_is_unsaid, inputs)) else text_of(node, inputs)
        if concerns(kind, inputs):
            result = on_rows(kind, inputs)
            if result is NotImplemented:
                raise NotAlike("its length depends on data")
            return result
        if kind in GENERAL:
            return GENERAL[kind](*inputs)
        has_tensor = any(isinstance(each, torch.Tensor) for each in inputs)
        if kind in ON_CONTAINERS and inputs and isinstance(inputs[0], (list, tuple, dict, str)):
            return ON_CONTAINERS[kind](*inputs)
        table = MATH if kind in MATH and any(isinstance(each, SYMBOLIC) for each in inputs) else PLAIN
        if kind in table and not has_tensor and not _needs_kernel(inputs):
            try:
                return table[kind](*inputs)
            except (AttributeError, TypeError) as error:
                if any(isinstance(each, SYMBOLIC) for each in inputs):
                    raise self._unknown(kind) from error
                raise
        return self._operator(node, kind, inputs)

    def _operator(self, node: Any, kind: str, inputs: list[Any]) -> Any:
        if kind in _PARTING and (is_from_data(inputs[1]) or not _names_parts(node)):
            parts = _PARTING[kind](*inputs)
            if parts is not None:
                return parts
        operator, names = _overload(node.schema())
        if operator is None or (_gives_numbers(operator) and any(map(_depends, inputs))):
            raise self._unknown(kind)
        if len(names) != len(inputs) or _writes_to_containers(operator):
            raise self._unknown(kind)
        if any(isinstance(inputs[place], SYMBOLIC) for place in _dtype_places(operator)):
            raise self._unknown(kind)  # a dtype that depends on data
        positional = [plain(value) for value, name in zip(inputs, names, strict=True) if name is None]
        named = {name: plain(value) for value, name in zip(inputs, names, strict=True) if name is not None}
        if operator.overloadpacket in TAKES_A_COUNT and any(isinstance(each, SYMBOLIC) for each in inputs):
            dtype = {"dtype": dtype_of(named["dtype"])} if "dtype" in named else {}  # the rest says where it lies
            return TAKES_A_COUNT[operator.overloadpacket](*positional, **dtype)
        return operator(*positional, **named)

    def _unknown(self, kind: str) -> CaptureError:
        return CaptureError(
            f"TorchScript's {kind} has no form in ONNX that onward knows",
            op=kind,
            source=self._tracer.where(),
            module=self._tracer.scopes.path or None,
            hint="write this part with tensor operations, or export the module that was scripted",
        )

    def _text_unknown(self, kind: str) -> CaptureError:
        return CaptureError(
            f"TorchScript's {kind} is given a text that depends on data or on a size",
            op=kind,
            source=self._tracer.where(),
            module=self._tracer.scopes.path or None,
            hint="a text has no form in ONNX: compare the number itself, or give the axis a fixed size",
        )

    def _may_be_none(self, kind: str) -> CaptureError:
        return CaptureError(
            f"TorchScript's {kind} is given a value that is None or not, depending on data",
            op=kind,
            source=self._tracer.where(),
            module=self._tracer.scopes.path or None,
            hint="ask `is not None` first, or give it a tensor before the branch or the loop",
        )

    def _key_unknown(self, kind: str) -> CaptureError:
        return CaptureError(
            f"TorchScript's {kind} is given a key of a dict that depends on data or on a size",
            op=kind,
            source=self._tracer.where(),
            module=self._tracer.scopes.path or None,
            hint="a dict has no form in ONNX: use keys that are known, or a list or a tensor with an index",
        )

    def _unlike(self, kind: str, error: NotAlike) -> CaptureError:
        return CaptureError(
            f"TorchScript's {kind} is given a list that has no form there: {error}",
            op=kind,
            source=self._tracer.where(),
            module=self._tracer.scopes.path or None,
            hint="keep tensors of one dtype and one number of axes in it, or collect them with torch.cat",
        )

    # --- constants, attributes, calls ------------------------------------------------------------------------------
    def _constant(self, node: Any, values: dict[int, Any]) -> None:
        value = node.output()
        values[value.unique()] = None if str(value.type()) == "NoneType" else adopt(value.toIValue())

    def _opaque_constant(self, node: Any, values: dict[int, Any]) -> None:
        """A weight that `torch.jit.optimize_for_inference` brought into a layout of oneDNN's own."""
        with self._tracer.aside():
            values[node.output().unique()] = node.t("value").to_dense()

    def _get_attribute(self, node: Any, values: dict[int, Any]) -> None:
        owner, name = values[node.input().unique()], node.s("name")
        values[node.output().unique()] = (
            owner[name] if isinstance(owner, ScriptObject) else self._attribute((owner, name))
        )

    def _attribute(self, key: tuple[Any, str]) -> Any:
        if key not in self._attributes:
            owner, name = key
            self._attributes[key] = value = adopt(owner.getattr(name))
            for snapshot in self._open:
                snapshot.read(key, value)
        return self._attributes[key]

    def _set_attribute(self, node: Any, values: dict[int, Any]) -> None:
        owner, value = (values[each.unique()] for each in node.inputs())
        if isinstance(owner, ScriptObject):
            owner[node.s("name")] = value
            return
        key = (owner, node.s("name"))
        self._attribute(key)
        self._attributes[key] = value

    def _call_method(self, node: Any, values: dict[int, Any]) -> None:
        owner, *inputs = (values[each.unique()] for each in node.inputs())
        method = owner._get_method(node.s("name"))
        self._tracer.scopes.enter_script(owner)
        try:
            result = self.run(method.graph, [owner, *inputs])
        finally:
            self._tracer.scopes.leave()
        outputs = [value.unique() for value in node.outputs()]
        values.update([(outputs[0], result)] if len(outputs) == 1 else zip(outputs, result, strict=True))

    def _fork(self, node: Any, values: dict[int, Any]) -> None:
        """`torch.jit.fork`: what runs beside comes in order, and `wait` finds it ready."""
        values[node.output().unique()] = self.run(node.g("Subgraph"), [values[each.unique()] for each in node.inputs()])

    # --- structures ------------------------------------------------------------------------------------------------
    def _unpack(self, node: Any, values: dict[int, Any]) -> None:
        items = values[node.input().unique()]
        outputs = [value.unique() for value in node.outputs()]
        if isinstance(items, ScriptList) and items.rows is not None:  # a wrong length is an error of the runtime's
            items = [items.rows.get(place) for place in range(len(outputs))]
        if len(items) != len(outputs):
            raise CaptureError(
                f"the script unpacks {len(items)} values into {len(outputs)} names", source=self._tracer.where()
            )
        values.update(zip(outputs, items, strict=True))

    def _dictionary(self, node: Any, values: dict[int, Any]) -> None:
        inputs = [values[each.unique()] for each in node.inputs()]
        if any(isinstance(key, SYMBOLIC) for key in inputs[::2]):
            raise self._key_unknown("prim::DictConstruct")
        values[node.output().unique()] = ScriptDict(zip(inputs[::2], inputs[1::2], strict=True))

    def _is_instance(self, node: Any, values: dict[int, Any]) -> None:
        value = values[node.input().unique()]
        if isinstance(value, Maybe):
            raise self._may_be_none("prim::isinstance")
        answers = [_fits(value, kind) for kind in node.tys("types")]
        if None in answers and True not in answers:
            raise self._unknown("prim::isinstance")
        values[node.output().unique()] = True in answers

    def _requires_grad(self, node: Any, values: dict[int, Any]) -> None:
        """In PyTorch's own modules as in training: nn.TransformerEncoder has kernels of its own for inference."""
        tensor = values[node.input().unique()]
        values[node.output().unique()] = self._in_pytorchs or tensor.requires_grad

    def _raise(self, node: Any, values: dict[int, Any]) -> None:
        text = str(values[next(iter(node.inputs())).unique()])
        raise ScriptRaised(text, self._tracer.where(), self._tracer.scopes.path or None)

    def _python(self, node: Any, values: dict[int, Any]) -> None:
        """A function that TorchScript was told to leave to Python: it is traced like any Python."""
        inputs = [plain(values[each.unique()]) for each in node.inputs()]
        result = adopt(node.pyobj()(*inputs))
        outputs = [value.unique() for value in node.outputs()]
        values.update([(outputs[0], result)] if len(outputs) == 1 else zip(outputs, result or (), strict=True))

    # --- control flow ----------------------------------------------------------------------------------------------
    def _if(self, node: Any, values: dict[int, Any]) -> None:
        condition = values[node.input().unique()]
        yes, no = node.blocks()
        if not isinstance(condition, SYMBOLIC) or self._tracer.decisions.is_settled(condition.node):
            results = self._block(yes if condition else no, values)
        elif not condition.node.is_uniform:
            results = self._either(condition, yes, no, values)
        else:
            results = self._either_if_possible(condition, yes, no, values)
        values.update(zip((value.unique() for value in node.outputs()), results, strict=True))

    def _either_if_possible(self, condition: Any, yes: Any, no: Any, values: dict[int, Any]) -> list[Any]:
        """All probes take one side, and other sizes the other: it need not work on the example."""
        before = Snapshot(values.values(), self._attributes)
        try:
            return self._either(condition, yes, no, values)
        except (CaptureError, ProbeRejected, RuntimeError, ValueError, IndexError):
            before.restore()
            return self._block(yes if condition else no, values)

    def _either(self, condition: Any, yes: Any, no: Any, values: dict[int, Any]) -> list[Any]:
        """Both sides are kept; a side that only raises is no side."""
        sides = [functools.partial(self._side, block, values) for block in (yes, no)]
        raises = [_only_raises(block) for block in (yes, no)]
        if any(raises):
            return self._block(no if raises[0] else yes, values)
        return self._flow(values).branch(condition, sides)

    def _side(self, block: Any, values: dict[int, Any]) -> list[Any]:
        return self._block(block, dict(values))

    def _flow(self, values: dict[int, Any]) -> Flow:
        return Flow(self._tracer, values.values(), self._attributes, self._open)

    def _loop(self, node: Any, values: dict[int, Any]) -> None:
        limit, condition, *carried = (values[each.unique()] for each in node.inputs())
        (block,) = node.blocks()
        names = [value.unique() for value in block.inputs()]

        def turn(number: Any, current: Sequence[Any]) -> tuple[Any, list[Any]]:
            inner = dict(values)
            inner.update(zip(names, (number, *current), strict=True))
            going, *following = self._block(block, inner)
            return going, following

        done = 0
        while not isinstance(limit, SYMBOLIC) and not _depends(condition):
            if not condition or done >= limit:
                break
            if _known_turns(limit, block) > _MOST_TURNS or done > _MOST_TURNS:
                carried = self._kept_loop(limit, condition, carried, turn, done, values)
                break
            condition, carried = turn(done, carried)
            done += 1
        else:
            carried = self._kept_loop(limit, condition, carried, turn, done, values)
        values.update(zip((value.unique() for value in node.outputs()), carried, strict=True))

    def _kept_loop(
        self, limit: Any, condition: Any, carried: Sequence[Any], turn: Any, done: int, values: dict[int, Any]
    ) -> list[Any]:
        def later_turn(number: Any, current: list[Any]) -> tuple[Any, list[Any]]:
            return turn(number + done if done else number, current)

        most = None if type(limit) is int and limit >= 2**63 - 1 else limit - done if done else limit
        return self._flow(values).loop(most, condition, carried, later_turn)


def _depends(condition: Any) -> bool:
    return isinstance(condition, SYMBOLIC) and not condition.node.is_uniform


def _gives_numbers(operator: Any) -> bool:
    """Operators on plain numbers: they would take the example's."""
    kinds = [str(each.type) for each in operator._schema.returns]
    return bool(kinds) and all(kind in ("int", "float", "bool", "number", "str") for kind in kinds)


def _known_turns(limit: int, block: Any) -> int:
    """How many turns a loop takes that nothing ends early; 0 if something may."""
    going = next(iter(block.outputs())).node()
    endless = limit >= 2**63 - 1
    return 0 if endless or going.kind() != "prim::Constant" else limit


def _adopted(result: Any) -> Any:
    """Lists that an operator made."""
    return adopt(result) if type(result) in (list, tuple) else result


def _names_parts(node: Any) -> bool:
    """Whether a script takes parts of a tensor one by one: then it knows how many there are, whatever the size."""
    users = [use.user for use in node.output().uses()]
    return all(
        user.kind() == "prim::ListUnpack"
        or (user.kind() == "aten::__getitem__" and list(user.inputs())[1].node().kind() == "prim::Constant")
        for user in users
    )


def _only_raises(block: Any) -> bool:
    return any(node.kind() == "prim::RaiseException" for node in block.nodes())


def _needs_kernel(inputs: list[Any]) -> bool:
    """Whether a list among the arguments holds tensors: `cat`, `stack` and the like are PyTorch's."""
    return any(isinstance(each, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in each) for each in inputs)


@functools.cache
def _writes_to_containers(operator: Any) -> bool:
    """Whether an operator changes a list or a dict that it is given: it would change a copy of ours.

    Those with many tensors in a list change the tensors.
    """
    if operator.name().startswith("aten::_foreach"):
        return False
    written = [each for each in operator._schema.arguments if each.alias_info is not None and each.alias_info.is_write]
    return any(str(each.type).startswith(("List[", "Dict[")) for each in written)


@functools.cache
def _dtype_places(operator: Any) -> tuple[int, ...]:
    """Where an operator takes a dtype, a layout or a memory format, which are numbers in a script."""
    kinds = ("ScalarType", "Layout", "MemoryFormat")
    return tuple(
        place
        for place, each in enumerate(operator._schema.arguments)
        if str(each.real_type).removeprefix("Optional[").removesuffix("]") in kinds
    )


def _is_unsaid(value: Any) -> bool:
    """Whether a value depends on data or on a size, or may: what a text of it says, nobody knows."""
    if isinstance(value, (list, tuple)):
        return getattr(value, "rows", None) is not None or any(map(_is_unsaid, value))
    if isinstance(value, dict):
        return any(map(_is_unsaid, value.values()))
    return isinstance(value, torch.Tensor) or _depends(value)


_NUMBERS: dict[str, tuple[type, ...]] = {
    "int": (int, torch.SymInt),
    "float": (float, torch.SymFloat),
    "bool": (bool, torch.SymBool),
}
_ANY_NUMBER = (bool, int, float, *SYMBOLIC)
_DECLARED = {"FloatType": "float", "IntType": "int", "BoolType": "bool"}


def _fits(value: Any, kind: Any) -> bool | None:
    """`isinstance` for TorchScript's types; None if the value does not tell: an empty list is of any type."""
    name = kind.kind()
    if name == "NoneType":
        return value is None
    if name == "TensorType":
        return isinstance(value, torch.Tensor)
    if name in _DECLARED:
        wanted = _DECLARED[name]
        return isinstance(value, _NUMBERS[wanted]) and (wanted == "bool" or not isinstance(value, _NUMBERS["bool"]))
    if name == "NumberType":
        return isinstance(value, _ANY_NUMBER)
    if name == "StringType":
        return isinstance(value, str)
    if name in ("AnyListType", "AnyTupleType"):
        return isinstance(value, list if name == "AnyListType" else tuple)
    if name == "ListType":
        return isinstance(value, list) and _all_fit(value, kind.getElementType())
    if name == "TupleType":
        kinds = kind.elements()
        same = isinstance(value, tuple) and len(value) == len(kinds)
        return same and _together([_fits(each, inner) for each, inner in zip(value, kinds, strict=True)])
    if name == "DictType":
        return isinstance(value, dict) and _all_fit(list(value.values()), kind.getValueType())
    if name == "OptionalType":
        return True if value is None else _fits(value, kind.getElementType())
    if name == "UnionType":
        answers = [_fits(value, each) for each in kind.containedTypes()]
        return True if True in answers else None if None in answers else False
    if name == "DeviceObjType":
        return isinstance(value, torch.device)
    if isinstance(value, (torch.Tensor, *_ANY_NUMBER, str, list, tuple, dict, type(None))):
        return False
    return None


def _all_fit(values: list[Any], kind: Any) -> bool | None:
    rows = getattr(values, "rows", None)
    return None if not values or rows is not None else _together([_fits(each, kind) for each in values])


def _together(answers: list[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


@functools.cache
def _overload(schema: str) -> tuple[Any, list[str | None]]:
    """The operator that a schema belongs to, and the name of every argument that it takes by keyword only."""
    if schema == "(no schema)":
        return None, []
    parsed = torch._C.parse_schema(schema)
    namespace, name = parsed.name.split("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    operator = getattr(packet, parsed.overload_name or "default", None)
    return operator, [each.name if each.kwarg_only else None for each in parsed.arguments]


# Operators that take a tensor apart: into how many parts may depend on a dynamic axis, or on data.
_PARTING: dict[str, Callable[..., ScriptList | None]] = {
    "aten::unbind": unbound,
    "aten::split": parted,
    "aten::split_with_sizes": parted,
}

_SPECIAL = {
    "prim::Constant": Interpreter._constant,
    "prim::ConstantMKLDNNTensor": Interpreter._opaque_constant,
    "prim::GetAttr": Interpreter._get_attribute,
    "prim::SetAttr": Interpreter._set_attribute,
    CALL_METHOD: Interpreter._call_method,
    "prim::fork": Interpreter._fork,
    "prim::TupleUnpack": Interpreter._unpack,
    "prim::ListUnpack": Interpreter._unpack,
    "prim::DictConstruct": Interpreter._dictionary,
    "prim::isinstance": Interpreter._is_instance,
    "prim::requires_grad": Interpreter._requires_grad,
    "prim::RaiseException": Interpreter._raise,
    "prim::PythonOp": Interpreter._python,
    "prim::If": Interpreter._if,
    "prim::Loop": Interpreter._loop,
}
