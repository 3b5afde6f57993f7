"""What an export asks of a model, whatever kind of model it is.

A kind of model is a class with these methods, in a file of its own, and a row in `front_ends.py`. `PythonModel` has the
answers for modules and functions; another kind inherits those that hold for it too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ...options import ExportOptions
from ...parameters import TrainingMode
from ..call.inputs import Call
from ..call.shapes import AskedAxes
from ..call.signature import python_signature
from ..call.weights import Weights, chosen_weights

if TYPE_CHECKING:
    from ..record.tracer import Tracer

Run = Callable[["Tracer", Any, tuple, dict[str, Any]], Any]


@runtime_checkable
class FrontEnd(Protocol):
    """One kind of model.

    brings_example      whether it has an example of its own, for a call of `export` that gives none
    has_own_classes     whether its modules are instances of the classes that somebody wrote
    is_slow_to_copy     whether a copy of such a module takes a compiler's time
    has_changed_inputs  whether it says itself which of its inputs it changes
    """

    brings_example: bool
    has_own_classes: bool
    is_slow_to_copy: bool
    has_changed_inputs: bool

    def takes(self, model: Any) -> bool:
        """Whether a model is of this kind."""

    def opened(self, model: Any) -> Any:
        """What is called, and traced, in the place of the model: mostly the model itself."""

    def signature(self, model: Any) -> inspect.Signature | None:
        """What the model can be called with, as far as anybody knows."""

    def example(
        self, model: Any, args: Any, kwargs: Mapping[str, Any] | None, options: ExportOptions
    ) -> tuple[Any, Mapping[str, Any] | None, ExportOptions]:
        """The arguments and the options of an export, completed by what the model says itself."""

    def axes(self, model: Any, call: Call, asked: AskedAxes) -> AskedAxes:
        """The dynamic axes that are asked for, with those that the model has."""

    def weights(self, model: Any, options: ExportOptions, names: Sequence[str]) -> Weights:
        """The model's parameters and buffers."""

    def run(self, module: Any) -> Run | None:
        """How a module of this kind is followed, inside another model too; None if PyTorch calls it as ever."""

    def check_mode(self, model: Any, asked: TrainingMode) -> None:
        """Warn if the model is not exported in the mode that is asked for."""

    def changed_inputs(self, model: Any) -> list[str]:
        """The inputs that the model says it changes, and whose new content is not among its results."""


class PythonModel:
    """An nn.Module or a function: the kind of everything that is of no other kind."""

    brings_example = False
    has_own_classes = True
    is_slow_to_copy = False
    has_changed_inputs = False

    def takes(self, model: Any) -> bool:
        return True

    def opened(self, model: Any) -> Any:
        return model

    def signature(self, model: Any) -> inspect.Signature | None:
        return python_signature(model)

    def example(
        self, model: Any, args: Any, kwargs: Mapping[str, Any] | None, options: ExportOptions
    ) -> tuple[Any, Mapping[str, Any] | None, ExportOptions]:
        return args, kwargs, options

    def axes(self, model: Any, call: Call, asked: AskedAxes) -> AskedAxes:
        return asked

    def weights(self, model: Any, options: ExportOptions, names: Sequence[str]) -> Weights:
        return chosen_weights(model, options, names)

    def run(self, module: Any) -> Run | None:
        return None

    def check_mode(self, model: Any, asked: TrainingMode) -> None:
        """It is put into the mode that is asked for."""

    def changed_inputs(self, model: Any) -> list[str]:
        return []


def is_none_given(args: Any, kwargs: Mapping[str, Any] | None) -> bool:
    """Whether a call of `export` leaves the example to the model."""
    return isinstance(args, tuple) and not args and not kwargs
