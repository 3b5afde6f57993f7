"""The `g` of a symbolic function: `g.op("Elu", x, alpha_f=0.5)`.

It stands on the emitter. A plain name is an operator of ONNX at the export's opset: constants fold, types that do not
run are bridged, and what an older opset had as an attribute may be given as one (`axes_i` of Squeeze). A name with a
domain (`my.domain::Foo`) is written as it is given.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import torch

from onward.lower import constants, schemas
from onward.lower.emitter import Emitter, SizeValue
from onward.lower.symbolic.types import CODE_OF
from onward.lower.symbolic.values import SymbolicValue, is_value

ATEN_DOMAIN = "org.pytorch.aten"
_SUFFIX = re.compile(r"(?P<name>.+)_(?P<letter>[fistzg])")
_NOT_WRITTEN = frozenset({"inplace", "aten"})  # keywords of old that were never attributes


class SymbolicGraph:
    """What a symbolic function builds its nodes with."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.opset = emitter.opset
        # Read by helpers of PyTorch that take this graph for theirs.
        self.graph = self.block = self
        self.params_dict: dict[str, Any] = {}
        self.env: dict[Any, Any] = {}
        self.values_in_env: set[Any] = set()
        self.new_nodes: list[Any] = []
        self._numbers = itertools.count(1)

    def number(self) -> int:
        return next(self._numbers)

    def op(self, name: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node: a value, or a tuple of them if there are several outputs."""
        domain, kind = _domain_and_kind(name)
        given = [_attribute(key, value) for key, value in attributes.items() if key not in _NOT_WRITTEN]
        settings = {each.name: each for each in given if each is not None}
        if domain == "" and kind == "Constant":
            return SymbolicValue(self, _constant(settings))
        values = [self.wrap(each).value() for each in inputs]
        made = self._custom(domain, kind, values, settings, outputs) if domain else ()
        if not domain:
            plain = {key: _plain(each) for key, each in settings.items()}
            result = self.standard(kind, values, plain, outputs)
            made = result if isinstance(result, tuple) else (result,)
        results = tuple(SymbolicValue(self, each) for each in made)
        return results if outputs > 1 else results[0]

    def at(self, operator: str, *inputs: Any, overload_name: str = "", **attributes: Any) -> Any:
        """An operator of PyTorch as a node of its own kind."""
        return self.op("aten::ATen", *inputs, operator_s=operator, overload_name_s=overload_name, **attributes)

    aten_op = at

    def onnxscript_op(self, function: Any, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """A call of an onnxscript function, which becomes a local function of the model."""
        domain, name = self.emitter.add_function(function.to_function_proto())
        return self.op(f"{domain}::{name}", *inputs, outputs=outputs, **attributes)

    def constant(self, value: Any) -> SymbolicValue:
        return self.wrap(torch.as_tensor(value))

    # Values

    def wrap(self, thing: Any) -> Any:
        """Anything that can be an argument, as a value: numbers become constants, lists lists of values."""
        if is_value(thing):
            return thing
        if thing is None or isinstance(thing, (ir.Value, SizeValue, torch.Tensor, str)):
            return SymbolicValue(self, thing.detach() if isinstance(thing, torch.Tensor) else thing)
        if isinstance(thing, (bool, int, float, np.generic, np.ndarray)):
            return SymbolicValue(self, torch.as_tensor(thing))
        if isinstance(thing, torch.dtype):
            return SymbolicValue(self, torch.tensor(CODE_OF[thing]))
        if isinstance(thing, (list, tuple)):
            if thing and all(isinstance(each, float) for each in thing):
                return SymbolicValue(self, torch.tensor(thing))
            return SymbolicValue(self, [self.wrap(each) for each in thing])
        return thing  # a device, a layout, a memory format: for the function to ignore

    def unwrap(self, result: Any) -> Any:
        """What a symbolic function returned, as a lowering returns it."""
        if isinstance(result, (tuple, list)):
            return [self.unwrap(each) for each in result]
        if is_value(result) and isinstance(result.content, list) and not all(e.is_number() for e in result.content):
            return [self.unwrap(each) for each in result.content]
        if result is None:
            return None
        wrapped = self.wrap(result)
        if not is_value(wrapped):
            raise TypeError(f"it returned {result!r}, and a symbolic function returns what g.op gives")
        return wrapped.value()

    # Nodes

    def _custom(
        self, domain: str, kind: str, values: list[Any], settings: dict[str, ir.Attr], outputs: int
    ) -> Sequence[ir.Value]:
        """A node of another domain: nothing is known of it, so nothing is changed, folded or shared."""
        while values and values[-1] is None:
            values.pop()
        self.emitter.opset_imports.setdefault(domain, 1)
        node = ir.Node(domain, kind, values, list(settings.values()), num_outputs=outputs)
        self.emitter.nodes.append(node)
        return node.outputs

    def standard(self, kind: str, values: list[Any], settings: dict[str, Any], outputs: int) -> Any:
        if schemas.first_opset(kind) is None:
            raise TypeError(
                f'ONNX has no operator {kind}; one of your own needs a domain: g.op("my.domain::{kind}", ...)'
            )
        schema = schemas.find(kind, self.opset)
        if schema is not None:
            self._attributes_as_inputs(kind, schema, values, settings)
            self._one_type(schema, values)
        return self.emitter.node(kind, values, settings, outputs=outputs)

    def _attributes_as_inputs(
        self, kind: str, schema: schemas.OpSchema, values: list[Any], settings: dict[str, Any]
    ) -> None:
        """What this opset takes as an input and an older one took as an attribute (`axes`, `pads`, `min`, `k`)."""
        stray = [name for name in settings if name not in schema.attributes]
        if not stray:
            return
        formals = onnx.defs.get_schema(kind, self.opset).inputs
        places = {formal.name.lower(): place for place, formal in enumerate(formals)}
        for name in stray:
            place = places.get({"value": "constant_value"}.get(name, name).lower())
            if place is None or (place < len(values) and values[place] is not None):
                continue  # the emitter says that there is no such attribute
            values.extend([None] * (place + 1 - len(values)))
            setting = settings.pop(name)
            if isinstance(setting, float):
                values[place] = self.emitter.like(values[0], setting)
            else:
                values[place] = self.emitter.const(setting if isinstance(setting, list) else [setting])

    def _one_type(self, schema: schemas.OpSchema, values: list[Any]) -> None:
        """Inputs that have to be of one type, promoted to it as PyTorch promotes: `x + 1` stays what x is."""
        groups: dict[str, list[int]] = {}
        dtypes = self.emitter._session.dtypes
        for place, value in enumerate(values):
            formal = schema.input(place)
            if formal is None or value is None or value not in dtypes:
                continue
            if formal.dtype is not None:
                values[place] = self.emitter.cast(value, formal.dtype)
            elif formal.homogeneous:
                groups.setdefault(formal.variable, []).append(place)
        for places in groups.values():
            if len({dtypes[values[place]] for place in places}) > 1:
                wanted = self.emitter.result_type(*(values[place] for place in places))
                for place in places:
                    values[place] = self.emitter.cast(values[place], wanted)


def _domain_and_kind(name: str) -> tuple[str, str]:
    domain, separator, kind = name.rpartition("::")
    if separator and (not domain or "::" in domain or not kind):
        raise ValueError(f'an operator\'s name is "Name" or "domain::Name", not {name!r}')
    if domain == "prim":
        raise ValueError(f"{name} is a part of TorchScript, which ONNX does not have")
    if domain == "aten" or (not domain and kind == "ATen"):
        return ATEN_DOMAIN, kind
    return ("" if domain in ("onnx", "ai.onnx") else domain), kind


# Attributes


def _attribute(key: str, value: Any) -> ir.Attr | None:
    """An attribute by its suffix; None means not given."""
    match = _SUFFIX.fullmatch(key)
    if match is None:
        raise ValueError(
            f"the attribute {key!r} needs a suffix that says its type: {key}_f, {key}_i, {key}_s or {key}_t"
        )
    if value is None:
        return None
    name, letter = match["name"], match["letter"]
    if letter == "g":
        raise TypeError(f"{key}: a symbolic function cannot build subgraphs here; use onward.lowers and g.subgraph")
    is_list = isinstance(value, Iterable) and not isinstance(value, (str, bytes, torch.Tensor)) and not is_value(value)
    items = [_item(key, letter, each) for each in (value if is_list else [value])]
    single: dict[str, Any] = {
        "f": ir.AttrFloat32,
        "i": ir.AttrInt64,
        "s": ir.AttrString,
        "t": ir.AttrTensor,
        "z": ir.AttrTensor,
    }
    several: dict[str, Any] = {
        "f": ir.AttrFloat32s,
        "i": ir.AttrInt64s,
        "s": ir.AttrStrings,
        "t": ir.AttrTensors,
        "z": ir.AttrTensors,
    }
    made: ir.Attr = several[letter](name, items) if is_list else single[letter](name, items[0])
    return made


_KINDS = {"f": "a float", "i": "an integer", "s": "a string", "t": "a tensor", "z": "a tensor"}


def _item(key: str, letter: str, value: Any) -> Any:
    if is_value(value):
        raise TypeError(
            f"{key} is given a value of the graph ({value!r}), and an attribute is a constant: decorate the function "
            f'with parse_args(..., "{letter}", ...) to get constants, or make it an input'
        )
    if isinstance(value, SizeValue):
        raise TypeError(f"{key} is given a size that varies, and an attribute is a constant: make it an input")
    try:
        return _convert(letter, value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{key} has to be {_KINDS[letter]} (or a list of them), not {value!r}") from None


def _convert(letter: str, value: Any) -> Any:
    if letter in "tz":
        return constants.ConstantTensor(torch.as_tensor(value).detach())
    if letter == "s" and isinstance(value, (str, bytes)):
        return value if isinstance(value, str) else value.decode()
    if letter == "s" or isinstance(value, str):
        raise TypeError(value)
    if letter == "f":
        return float(value)
    if isinstance(value, float) or (isinstance(value, torch.Tensor) and value.is_floating_point()):
        raise TypeError(value)
    return int(value)


def _plain(attribute: ir.Attr) -> Any:
    """An attribute as the emitter takes it."""
    if attribute.type == ir.AttributeType.TENSOR:
        return attribute.value.raw
    return list(attribute.value) if isinstance(attribute.value, (list, tuple)) else attribute.value


_CONSTANTS = {"value_float": torch.float32, "value_floats": torch.float32, "value_int": torch.int64,
              "value_ints": torch.int64}  # fmt: skip


def _constant(settings: dict[str, ir.Attr]) -> torch.Tensor | str:
    """The tensor of a Constant node, in all the ways to give it."""
    if len(settings) != 1:
        raise TypeError(f"Constant takes one value, not {sorted(settings) or 'none'}")
    (name, attribute) = next(iter(settings.items()))
    value = _plain(attribute)
    if name in ("value", *_CONSTANTS) and isinstance(value, torch.Tensor):
        return value
    if isinstance(value, str):
        return value
    if name in _CONSTANTS or name == "value":
        return torch.tensor(value, dtype=_CONSTANTS.get(name))
    raise TypeError(f"Constant has no attribute {name}")
