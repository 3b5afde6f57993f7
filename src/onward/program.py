"""What `export` returns: the model as a graph, as a file, and as something to call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, BinaryIO

import onnx
import onnx_ir as ir
import torch

from .capture import CapturedProgram, Port
from .capture.inputs import bind_call
from .capture.model import evaluation_mode
from .errors import InputError
from .verify import Session, Verification, verify_at_sizes
from .write import WrittenFiles, to_proto, write_model
from .write.staging import can_publish, publish

Target = str | os.PathLike[str] | BinaryIO


class Program:
    """An exported model.

    model      the graph, an `onnx_ir.Model`; weights are the live model's own memory until they are written
    inputs     name, dtype and axes of every input; `outputs` likewise
    warnings   what was decided once and for all while the model was followed
    """

    def __init__(self, model: ir.Model, captured: CapturedProgram, source: Any) -> None:
        self.model = model
        self._captured = captured
        self._source = source
        self._session: Session | None = None

    @property
    def inputs(self) -> tuple[Port, ...]:
        return self._captured.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        return self._captured.outputs

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._captured.warnings

    @property
    def opset_version(self) -> int:
        return self.model.opset_imports[""]

    def proto(self) -> onnx.ModelProto:
        """The model as protobuf, with a copy of the weights."""
        return to_proto(self.model)

    def save(self, f: Target, *, external_data: bool | None = None) -> WrittenFiles:
        """Write the model to a path or a binary file object. A file appears whole or not at all."""
        return write_model(self.model, f, external_data=external_data)

    def save_verified(self, f: Target, *, external_data: bool | None = None) -> Verification:
        """Write the model, compare the file as written with PyTorch, and only then give it its name."""
        if not isinstance(f, (str, os.PathLike)) or not can_publish(f):
            verification = self.verify()
            self.save(f, external_data=external_data)
            return verification
        with publish(f) as staged:
            write_model(self.model, staged, external_data=external_data)
            return self.verify(staged)

    def verify(self, f: str | os.PathLike[str] | None = None) -> Verification:
        """Compare onnxruntime with PyTorch, on the example and at other sizes of every dynamic axis.

        `f` is a file that was saved from this program; without it the program itself is run. A difference beyond the
        documented tolerance raises VerifyError.
        """
        captured = self._captured
        verification = verify_at_sizes(
            self._own_session() if f is None else Session(f),
            captured.inputs,
            captured.axes,
            captured.example_inputs,
            captured.example_outputs,
            self._eager,
        )
        verification.raise_unless_ok()
        return verification

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the exported model in onnxruntime, called as the original is. Returns what the original returns."""
        call = bind_call(self._source, args, kwargs, None)
        if len(call.tensors) != len(self.inputs):
            raise InputError(
                f"{len(call.tensors)} tensors given, and the program has {len(self.inputs)} inputs "
                f"({', '.join(port.name for port in self.inputs)})"
            )
        outputs = self._own_session().run(list(call.tensors))
        return self._captured.results.assemble(outputs)

    def _own_session(self) -> Session:
        if self._session is None:
            self._session = Session(self.model)
        return self._session

    def _eager(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The original model's outputs for other inputs, flat, in the order of `outputs`."""
        args, kwargs = self._captured.call.arguments([each.clone() for each in inputs])
        with evaluation_mode(self._source), torch.no_grad():
            return self._captured.results.select(self._source(*args, **kwargs))

    def __repr__(self) -> str:
        def listed(ports: Sequence[Port]) -> str:
            return ", ".join(f"{port.name}: {port}" for port in ports)

        nodes = sum(1 for _ in self.model.graph)
        return (
            f"Program({self._captured.model_name}, opset {self.opset_version}, {nodes} nodes)\n"
            f"  inputs   {listed(self.inputs)}\n  outputs  {listed(self.outputs)}"
        )
