"""What `export` returns: the model as a graph, as a file, and as something to call."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import to_torch_dtype

from .capture import Call, CapturedProgram, Port
from .capture.attempt.plain_call import plain_answers
from .capture.call.inputs import bind_call
from .capture.call.weight_marks import marks_of, moved_since
from .capture.frontends.model import Modes, in_modes
from .capture.program.facts import ListFact, Output, SymDim, TensorFact
from .capture.program.other_weights import chosen_by, reweighed
from .capture.python.compiling import without_compiling
from .capture.state.own_code import one_reach
from .errors import InputError, LoweringError, VerifyError
from .hunt import Explanation, judge_of
from .hunt import explain as explain_mismatch
from .lower.aten_nodes import calls_in
from .lower.constants import LIVE
from .options import check_flag
from .passes.drop_dead_nodes import drop_dead_nodes
from .passes.drop_unused_weights import drop_unused_weights
from .passes.open_outputs import open_outputs
from .target import Destination
from .torch_names import TorchNames
from .verify import Check, Session, Subject, Verification, as_pytorch, output_steps, random_outputs, verify_runs
from .write import WrittenFiles, to_proto, write_model
from .write.listing import listing
from .write.staging import can_publish, publish
from .write.type_texts import dimensions

_SECONDS = 1.0  # that a model with a loop on data may take on values that nobody has tried


class Program(TorchNames):
    """An exported model.

    model   the graph, an `onnx_ir.Model`; weights are the live model's own memory until they are written

    `print(program)` shows the graph, `repr(program)` a summary.
    """

    def __init__(
        self,
        model: ir.Model,
        captured: CapturedProgram,
        source: Any,
        *,
        modes: Modes = (),
        build: Callable[[CapturedProgram], ir.Model] | None = None,
        external_data: bool | None = None,
        reporter: Callable[..., None] | None = None,
    ) -> None:
        self.model = model
        self._captured = captured
        self._source = source
        self._modes = modes  # the mode of every module when it was exported
        self._build = build  # what made `model` of `captured`
        self._weights: dict[str, torch.Tensor] = {}  # given to `apply_weights`, by the name in the file
        self._external_data = external_data  # what `save` does unless it is told otherwise
        self._reporter = reporter  # what writes the page
        self._session: Session | None = None
        self._eager_seconds: float | None = None  # how long the model took when it was called first
        self._verification: Verification | None = None
        self._marks = marks_of(captured.weights)
        self._first_state = {each.key: each.tensor.detach().clone() for each in captured.call.state}
        self._state = dict(self._first_state)

    @property
    def captured(self) -> CapturedProgram:
        """The `torch.fx` graph that the model was lowered from, with what is known of every value."""
        return self._captured

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Every input of the file, in order: `name`, `dtype`, `shape`, `axes` (names of the dynamic ones), `bounds`."""
        return self._captured.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Every output of the file, likewise."""
        return self._captured.outputs

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was decided once and for all while the model was followed, each with the line of the model's code."""
        return (*self._captured.warnings, *self._captured.remarks)

    @property
    def verification(self) -> Verification | None:
        """The result of the last `verify`, also of one that failed; None if there was none, or other weights came."""
        return self._verification

    @property
    def opset_version(self) -> int:
        """The version of ONNX's own operators that the model is written in."""
        return self.model.opset_imports[""]

    def proto(self) -> onnx.ModelProto:
        """The model as protobuf, with a copy of the weights."""
        return to_proto(self.model)

    def check(self) -> None:
        """Let onnx's own checker look at the model. What it finds wrong is a LoweringError: the fault is ours."""
        try:
            onnx.checker.check_model(self.proto(), full_check=True)
        except onnx.checker.ValidationError as error:
            raise LoweringError(f"onnx.checker refuses the model: {error}") from error

    def save(
        self,
        f: Destination,
        *,
        external_data: bool | None = None,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
    ) -> WrittenFiles:
        """Write the model to a path, a binary file object or a `Target`. A file appears whole or not at all."""
        if not include_initializers or keep_initializers_as_inputs:
            raise InputError(
                "whether weights are inputs is decided when the model is exported: some are folded by now",
                hint="export with export_params=False, or with keep_initializers_as_inputs=True",
            )
        return write_model(self.model, f, external_data=self._external(external_data))

    def save_verified(self, f: Destination, *, external_data: bool | None = None) -> Verification:
        """Write the model, compare the file as written with PyTorch, and only then give it its name."""
        if not isinstance(f, (str, os.PathLike)) or not can_publish(f):
            verification = self.verify()
            self.save(f, external_data=external_data)
            return verification
        with publish(f) as staged:
            write_model(self.model, staged, external_data=self._external(external_data))
            return self.verify(staged)

    def _external(self, asked: bool | None) -> bool | None:
        return self._external_data if asked is None else asked

    def verify(self, f: str | os.PathLike[str] | None = None, *, explain: bool | None = None) -> Verification:
        """Compare onnxruntime with PyTorch: on the example, on fresh values, and at other sizes of every dynamic axis.

        PyTorch's side is the model itself, called as you call it, outside of everything that traced it. Where sizes
        depend on data, the data is varied too.

        `f` is a file that was saved from this program; without it the program itself is run, as `model` is now. A
        difference beyond the documented tolerance raises VerifyError, which names the operator that is wrong.

        explain  True looks at every operator even if the outputs agree (`explanation` of what is returned); False does
                 not look for a reason at all
        """
        check_flag("explain", explain, "True, False or None")
        self._check_runnable()
        try:
            verification = self._verification = self._compared(f)
        except VerifyError as error:  # it does not load, or does not run
            if explain is not False:
                found = self.explain(f, error.inputs)
                if not error.says_why or found.verdict == "rounding":
                    error.explain(found)
            raise
        failed = verification.first_failed
        if failed is not None:
            self._check_weights(failed)
        other_results = failed is not None and not failed.expected  # no operator is at fault, so none is searched for
        if explain is not False and (explain or not verification.ok) and not other_results:
            found = self.explain(f, failed.inputs, failed.expected) if failed else self.explain(f)
            verification = self._verification = replace(verification, explanation=found)
        verification.raise_unless_ok()
        return verification

    def _check_weights(self, failed: Check) -> None:
        """Blame nobody for a difference if the model has got other weights since it was exported."""
        captured = self._captured
        given = {*self._weights, *(each.name for each in captured.call.state)}  # the model is called with these
        others = replace(captured.weights, state=tuple(w for w in captured.weights.state if w.name not in given))
        moved = moved_since(self._marks, others)
        if moved:
            some = ", ".join(map(repr, moved[:3])) + (f" and {len(moved) - 3} more" if len(moved) > 3 else "")
            raise VerifyError(
                "the model got other weights after it was exported, so the file cannot be compared with it",
                details=[
                    f"changed since: {some}",
                    *(f"{failed.label}: {each}" for each in failed.comparisons if not each.ok),
                ],
                hint="verify while nothing trains the model, or export a copy of it: copy.deepcopy(model)",
            )

    @one_reach()
    def _compared(self, f: str | os.PathLike[str] | None) -> Verification:
        captured = self._captured
        if f is None:
            self._session = None
        subject = Subject(
            self._own_session() if f is None else Session(f, given=self._fed_weights()),
            captured.inputs,
            captured.example_inputs,
            self._eager,
            random=random_outputs(self.model),
            steps=output_steps(self.model),
            judge=judge_of(captured),
            state=len(captured.call.state),
            limits=captured.limits,
        )
        verification = verify_runs(
            subject,
            captured.axes,
            captured.space,
            decided=captured.turning_points,
            counts_data=captured.counts_data,
        )
        return replace(verification, warnings=captured.warnings)

    def explain(
        self,
        f: str | os.PathLike[str] | ir.Model | None = None,
        inputs: Sequence[torch.Tensor] = (),
        expected: Sequence[Output] | None = None,
    ) -> Explanation:
        """Which operator of the program, or of a file that was saved from it, is wrong, if any is.

        `inputs` are the tensors of a call in the order of `inputs`, those of the example if there are none; `expected`
        are the model's own answers to them.
        """
        return explain_mismatch(
            self._captured,
            self.model if f is None else f,
            self.model,
            inputs or self._captured.example_inputs,
            given=self._fed_weights(),
            expected=expected,
        )

    def example_feeds(self) -> dict[str, torch.Tensor]:
        """The example as the file takes it: a tensor for every input of the graph, by name."""
        captured = self._captured
        example = {port.name: each for port, each in zip(captured.inputs, captured.example_inputs, strict=True)}
        return example | self._fed_weights()

    def report(self, path: str | os.PathLike[str], verification: Verification | None = None, **options: Any) -> None:
        """Write the report page: one HTML file that opens without a network.

        verification  what `verify` returned, to be shown on it
        options       `more` are sections of others, such as `onward.analyse(...).sections()`; `measuring` says what is
                      timed and compared with PyTorch, everything by default
        """
        if self._reporter is None:
            raise InputError("this program was not made by export, and has no report")
        self._reporter(self, path, verification, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the exported model in onnxruntime, called as the original is. Returns what the original returns.

        The first call loads `model` as it is then; `verify()` loads it anew.
        """
        outputs = self._own_session().run(self._inputs_of(self._bound(args, kwargs)))
        outputs = [
            as_pytorch(each, port.dtype) if isinstance(each, torch.Tensor) else each
            for each, port in zip(outputs, self.outputs, strict=True)
        ]
        return self._captured.results.assemble(self._keep_state(outputs))

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """The buffers that are inputs and outputs (`mutable_buffers=True`), by their names in the state dict.

        A call starts from them and leaves the new ones here, as a call of the model does. Assign a dict to start from
        something else: `program.state = {"cache": cache}`; buffers that it does not have stay.
        """
        return dict(self._state)

    @state.setter
    def state(self, tensors: Mapping[str, torch.Tensor]) -> None:
        unknown = [name for name in tensors if name not in self._state]
        if unknown:
            known = ", ".join(map(repr, self._state)) or "none"
            raise InputError(
                f"{', '.join(map(repr, unknown))} is not part of the program's state ({known})",
                hint="export with mutable_buffers=True; buffers that the model does not change are in the file",
            )
        for name, tensor in tensors.items():
            if not isinstance(tensor, torch.Tensor):
                raise InputError(f"the state {name!r} is of type {type(tensor).__name__}, not a tensor")
        self._state.update({name: tensor.detach().clone() for name, tensor in tensors.items()})

    def reset_state(self) -> None:
        """Start again from the buffers as they were when the model was exported."""
        self._state = dict(self._first_state)

    def _keep_state(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """The outputs that are the model's own; the others are changed inputs, and the state of the next call."""
        count = len(outputs) - len(self._state)
        self._state = {name: _tensor(each) for name, each in zip(self._state, outputs[count:], strict=True)}
        return outputs[: count - len(self._captured.call.written)]

    def apply_weights(self, state_dict: Mapping[str, torch.Tensor]) -> Program:
        """Other weights, as if the model had had them when it was exported; the model itself stays as it is.

        A part of a state dict will do: what it does not have stays. Constants that were worked out from weights
        (`weight_norm`, batch norms in convolutions, ...) are worked out anew, the graph is built anew, and later calls,
        `save` and `verify` use the new weights. Where Python read a value out of the weights that the new ones change,
        it is an error, and nothing has changed. What was done to `model` since the export (`rename_axes`, edits by
        hand) is lost. Returns the program itself.
        """
        if self._build is None:
            raise InputError("this program was not made by export, and cannot be built anew")
        weights = self._weights | chosen_by(state_dict, self._captured.weights)
        captured = reweighed(self._captured, weights)
        self.model = self._build(captured)
        self._captured, self._weights, self._session, self._verification = captured, weights, None, None
        self._marks = marks_of(captured.weights)
        self._first_state |= {each.key: weights[each.name] for each in captured.call.state if each.name in weights}
        self.reset_state()
        return self

    def with_outputs(self, names: Sequence[str], *, keep: bool = True) -> OpenedProgram:
        """A program with intermediate values as outputs, after those there are (`keep=False`: instead of them).

        `print(program)` lists the values. This program stays as it is.
        """
        check_flag("keep", keep, "True or False")

        def opened(model: ir.Model) -> ir.Model:
            open_outputs(model, names, keep=keep)
            if not keep:
                drop_dead_nodes(model)
                drop_unused_weights(model)
            return model

        build = self._build
        program = OpenedProgram(
            opened(self.model.clone()),
            self._captured,
            self._source,
            modes=self._modes,
            build=None if build is None else lambda captured: opened(build(captured)),
            external_data=self._external_data,
            reporter=self._reporter,
        )
        program._weights = dict(self._weights)
        return program

    def _bound(self, args: tuple, kwargs: Mapping[str, Any]) -> Call:
        return bind_call(self._source, args, kwargs, None, self._captured.call.signature)

    def _inputs_of(self, call: Call) -> list[torch.Tensor]:
        """The tensors of a call in the order of the inputs. What was baked in can be repeated, but not changed."""
        exported = self._captured.call
        given, known = call.by_parameter, exported.by_parameter
        inputs = dict(zip([exported.keys[i] for i in exported.positions], exported.own_names, strict=True))
        for key in [*known, *(key for key in given if key not in known)]:
            if key in inputs and not isinstance(given.get(key), torch.Tensor):
                what = f"is of type {type(given[key]).__name__}, not a tensor" if key in given else "is missing"
                raise InputError(
                    f"the argument {key!r} {what}",
                    hint=f"call the program as the model was called when it was exported: {', '.join(known)}",
                )
            if key not in inputs and key in given and not _same(given[key], known.get(key, call.defaults.get(key))):
                raise InputError(
                    f"the argument {key!r} cannot be changed: the model was exported "
                    + (f"with {known[key]!r}" if key in known else "without it"),
                    hint="export the model again with the value you need, or make it a tensor to have it as an input",
                )
        return [*(given[key] for key in inputs), *self._state.values()]

    def _check_runnable(self) -> None:
        """Refuse to run what onnxruntime has no kernels for, before it says so in its own words."""
        if any(node.domain == "linger" for node in self.model.graph):
            raise VerifyError(
                "onnxruntime does not run this model: it does not know linger's operators",
                hint="onward.backend.prepare(program).run(...) does",
            )
        if calls := calls_in(self.model):
            raise VerifyError(
                f"onnxruntime does not run this model: it holds operators of PyTorch's own ({', '.join(calls)})",
                hint="leave verify out, or export with operator_export_type=ONNX and add lowerings for them",
            )

    def _own_session(self) -> Session:
        if self._session is None:
            self._check_runnable()
            self._session = Session(self.model, given=self._fed_weights())
        return self._session

    def _fed_weights(self) -> dict[str, torch.Tensor]:
        """The weights that are inputs of the graph, and not in it: whoever runs it has to feed them."""
        weights = [value for value in self.model.graph.inputs if LIVE in value.meta and value.const_value is None]
        return {str(value.name): self._captured.constants[value.meta[LIVE]].tensor for value in weights}

    def _eager(self, inputs: Sequence[torch.Tensor]) -> list[Output]:
        """The original model's outputs for other inputs, flat, in the order of `outputs`."""
        captured = self._captured
        keys = {weight.name: weight.key for weight in captured.weights.state}
        weights = {keys[name]: tensor for name, tensor in self._weights.items()}
        call = functools.partial(plain_answers, self._source, captured.call, captured.results)
        limit = None
        if captured.may_not_end and self._eager_seconds is not None:  # on other values than the example's
            limit = max(_SECONDS, 50 * self._eager_seconds)
        with in_modes(self._modes), without_compiling():
            started = time.thread_time()  # of this thread alone: a busy machine would make the limit too long
            found = call(inputs, weights, captured.changed, seconds=limit)
        if self._eager_seconds is None:
            self._eager_seconds = time.thread_time() - started
        return found

    def __str__(self) -> str:
        """The whole graph for a person to read; `repr` has the summary."""
        return listing(self.model)

    def __repr__(self) -> str:
        def listed(ports: Sequence[Port]) -> str:
            return ", ".join(f"{port.name}: {port}" for port in ports) or "none"

        nodes = sum(1 for _ in self.model.graph)
        return (
            f"Program({self._captured.model_name}, opset {self.opset_version}, {nodes} node{'s' * (nodes != 1)})\n"
            f"  inputs   {listed(self.inputs)}\n  outputs  {listed(self.outputs)}\n  {self._verdict()}"
        )

    def _verdict(self) -> str:
        """Whether the program was verified, in a line."""
        verification = self._verification
        if verification is None:
            return "not verified"
        if verification.ok:
            return f"verified: {verification.summary().replace(' (see above)', '')}"
        return f"NOT verified: {verification.summary().replace(' (see above)', '')}"


class OpenedProgram(Program):
    """A program whose outputs are not those of the original: a call answers with a dict by output name."""

    @property
    def outputs(self) -> tuple[Port, ...]:
        return tuple(_port(value, self._captured.axes) for value in self.model.graph.outputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(str(value.name) for value in self.model.graph.outputs)

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Output]:
        """Run it in onnxruntime, called as the original is. Returns every output by its name."""
        outputs = self._own_session().run(self._inputs_of(self._bound(args, kwargs)))
        return dict(zip(self.output_names, outputs, strict=True))

    def verify(self, f: str | os.PathLike[str] | None = None, *, explain: bool | None = None) -> Verification:
        """Not for this program: PyTorch has nothing to hold against intermediate values."""
        raise InputError(
            "the outputs of this program are intermediate values, and PyTorch has nothing to compare them with",
            hint="verify the program that with_outputs was called on",
        )

    def __repr__(self) -> str:
        return f"OpenedProgram({self._captured.model_name}, outputs {', '.join(self.output_names)})"


def _port(value: ir.Value, axes: Mapping[str, tuple[int, ...]]) -> Port:
    """What the graph says of a value. The sizes of a name that is no input axis are not known outside of lowering."""
    shape = tuple(
        size if isinstance(size, int) else SymDim(axes.get(size, ()), size) for size in dimensions(value.shape)
    )
    kind = ListFact if isinstance(value.type, ir.SequenceType) else TensorFact
    return Port(str(value.name), kind(to_torch_dtype(value.dtype or ir.DataType.UNDEFINED), shape))


def _tensor(output: Output) -> torch.Tensor:
    if not isinstance(output, torch.Tensor):
        raise TypeError("the state of a model is made of tensors")
    return output


def _same(first: Any, second: Any) -> bool:
    """Whether two baked-in arguments are equal; objects that cannot be compared are if they are one object."""
    if first is second:
        return True
    if isinstance(first, torch.Tensor) or isinstance(second, torch.Tensor):
        return False
    try:
        return bool(np.all(first == second))
    except (TypeError, ValueError):
        return False
