"""A file and a model that are called alike, for `onward verify` and `onward report --against`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from onward.capture import CaptureWarning
from onward.capture.call.inputs import Call, bind_call
from onward.capture.call.resizing import resized
from onward.capture.ground.tree import flatten
from onward.capture.program.facts import Output
from onward.errors import ExportError, InputError, first_line
from onward.files.inputs import axis_bounds, within
from onward.mismatch import find_mismatch
from onward.options import TrainingMode
from onward.verify import (
    Check,
    Session,
    Verification,
    fresh,
    output_steps,
    random_outputs,
    sizes_to_try,
    verify_run,
)
from onward.write.type_texts import dimensions

from ..files.file_inputs import Opened, feeds_of
from ..inputs.values import ExampleCall, Given, arrange, signature_of
from .model_options import Asked, rebuild
from .model_sources import SourceModel

Result = TypeVar("Result")


def eager_target(what: Asked, training: bool) -> SourceModel:
    """The model that a file is held against."""
    built = rebuild(what)
    for remark in built.remarks:
        warnings.warn(remark, stacklevel=2)
    target = built.target
    eager = target.model
    if isinstance(eager, torch.export.ExportedProgram):
        eager = eager.module()
    elif isinstance(eager, torch.nn.Module):
        eager.train(training)
    return SourceModel(eager, target.name, target.example)


@dataclass(frozen=True)
class FileAndModel:
    """A file and a model that are called alike: `call.arguments(tensors)` is the model's call for the file's inputs."""

    opened: Opened
    session: Session
    model: Any
    call: Call
    names: tuple[str, ...]  # the file's inputs in the order of the call's tensors

    @property
    def example(self) -> list[torch.Tensor]:
        return [self.call.leaves[place] for place in self.call.positions]

    def checks(self) -> Iterator[Check]:
        """The example, fresh values, then every axis with a name at other sizes, within the bounds that the file tells
        of."""
        random, steps = random_outputs(self.opened.model), output_steps(self.opened.model)
        for label, inputs in self._runs():
            try:
                wanted = self.answers(inputs)
            except Exception as error:  # the model's own refusal of a size
                if label == "example":
                    raise InputError(
                        f"the model raised {type(error).__name__} on the example: {first_line(error)}",
                        hint="give inputs that it takes: --input",
                    ) from error
                yield Check(label, skipped=f"the model refuses it: {first_line(error)}")
                continue
            feeds = dict(zip(self.names, inputs, strict=True))
            compared = verify_run(self.session, label, feeds, wanted, random=random, steps=steps)
            yield Check(label, tuple(compared), inputs=tuple(inputs), expected=tuple(wanted))

    def answers(self, inputs: Sequence[torch.Tensor]) -> list[Output]:
        """What the model returns, flat."""
        args, kwargs = self.call.arguments([each.clone() for each in inputs])
        with torch.no_grad():
            leaves, _ = flatten(self.model(*args, **kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def exported_anew(self, to: Callable[..., Result], inputs: Sequence[torch.Tensor]) -> Result:
        """What `exported_like` or `find_mismatch` makes of the file and the model, with these inputs as the example."""
        args, kwargs = self.call.arguments([each.clone() for each in inputs])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaptureWarning)  # they are about a file that is not written
            return to(
                self.opened.model,
                self.model,
                tuple(args),
                kwargs=kwargs,
                input_names=list(self.names),
                training=TrainingMode.PRESERVE,
            )

    def _runs(self) -> Iterator[tuple[str, list[torch.Tensor]]]:
        yield "example", self.example
        drawn = [fresh(each, seed) for seed, each in enumerate(self.example, 1)]
        if not all(map(torch.equal, drawn, self.example)):
            yield "fresh values", drawn
        declared = {str(value.name): dimensions(value.shape) for value in self.opened.model.graph.inputs}
        places = [
            {axis: size for axis, size in enumerate(declared[name]) if isinstance(size, str)} for name in self.names
        ]
        sizes: dict[str, int] = {}
        for tensor, axes in zip(self.example, places, strict=True):
            for axis, name in axes.items():
                if axis < tensor.dim() and name != "?":
                    sizes.setdefault(name, tensor.size(axis))
        bounds = axis_bounds(self.opened.model)
        for name, size in sizes.items():
            for other in dict.fromkeys(within(each, bounds.get(name)) for each in sizes_to_try(size)):
                if other != size:
                    changed = [{axis: other for axis, each in axes.items() if each == name} for axes in places]
                    yield (
                        f"{name}={other}",
                        [
                            resized(tensor, axes, seed)
                            for seed, (tensor, axes) in enumerate(zip(self.example, changed, strict=True))
                        ],
                    )


def explained(comparison: FileAndModel, verification: Verification) -> list[str]:
    """The cause, when file and model disagree: the operator that is wrong in the first run that does."""
    failed = verification.first_failed
    if failed is None:
        return []
    if failed.label == "example":
        remark = "are the weights the same? --weights and --seed say which, and `onward diff` compares two files"
    else:
        remark = (
            "they agree on the example: an axis that was exported as dynamic is not, or the model branches on sizes"
        )
    try:
        found = comparison.exported_anew(find_mismatch, failed.inputs)
    except ExportError as error:
        return [remark, f"no operator is named: {first_line(error)}"]
    return [*found.lines(), remark]


def bound(opened: Opened, session: Session, what: Asked, target: SourceModel) -> FileAndModel:
    """How file and model are called alike."""
    example = _example(opened, session, what.given, target)
    call = bind_call(target.model, example.args, example.kwargs, None, signature_of(target.model))
    names, known = opened.input_names, list(example.input_names or call.names)
    if len(names) != len(call.positions):
        raise InputError(
            f"the file has {len(names)} inputs ({', '.join(names)}), and the model is called with "
            f"{len(call.positions)} tensors ({', '.join(call.names)})"
        )
    ordered = known if sorted(known) == sorted(names) else names
    return FileAndModel(opened, session, target.model, call, tuple(ordered))


def _example(opened: Opened, session: Session, given: Given, target: SourceModel) -> ExampleCall:
    """What the command line gives, what the target has, or what can be made up from the file."""
    if not given.values and target.example is not None:
        return target.example
    tensors = tuple(each for each in given.values if isinstance(each[1], torch.Tensor))
    others: Mapping[str, Any] = {
        str(name): value for name, value in given.values if not isinstance(value, torch.Tensor)
    }
    nested = any(isinstance(value, (list, tuple, dict)) for value in others.values())
    more = len(tensors) - len(opened.input_names)
    if tensors and (more > 0 or (more < 0 and nested)):
        return arrange(target.model, given)  # nested values, and what else a file has no names for
    feeds = feeds_of(opened, Given(tensors, {}), session.run)
    in_order = tuple((name, feeds[name]) for name in opened.input_names)
    found = arrange(target.model, Given(in_order, {}))
    return ExampleCall(found.args, {**(found.kwargs or {}), **others}, found.input_names)
