"""The values and nodes that a symbolic function sees.

They answer what TorchScript's `Value` and `Node` answered, from what the emitter knows. Their `__class__` is PyTorch's,
so that the helpers in `torch.onnx.symbolic_helper` (`parse_args`, `_is_value`, ...) take them for what they stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch

from onward.lower import constants
from onward.lower.size_values import SizeValue
from onward.lower.symbolic.types import ListType, NoneType, PlainType, TensorType

if TYPE_CHECKING:
    from onward.lower.symbolic.graph import SymbolicGraph

CONSTANT = "onnx::Constant"
LIST = "prim::ListConstruct"


class SymbolicValue:
    """A value of the graph, or a constant on its way there.

    `content` is an `onnx_ir.Value` for what is computed, a tensor or a string for a constant, a SizeValue for a number
    that depends on sizes, a list of SymbolicValues, or None.
    """

    def __init__(self, graph: SymbolicGraph, content: Any) -> None:
        self.graph, self.content = graph, content
        self._type: Any = None
        self._name: str | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return torch._C.Value

    def constant(self) -> torch.Tensor | str | None:
        """What a constant holds; None for what is computed when the model runs."""
        if isinstance(self.content, (torch.Tensor, str)):
            return self.content
        if isinstance(self.content, ir.Value):
            known = self.graph.emitter.value_of(self.content)
            return known if known is not None and known.numel() <= constants.SMALL else None
        return None

    def value(self) -> ir.Value | None:
        """What stands for it in the graph."""
        content, emitter = self.content, self.graph.emitter
        if content is None or isinstance(content, ir.Value):
            return content
        if isinstance(content, torch.Tensor):
            self.content = emitter.const_tensor(content)
        elif isinstance(content, SizeValue):
            self.content = emitter.scalar(content)
        elif isinstance(content, list) and all(each.is_number() for each in content):
            self.content = emitter.shape([each.as_size() for each in content])
        else:
            what = "a string" if isinstance(content, str) else "a list of tensors"
            raise TypeError(f"{what} cannot be an input of an ONNX node ({self!r})")
        return self.content

    def is_number(self) -> bool:
        known = self.constant()
        return isinstance(self.content, SizeValue) or (isinstance(known, torch.Tensor) and known.numel() == 1)

    def as_size(self) -> Any:
        known = self.constant()
        return known.item() if isinstance(known, torch.Tensor) else self.content

    # What torch._C.Value answers

    def type(self) -> Any:
        if self._type is not None:
            return self._type
        content, emitter = self.content, self.graph.emitter
        if content is None:
            return NoneType()
        if isinstance(content, str):
            return PlainType("str")
        if isinstance(content, list):
            if content and not all(each.is_number() for each in content):
                return ListType(TensorType(None, None))
            known = [each.constant() for each in content]
            floats = any(isinstance(each, torch.Tensor) and each.is_floating_point() for each in known)
            return ListType(PlainType("float" if floats else "int"))
        if isinstance(content, torch.Tensor):
            return TensorType(content.dtype, tuple(content.shape))
        if isinstance(content, SizeValue):
            return TensorType(torch.float32 if content.kind is float else torch.int64, ())
        return TensorType(emitter._session.dtypes.get(content), emitter.dims(content))

    def setType(self, kind: Any) -> SymbolicValue:
        """State what is known of a value. Believed where the emitter does not know better."""
        emitter, content = self.graph.emitter, self.content
        dtype = getattr(kind, "dtype", lambda: None)()
        dims = kind.dims if hasattr(kind, "dims") else getattr(kind, "varyingSizes", lambda: None)()
        if isinstance(content, ir.Value):
            known = dims is not None and all(dim is not None for dim in dims)
            emitter.annotate(
                content,
                dims if known and emitter.dims(content) is None else None,
                dtype if content not in emitter._session.dtypes else None,
            )
        if not isinstance(content, ir.Value) or emitter.dims(content) is None:
            self._type = kind
        return self

    def setTypeAs(self, other: SymbolicValue) -> SymbolicValue:
        return self.setType(other.type())

    def inferTypeFrom(self, tensor: torch.Tensor) -> None:
        self.setType(TensorType(tensor.dtype, tuple(tensor.shape)))

    def node(self) -> SymbolicNode:
        return SymbolicNode(self)

    def isCompleteTensor(self) -> bool:
        kind = self.type()
        return isinstance(kind, torch._C.TensorType) and kind.dtype() is not None and _is_complete(kind.sizes())

    def requires_grad(self) -> bool:
        return False

    requiresGrad = requires_grad

    def debugName(self) -> str:
        if self._name is None:
            named = self.content.name if isinstance(self.content, ir.Value) else None
            self._name = named or str(self.graph.number())
        return self._name

    def setDebugName(self, name: str) -> SymbolicValue:
        self._name = name
        return self

    def unique(self) -> int:
        return id(self)

    def offset(self) -> int:
        return self.content.index() or 0 if isinstance(self.content, ir.Value) else 0

    def toIValue(self) -> Any:
        """The number, tensor or string of a constant."""
        known = self.constant()
        return known.item() if isinstance(known, torch.Tensor) and known.dim() == 0 else known

    def uses(self) -> list[Any]:
        return []

    def __repr__(self) -> str:
        return f"%{self.debugName()} : {self.type()!r} = {self.node().kind()}"


class SymbolicNode:
    """What made a value: its kind, its inputs, its attributes."""

    def __init__(self, value: SymbolicValue) -> None:
        self._value = value
        content = value.content
        self._producer = content.producer() if isinstance(content, ir.Value) else None

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return torch._C.Node

    def kind(self) -> str:
        content = self._value.content
        if content is None:
            return "prim::Constant"
        if isinstance(content, list):
            return LIST
        if self._value.constant() is not None:
            return CONSTANT
        if isinstance(content, SizeValue):
            return "aten::size"
        if self._producer is None:
            return "prim::Param"
        return f"{self._producer.domain or 'onnx'}::{self._producer.op_type}"

    def mustBeNone(self) -> bool:
        return self._value.content is None

    def inputs(self) -> list[SymbolicValue]:
        if isinstance(self._value.content, list):
            return list(self._value.content)
        return [SymbolicValue(self._value.graph, each) for each in (self._producer.inputs if self._producer else ())]

    def outputs(self) -> list[SymbolicValue]:
        if self._producer is None:
            return [self._value]
        return [SymbolicValue(self._value.graph, each) for each in self._producer.outputs]

    def input(self) -> SymbolicValue:
        return self.inputs()[0]

    def output(self) -> SymbolicValue:
        return self._value

    def inputsAt(self, place: int) -> SymbolicValue:
        return self.inputs()[place]

    def outputsAt(self, place: int) -> SymbolicValue:
        return self.outputs()[place]

    def inputsSize(self) -> int:
        return len(self.inputs())

    def outputsSize(self) -> int:
        return len(self.outputs())

    def hasMultipleOutputs(self) -> bool:
        return self.outputsSize() > 1

    def blocks(self) -> list[Any]:
        return []

    def addBlock(self) -> Any:
        raise TypeError(
            "a symbolic function cannot build blocks here; use onward.lowers and g.subgraph for an If or Loop"
        )

    def scopeName(self) -> str:
        scope = self._value.graph.emitter.place.scope
        return str(scope) if scope is not None else ""

    def sourceRange(self) -> str:
        source = self._value.graph.emitter.place.source
        return str(source) if source is not None else ""

    # Attributes

    def _attributes(self) -> dict[str, tuple[str, Any]]:
        known = self._value.constant()
        if known is not None:
            return {"value": ("s" if isinstance(known, str) else "t", known)}
        if self._producer is None:
            return {}
        return {name: _read(attribute) for name, attribute in self._producer.attributes.items()}

    def attributeNames(self) -> list[str]:
        return list(self._attributes())

    def hasAttribute(self, name: str) -> bool:
        return name in self._attributes()

    def kindOf(self, name: str) -> str:
        return self._attributes()[name][0]

    def _get(self, name: str) -> Any:
        return self._attributes()[name][1]

    f = i = s = t = z = fs = ss = ts = _get

    def __getattr__(self, name: str) -> Any:
        if name == "is":  # a keyword, so it cannot be written as a method
            return self._get
        raise AttributeError(f"a node has no {name!r} in onward's symbolic functions")

    def __getitem__(self, name: str) -> Any:
        return self._get(name)

    def __repr__(self) -> str:
        return f"{self._value!r}({', '.join(f'%{each.debugName()}' for each in self.inputs())})"


_LETTERS = {
    ir.AttributeType.FLOAT: "f", ir.AttributeType.FLOATS: "fs", ir.AttributeType.INT: "i",
    ir.AttributeType.INTS: "is", ir.AttributeType.STRING: "s", ir.AttributeType.STRINGS: "ss",
    ir.AttributeType.TENSOR: "t", ir.AttributeType.TENSORS: "ts",
}  # fmt: skip


def _read(attribute: ir.Attr) -> tuple[str, Any]:
    letter = _LETTERS.get(attribute.type, "g")
    value = attribute.value
    if letter == "t":
        value = torch.from_numpy(value.numpy())
    return letter, list(value) if isinstance(value, Sequence) and letter.endswith("s") else value


def _is_complete(sizes: Sequence[int | None] | None) -> bool:
    return sizes is not None and None not in sizes


def is_value(thing: Any) -> bool:
    """Whether a thing is a value of the graph (ours; PyTorch's own says the same of it)."""
    return isinstance(thing, torch._C.Value)
