"""What PyTorch's `ONNXProgram` offers besides, under the same names, for scripts that were written for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx
import onnx.reference
import onnx_ir as ir
import torch

from .errors import InputError
from .passes import tidy_file
from .verify import Session

if TYPE_CHECKING:
    from .capture import Call


class TorchNames:
    """Part of `Program`."""

    model: ir.Model
    _session: Session | None

    if TYPE_CHECKING:

        def proto(self) -> onnx.ModelProto: ...
        def with_outputs(self, names: Sequence[str], *, keep: bool = True) -> Any: ...
        def _own_session(self) -> Session: ...
        def _fed_weights(self) -> dict[str, torch.Tensor]: ...
        def _bound(self, args: tuple, kwargs: Mapping[str, Any]) -> Call: ...
        def _inputs_of(self, call: Call) -> list[torch.Tensor]: ...

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The same as `proto()`."""
        return self.proto()

    def optimize(self) -> None:
        """Run the passes over the model as it is now, in place. `export` has run them unless `optimize=False`."""
        tidy_file(self.model)
        self.release()

    def initialize_inference_session(self) -> None:
        """Load the model into onnxruntime now; the first call would."""
        self.release()
        self._own_session()

    def release(self) -> None:
        """Let go of onnxruntime's session; the next call loads the model as it is then."""
        self._session = None

    def compute_values(
        self, value_names: Sequence[str], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Intermediate values, by name, for these arguments."""
        opened = self.with_outputs(value_names, keep=False)
        found = opened(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
        return tuple(found[name] for name in value_names)

    def call_reference(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """Run the model in onnx's reference evaluator, called as the original is: slow, and nobody's optimiser."""
        evaluator = onnx.reference.ReferenceEvaluator(self.proto())
        inputs = self._inputs_of(self._bound(args, kwargs))
        feeds = {
            str(value.name): tensor.numpy() for value, tensor in zip(self.model.graph.inputs, inputs, strict=False)
        }
        feeds |= {name: tensor.numpy(force=True) for name, tensor in self._fed_weights().items()}
        return tuple(torch.from_numpy(output) for output in evaluator.run(None, feeds))

    def rename_axes(self, rename_mapping: Mapping[Any, str]) -> None:
        """Give dynamic axes other names, in place: `{"s0": "batch"}`; a key may also be a dimension of the model."""
        names = {str(getattr(key, "value", key)): name for key, name in rename_mapping.items()}
        values = [value for graph in self.model.graphs() for value in _values(graph)]
        known = {dim.value for value in values for dim in value.shape or () if isinstance(dim, ir.SymbolicDim)}
        for old in names:
            if old not in known:
                axes = ", ".join(sorted(str(name) for name in known if name)) or "none"
                raise InputError(f"no axis of the model is named {old!r}", hint=f"its dynamic axes: {axes}")
        for value in values:
            if value.shape is not None and any(isinstance(dim, ir.SymbolicDim) for dim in value.shape):
                value.shape = ir.Shape(
                    [dim if isinstance(dim, int) else names.get(str(dim.value), dim.value) for dim in value.shape]
                )


def _values(graph: Any) -> list[ir.Value]:
    return [*graph.inputs, *graph.outputs, *(value for node in graph for value in node.outputs)]
