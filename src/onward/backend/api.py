"""`onnx.backend.base`, on PyTorch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.backend.base
import onnx_ir as ir
import torch

from ..errors import BackendError, ExportError, InputError
from ..files.load import AnyModel, load, tensors_of
from ..write.type_texts import dimensions
from .allowed_calls import checked_custom_ops
from .limits import DEFAULT, Guard, Limits, guarded
from .module import OnnxModule
from .protos import plain
from .values import holder, to_numpy, to_torch

__all__ = ["Backend", "Rep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class Rep(onnx.backend.base.BackendRep):
    """A model that is ready to run. `module` is the same as an `nn.Module`, for training or `torch.compile`."""

    def __init__(
        self,
        model: ir.Model,
        device: torch.device,
        *,
        custom_ops: Collection[str] | None = None,
        limits: Limits = DEFAULT,
    ) -> None:
        super().__init__()
        self.device, self.limits = device, limits
        self.module = OnnxModule(model, device, custom_ops=custom_ops, limits=limits).eval()
        self._inputs = {str(value.name): value for value in model.graph.inputs}
        self._output_names = [str(value.name) for value in model.graph.outputs]
        self._output_types = [int(value.dtype) if value.dtype is not None else 0 for value in model.graph.outputs]
        self._watched: set[Any] = set()

    def run(self, inputs: Any, *, limits: Limits | None = None, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in the graph's order, numpy for numpy and torch for torch. No gradients: use `module` for those.

        One array, a sequence of them in the graph's order, or a mapping by name. `limits` are those of `prepare` unless
        given.
        """
        if kwargs:
            raise InputError(f"run() takes no option {', '.join(kwargs)}")
        given = self._in_order(inputs)
        as_torch = any(isinstance(value, torch.Tensor) for value in given)
        names = list(self._inputs) if len(given) == len(self._inputs) else self.module.required
        values = [self._taken(name, value) for name, value in zip(names, given, strict=True)]
        with torch.no_grad(), guarded(Guard(limits or self.limits, self._watched)):
            results = self._own(self.module.run(values), values)
        if as_torch:
            return tuple(results)
        outputs = zip(self._output_names, results, self._output_types, strict=True)
        return tuple(_as_numpy(name, value, number) for name, value, number in outputs)

    def _own(self, results: list[Any], inputs: list[Any]) -> list[Any]:
        """Results in memory of their own: who changes one changes no weight and no input."""
        theirs = {each.untyped_storage().data_ptr() for each in (*inputs, *self.module.kept()) if _is_dense(each)}
        return [
            each.clone() if _is_dense(each) and each.untyped_storage().data_ptr() in theirs else each
            for each in results
        ]

    def _in_order(self, inputs: Any) -> list[Any]:
        required, every = self.module.required, list(self._inputs)
        if isinstance(inputs, Mapping):
            unknown = [name for name in inputs if name not in self._inputs]
            missing = [name for name in required if name not in inputs]
            if unknown or missing:
                raise InputError(
                    f"the model's inputs are {', '.join(every)}; given are {', '.join(map(str, inputs)) or 'none'}"
                )
            names = required if all(name in required for name in inputs) else every
            if any(name not in inputs for name in names):
                raise InputError("of the inputs that have a value in the file, give all or none")
            return [inputs[name] for name in names]
        if isinstance(inputs, (torch.Tensor, np.ndarray, np.generic)):
            inputs = [inputs]
        if not isinstance(inputs, Sequence) or isinstance(inputs, (str, bytes)):
            raise InputError(f"inputs are an array, a sequence or a mapping of them, not {type(inputs).__name__}")
        if len(inputs) not in (len(required), len(every)):
            raise InputError(f"the model has {len(required)} inputs ({', '.join(required)}), {len(inputs)} are given")
        return list(inputs)

    def _taken(self, name: str, value: Any) -> Any:
        """An input as it flows, once it is what the file declares."""
        try:
            value = to_torch(value, self.device)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"the input {name!r} is no tensor: {error}") from error
        declared = self._inputs[name]
        if isinstance(declared.type, ir.SequenceType) and not isinstance(value, list):
            raise InputError(f"the input {name!r} is a sequence, given is a {type(value).__name__}")
        if not isinstance(declared.type, ir.TensorType) or declared.dtype is None:
            return value
        if isinstance(value, torch.Tensor) and declared.dtype != ir.DataType.STRING:
            wanted = holder(int(declared.dtype))
            if value.dtype != wanted:
                raise InputError(f"the input {name!r} is {wanted}, given is {value.dtype}")
        elif not isinstance(value, np.ndarray) or declared.dtype != ir.DataType.STRING:
            kind = "strings" if isinstance(value, np.ndarray) else getattr(value, "dtype", f"a {type(value).__name__}")
            raise InputError(f"the input {name!r} is a tensor of {declared.dtype.name}, given is {kind}")
        _check_shape(name, declared.shape, value.shape)
        return value


def _is_dense(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() > 0


def _check_shape(name: str, declared: ir.Shape | None, given: Sequence[int]) -> None:
    if declared is None:
        return
    fits = len(declared) == len(given) and all(
        not isinstance(want, int) or want <= 0 or want == have  # some write 0 or -1 for a size that is not known
        for want, have in zip(declared, given, strict=True)
    )
    if not fits:
        wanted = ", ".join(map(str, dimensions(declared)))
        raise InputError(f"the input {name!r} is of shape [{wanted}], given is {list(given)}")


def _as_numpy(name: str, value: Any, number: int) -> Any:
    try:
        return to_numpy(value, number)
    except (TypeError, ValueError, RuntimeError) as error:
        raise BackendError(f"the output {name!r} cannot be an array of the type that the file declares") from error


def supports_device(device: str) -> bool:
    """Whether "CPU", "CUDA" or "CUDA:1" is there."""
    kind, _, index = device.upper().partition(":")
    if kind == "CPU":
        return True
    there = kind == "CUDA" and torch.cuda.is_available() and (index or "0").isdecimal()
    return there and int(index or 0) < torch.cuda.device_count()


def prepare(
    model: AnyModel,
    device: str = "CPU",
    *,
    limits: Limits = DEFAULT,
    custom_ops: Collection[str] | None = None,
    **kwargs: Any,
) -> Rep:
    """A model (a path, bytes, a ModelProto, an onnx_ir.Model or a Program) ready to run on PyTorch.

    `limits` are what the model may take. `custom_ops` are the namespaces of custom PyTorch operators that it may call;
    by default all that this process has registered.
    """
    custom_ops = checked_custom_ops(custom_ops)
    if kwargs:
        raise InputError(f"prepare() takes no option {', '.join(kwargs)}")
    if not supports_device(device):
        raise InputError(f"there is no device {device!r} here", hint='use "CPU"')
    if not isinstance(limits, Limits):
        raise InputError(f"limits is an onward.backend.Limits, not {type(limits).__name__}")
    try:
        loaded = load(model, rewrite=lambda proto, folder: plain(proto, folder, limits.max_elements))
        _check_weights(loaded, limits)
        return Rep(loaded, torch.device(device.lower()), custom_ops=custom_ops, limits=limits)
    except ExportError:
        raise
    except Exception as error:  # whatever a malformed graph trips over
        raise BackendError(f"the model is malformed: {str(error).strip() or type(error).__name__}") from error


def _check_weights(model: ir.Model, limits: Limits) -> None:
    total = 0
    for tensor in tensors_of(model):
        if tensor is not None:
            if any(isinstance(size, int) and size < 0 for size in tensor.shape):
                raise BackendError(f"the weight {tensor.name!r} has a negative size: {list(tensor.shape)}")
            total += tensor.nbytes if tensor.dtype != ir.DataType.STRING else tensor.size
            limits.check_weight(str(tensor.name), tensor.size, total)


def run_model(model: AnyModel, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
    """Prepare and run at once."""
    return prepare(model, device, **kwargs).run(inputs)


def run_node(
    node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
) -> tuple[Any, ...]:
    """Run one node on its inputs. `opset_version` is that of the node's domain, by default the newest.

    Types of outputs that torch cannot say (int4) come from `outputs_info`: pairs of a numpy dtype and a shape.
    """
    version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version() if node.domain in ("", "ai.onnx") else 1)
    if kwargs:
        raise InputError(f"run_node() takes no option {', '.join(kwargs)}")
    given = [name for name in node.input if name]
    named = inputs if isinstance(inputs, Mapping) else None
    if named is not None and any(name not in named for name in given):
        raise InputError(f"the node's inputs are {', '.join(given)}; given are {', '.join(map(str, named)) or 'none'}")
    values: Any = inputs if named is None else [named[name] for name in given]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    for info, (dtype, shape) in zip(outputs, outputs_info or (), strict=False):
        number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        info.CopyFrom(onnx.helper.make_tensor_value_info(info.name, number, shape))
    graph = onnx.helper.make_graph(
        [node], "node", [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(given)], outputs
    )
    opsets = [onnx.helper.make_opsetid("", onnx.defs.onnx_opset_version())]
    opsets = [each for each in opsets if each.domain != node.domain] + [onnx.helper.make_opsetid(node.domain, version)]
    return run_model(onnx.helper.make_model(graph, opset_imports=opsets), values, device)


def is_compatible(model: AnyModel, device: str = "CPU", **kwargs: Any) -> bool:
    """Whether `prepare` would take it."""
    try:
        prepare(model, device, **kwargs)
    except ExportError:
        return False
    return True


class Backend(onnx.backend.base.Backend):
    """The same functions where a class is asked for, as by `onnx.backend.test.BackendTest`."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        return is_compatible(model, device, **kwargs)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Rep:
        return prepare(model, device, **kwargs)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return run_model(model, inputs, device, **kwargs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        return run_node(node, inputs, device, outputs_info, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return supports_device(device)
