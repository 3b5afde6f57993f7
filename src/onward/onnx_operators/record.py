"""What onward knows of an ONNX operator, and the table of all records.

    @record("Transpose")
    class Transpose(Moves):
        '''The axes in another order.'''

A record has up to six parts. A part that its class leaves out is unknown, and whoever asks for it goes without.

    evaluate    the results, from PyTorch tensors: `onward.backend` runs it, and folding is built on it
    fold        the results of constants, or None where the node has to stay
    dimensions  the sizes of the results, from the sizes of the inputs
    repeats     the input that the node only repeats, so that it need not exist
    flops       how many arithmetic operations one call takes
    draws       whether a node draws random numbers

A family file declares its operators with all their parts. Finding a record is one look into a dictionary, since the
emitter asks for every node that it makes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import onnx_ir as ir

from .call_sizes import CallSizes
from .dimension_math import Operands
from .seen_node import SeenNode

Class = TypeVar("Class", bound=type["Record"])

RECORDS: dict[tuple[str, str], Record] = {}


class Record:
    """One operator, or several that differ in nothing that is asked here.

    numbers, scalars    the inputs of `evaluate` that say how to compute rather than on what: at best, the backend
                        hands them over as Python's numbers (up to one axis of them; a single one)
    is_elementwise      every result is as large as the largest input, so that folding a large one saves nothing
    folds_without_data  only shapes are needed: tensors on the meta device fold as well
    holds_at_any_size   whether `dimensions` is right at all sizes, or only at those that the program was captured for
    random              whether nodes may draw random numbers: such nodes are never folded and never shared
    """

    evaluate: Any = None
    numbers: ClassVar[tuple[str, ...]] = ()
    scalars: ClassVar[tuple[str, ...]] = ()
    is_elementwise: ClassVar[bool] = False
    folds_without_data: ClassVar[bool] = False
    holds_at_any_size: ClassVar[bool] = True
    random: ClassVar[bool] = False

    def __init__(self) -> None:
        own = type(self)
        self.can_fold = self.evaluate is not None or own.fold is not Record.fold
        self.may_repeat = own.repeats is not Record.repeats
        self.has_dimensions = own.dimensions is not Record.dimensions

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        """A tensor, a list of them, or None. Inputs are PyTorch tensors, or None where one is left out."""
        return self.evaluate(*inputs, **attributes)

    def dimensions(self, operands: Operands) -> Any:
        """The sizes of the only result, a list for several results, or None."""
        return None

    def repeats(self, node: SeenNode) -> ir.Value | None:
        """The value that could stand in the place of the first result."""
        return None

    def flops(self, call: CallSizes) -> int | None:
        """The number of arithmetic operations; multiplication and addition are two."""
        return None

    def draws(self, node: ir.Node) -> bool:
        """Whether this node draws random numbers."""
        return self.random


def register(entry: Record, *names: str, domain: str = "") -> None:
    """Enter a record under names of operators. A second record for the same operator is an error."""
    for name in names:
        known = RECORDS.get((domain, name))
        if known is not None:
            raise ValueError(
                f"{domain or 'ai.onnx'}.{name} has two records: {type(known).__module__}.{type(known).__name__} "
                f"and {type(entry).__module__}.{type(entry).__name__}"
            )
        RECORDS[domain, name] = entry


def record(*names: str, domain: str = "") -> Callable[[Class], Class]:
    """Enter a class whose instances need no arguments."""

    def decorate(kind: Class) -> Class:
        register(kind(), *names, domain=domain)
        return kind

    return decorate


def find(name: str, domain: str = "") -> Record | None:
    """The record of an operator; None if nothing is known of it."""
    return RECORDS.get((domain, name))
