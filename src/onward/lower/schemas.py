"""ONNX operator schemas, read once each and reduced to what the emitter asks for on every node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
import torch

from onward.lower import dtypes
from onward.lower._kernel_types import KERNEL_TYPES

_NEVER_ENDS = 2**31 - 1

# Operators without a kernel run as the function that defines them, if onnxruntime has kernels for its parts.
_NOT_EVEN_EXPANDED = frozenset({"Bernoulli", "Swish"})  # onnxruntime 1.31, at the opsets where they have no kernel
_EXPANDS_WITHOUT_DOUBLE = frozenset({"HardSwish", "Mish"})
_UNEXPANDABLE_TYPES = frozenset({torch.bfloat16})
_CARRIES = frozenset({"Identity", "If", "Loop", "Scan"})


@dataclass(frozen=True, slots=True)
class Formal:
    """A declared input or output: the type variable it belongs to, or the one type it always has."""

    variable: str
    dtype: torch.dtype | None
    variadic: bool
    homogeneous: bool
    optional: bool


@dataclass(frozen=True, slots=True)
class OpSchema:
    """An operator at one version: its formals, its attributes, and the types each variable may take."""

    name: str
    since: int
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: dict[str, str]  # name -> "INT", "FLOATS", ...
    required: frozenset[str]  # attributes that must be given
    allowed: dict[str, frozenset[torch.dtype]]  # by type variable; a variable that is absent is not restricted
    single: dict[str, torch.dtype]  # variables that can only be one type
    runs: bool  # whether onnxruntime's CPU provider has a kernel for this version, or can expand it

    def input(self, position: int) -> Formal | None:
        """The formal at a position; a trailing variadic one covers all positions after it."""
        if position < len(self.inputs):
            return self.inputs[position]
        last = self.inputs[-1] if self.inputs else None
        return last if last is not None and last.variadic else None

    def output(self, position: int) -> Formal | None:
        if position < len(self.outputs):
            return self.outputs[position]
        last = self.outputs[-1] if self.outputs else None
        return last if last is not None and last.variadic else None


def definition(op: str, opset: int, domain: str = "") -> Any:
    """All that ONNX says of an operator in an opset, an OpSchema; None where the operator does not exist."""
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None


@cache
def find(op: str, opset: int, domain: str = "") -> OpSchema | None:
    """The schema of an operator in an opset; None where the operator does not exist (or is deprecated)."""
    schema = definition(op, opset, domain)
    return None if schema is None or schema.deprecated else _reduce(schema)


@cache
def first_opset(op: str, domain: str = "") -> int | None:
    """The opset in which an operator first appeared."""
    versions = [s.since_version for s in onnx.defs.get_all_schemas_with_history() if (s.name, s.domain) == (op, domain)]
    return min(versions, default=None)


@cache
def first_cast(dtype: torch.dtype) -> int:
    """The opset from which on Cast knows a type: 13 for bfloat16, 19 for most floats of 8 bits."""
    history = (each for each in onnx.defs.get_all_schemas_with_history() if (each.name, each.domain) == ("Cast", ""))
    known = (
        schema.since_version
        for schema in history
        if any(
            dtypes.from_type_string(text) is dtype
            for each in schema.type_constraints
            for text in each.allowed_type_strs
        )
    )
    return min(known, default=0)


def not_carried(op: str, opset: int, given: Iterable[torch.dtype | None]) -> torch.dtype | None:
    """The first of these types that an operator which takes values as they are, and gives them back, does not take."""
    schema = find(op, opset) if op in _CARRIES else None
    carried = [allowed for name, allowed in schema.allowed.items() if name in ("T", "V")] if schema else []
    refused = (dtype for dtype in given if dtype is not None and not any(dtype in allowed for allowed in carried))
    return next(refused, None) if carried else None


def _reduce(schema: onnx.defs.OpSchema) -> OpSchema:
    kernel = kernel_types(schema.name, schema.since_version) if schema.domain == "" else None
    expands = any(getattr(schema, name) for name in ("has_function", "has_context_dependent_function"))
    unlucky = _UNEXPANDABLE_TYPES | ({torch.float64} if schema.name in _EXPANDS_WITHOUT_DOUBLE else set())
    allowed: dict[str, frozenset[torch.dtype]] = {}
    single: dict[str, torch.dtype] = {}
    for constraint in schema.type_constraints:
        variable = constraint.type_param_str
        types = frozenset(filter(None, map(dtypes.from_type_string, constraint.allowed_type_strs)))
        if not types:
            continue  # sequences, optionals, strings: nothing for the dtype bridge to do
        if len(constraint.allowed_type_strs) == 1:
            single[variable] = next(iter(types))
        # onnxruntime inserts casts of its own around float16 nodes without a kernel; all else must have one.
        if kernel is not None:
            runs = types & (kernel.get(variable, types) | {torch.float16})
        else:
            runs = types - unlucky if expands else types
        allowed[variable] = runs or types
    return OpSchema(
        name=schema.name,
        since=schema.since_version,
        inputs=tuple(map(_formal, schema.inputs)),
        outputs=tuple(map(_formal, schema.outputs)),
        attributes={name: str(attribute.type).rsplit(".", 1)[-1] for name, attribute in schema.attributes.items()},
        required=frozenset(name for name, attribute in schema.attributes.items() if attribute.required),
        allowed=allowed,
        single=single,
        runs=kernel is not None or (expands and schema.name not in _NOT_EVEN_EXPANDED) or schema.domain != "",
    )


def _formal(parameter: onnx.defs.OpSchema.FormalParameter) -> Formal:
    option = onnx.defs.OpSchema.FormalParameterOption
    return Formal(
        variable=parameter.type_str,
        dtype=dtypes.from_type_string(parameter.type_str),
        variadic=parameter.option == option.Variadic,
        homogeneous=parameter.is_homogeneous,
        optional=parameter.option == option.Optional,
    )


def kernel_types(op: str, since: int) -> dict[str, frozenset[torch.dtype]] | None:
    """What onnxruntime's CPU kernels accept for the operator version `since`, by type variable; None without a kernel.

    A kernel with an open end serves only the operator version it starts at: that is how onnxruntime looks them up, so
    that an operator version newer than the runtime is not run by an older kernel.
    """
    for first, last, variables in KERNEL_TYPES.get(op, ()):
        if first == since or (first < since <= last < _NEVER_ENDS):
            return {name: frozenset(dtypes.LETTERS[letter] for letter in text) for name, text in variables.items()}
    return None
