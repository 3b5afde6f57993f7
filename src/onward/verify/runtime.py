"""onnxruntime with PyTorch tensors going in and coming out, of every type, and errors that name the input."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import from_torch_dtype, to_torch_dtype

from onward.capture.program.facts import Output, pair_tensor
from onward.errors import InputError, MissingDependencyError, VerifyError, first_line
from onward.write import model_bytes, write_model
from onward.write.tensors import byte_length

Inputs = Sequence[torch.Tensor] | Mapping[str, torch.Tensor]

_IN_MEMORY_BYTES = 128 << 20
"""Larger models go through a file: onnxruntime keeps the bytes it is given beside what it makes of them."""

_FATAL_ONLY = 4  # what is worth saying comes back as an exception; the log would say it twice
_OF_EACH_SHARE = b"DynamicQuantizeLSTM"
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def load_onnxruntime() -> Any:
    """The module, or an error that says how to get it."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError(
            f"onnxruntime is not installed, and running a model needs it ({error})", hint="pip install onnxruntime"
        ) from error
    return onnxruntime


class Session:
    """A model ready to run: a path, the bytes of a model, a ModelProto or an onnx_ir.Model.

    threads       how many threads one operator may use; None leaves it to onnxruntime
    optimize      False runs the graph as it is written
    given         inputs that every run gets, by name; callers give the others
    prepare       is given onnxruntime's SessionOptions before the model is loaded
    reproducible  one thread, unless `threads` says otherwise, for a file whose results depend on their number
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | onnx.ModelProto | ir.Model,
        *,
        threads: int | None = None,
        optimize: bool = True,
        given: Mapping[str, torch.Tensor] | None = None,
        prepare: Callable[[Any], None] | None = None,
        reproducible: bool = True,
    ) -> None:
        onnxruntime = load_onnxruntime()
        if threads is not None and threads < 1:
            raise InputError(f"threads is {threads}; it has to be at least 1")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _FATAL_ONLY
        # The folder, if there is one, lives as long as the session: onnxruntime may map the weights from it.
        self._folder, source = _as_source(model)
        if self._folder is not None:
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        if threads is None and reproducible and _depends_on_threads(source):
            threads = 1
        if threads is not None:
            options.intra_op_num_threads = threads
        if not optimize:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        if prepare is not None:
            prepare(options)
        with _told_clearly("onnxruntime does not load the model"):
            self._session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self._given = dict(given or {})
        self._inputs = {node.name: node for node in self._session.get_inputs()}
        self._optional = {node.name: node for node in self._session.get_overridable_initializers()}
        self._outputs = {node.name: node for node in self._session.get_outputs()}

    @property
    def input_names(self) -> list[str]:
        return list(self._inputs)

    @property
    def output_names(self) -> list[str]:
        return list(self._outputs)

    def run(self, inputs: Inputs) -> list[Output]:
        """Run once. Inputs by position or by name; outputs in the order of the graph, a sequence as a list.

        Complex inputs are given as they are, or with real and imaginary parts in a last axis of 2, which is what the
        file takes. Complex outputs come back as the file has them, with such an axis.
        """
        for name, node in self._outputs.items():
            if not node.type.startswith(("tensor(", "seq(tensor(")):
                raise VerifyError(f"the output '{name}' is a {node.type}; only tensors and lists can be read back")
        onnxruntime = load_onnxruntime()
        named = self._named(inputs)
        # `held` keeps the memory alive that onnxruntime only points to.
        held = {name: _to_array(tensor) for name, tensor in named.items()}
        feeds = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(held[name], _element_type(tensor))
            for name, tensor in named.items()
        }
        with _told_clearly("onnxruntime fails to run the model"):
            results = self._session.run_with_ort_values(self.output_names, feeds)
        return [_output(name, value) for name, value in zip(self.output_names, results, strict=True)]

    def end_profiling(self) -> str:
        """The file that onnxruntime has written the profile to, if `prepare` asked for one."""
        return str(self._session.end_profiling())

    def _named(self, inputs: Inputs) -> dict[str, torch.Tensor]:
        if isinstance(inputs, torch.Tensor):
            raise InputError("the inputs are one tensor; give a list of tensors, or a dict by name", hint="run([x])")
        named: dict[str, Any]  # callers may have given anything
        if isinstance(inputs, Mapping):
            named = {**self._given, **inputs}
        else:
            asked = [name for name in self._inputs if name not in self._given]
            if len(inputs) != len(asked):
                raise InputError(f"the model has {len(asked)} inputs ({_listed(asked)}), and {len(inputs)} were given")
            named = {**self._given, **dict(zip(asked, inputs, strict=True))}
        named = {name: pair_tensor(each) if isinstance(each, torch.Tensor) else each for name, each in named.items()}
        known = {**self._inputs, **self._optional}
        if missing := [name for name in self._inputs if name not in named]:
            raise InputError(f"missing input: {_listed(missing)}", hint=f"the model has {_listed(self._inputs)}")
        if unknown := [name for name in named if name not in known]:
            raise InputError(f"no such input: {_listed(unknown)}", hint=f"the model has {_listed(self._inputs)}")
        for name, tensor in named.items():
            _check_input(name, tensor, known[name])
        return named


@functools.cache
def supported_opset() -> int:
    """The newest ai.onnx opset that the installed onnxruntime loads, found by trying, newest first."""
    onnxruntime = load_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    refused: Exception | None = None
    for version in range(onnx.defs.onnx_opset_version(), 0, -1):
        try:
            onnxruntime.InferenceSession(_smallest_model(version), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's classes share no base but this
            refused = error
            continue
        return version
    raise VerifyError("the installed onnxruntime loads no ONNX opset at all") from refused


def _smallest_model(opset_version: int) -> bytes:
    opsets = [onnx.helper.make_opsetid("", opset_version)]
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "smallest", [x], [y])
    ir_version = onnx.helper.find_min_ir_version_for(opsets)
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=ir_version).SerializeToString()


def _as_source(model: Any) -> tuple[str | None, str | bytes]:
    """What InferenceSession accepts: a path or bytes; for a large model, a path in a folder of its own."""
    if isinstance(model, ir.Model):
        initializers = model.graph.initializers.values()
        weights = (value.const_value for value in initializers if value.const_value is not None)
        if sum(byte_length(weight) for weight in weights if weight.dtype != ir.DataType.STRING) <= _IN_MEMORY_BYTES:
            return None, model_bytes(model)
        folder = tempfile.mkdtemp(prefix="onward-")
        path = os.path.join(folder, "model.onnx")
        try:
            write_model(model, path)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder, path
    if isinstance(model, onnx.ModelProto):
        return None, model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        return None, bytes(model)
    if isinstance(model, (str, os.PathLike)):
        path = os.fsdecode(model)
        if not os.path.isfile(path):
            raise InputError(f"there is no file '{path}'")
        return None, path
    raise InputError(
        f"cannot run a {type(model).__name__}", hint="give a path, bytes, a ModelProto or an onnx_ir.Model"
    )


def _depends_on_threads(source: str | bytes) -> bool:
    """onnxruntime 1.31 shares the rows of a batch out among its threads for an LSTM that it quantises as it runs, and
    finds a range for each share. Names of operators are in a file as they are, so nothing has to be parsed."""
    if isinstance(source, bytes):
        return _OF_EACH_SHARE in source
    with _told_clearly("the file cannot be read"), open(source, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:  # which nobody can map, and onnxruntime refuses
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(_OF_EACH_SHARE) >= 0


@contextmanager
def _told_clearly(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # onnxruntime's classes share no base but this
        raise VerifyError(f"{what}: {first_line(error)}") from error


def _check_input(name: str, tensor: Any, node: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"the input '{name}' is a {type(tensor).__name__}, not a tensor")
    given = _runtime_type(tensor.dtype)
    if node.type != given:
        raise InputError(f"the input '{name}' is a {given}, and the model takes a {node.type}")
    if node.shape is None:
        return
    fits = len(node.shape) == tensor.dim() and all(
        not isinstance(wanted, int) or wanted == size for wanted, size in zip(node.shape, tensor.shape, strict=True)
    )
    if not fits:
        wanted = "[" + ", ".join("?" if dim is None else str(dim) for dim in node.shape) + "]"
        raise InputError(f"the input '{name}' has the shape {list(tensor.shape)}, and the model takes {wanted}")


def _runtime_type(dtype: torch.dtype) -> str:
    """onnxruntime's name for a type: tensor(float), tensor(int64), tensor(float8e4m3fn)."""
    try:
        return f"tensor({from_torch_dtype(dtype).name.lower()})"
    except TypeError:
        return f"tensor of {dtype}"


def _element_type(tensor: torch.Tensor) -> int:
    return int(from_torch_dtype(tensor.dtype))


def _to_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The tensor's memory under a numpy type of the same width; onnxruntime is told the real type beside it."""
    dense = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    array = dense.as_strided((dense.numel(),), (1,)).view(torch.uint8).numpy()  # a single element may have any stride
    return array.view(_BITS[dense.element_size()]).reshape(tuple(dense.shape))


def _output(name: str, value: Any) -> Output:
    """onnxruntime's Python has no way to look into a sequence that keeps every type: a small model reads it."""
    if not value.is_tensor_sequence():
        return _to_torch(name, value)
    onnxruntime = load_onnxruntime()
    length, item = _readers(value.data_type())
    (many,) = length.run_with_ort_values(["length"], {"items": value})
    places = (onnxruntime.OrtValue.ortvalue_from_numpy(np.array(i, dtype=np.int64)) for i in range(many.numpy().item()))
    return [_to_torch(name, item.run_with_ort_values(["item"], {"items": value, "at": at})[0]) for at in places]


@functools.cache
def _readers(kind: str) -> tuple[Any, Any]:
    """Models that tell the length of a sequence of a type, and one of its elements."""
    onnxruntime = load_onnxruntime()
    element = ir.DataType[kind.removeprefix("seq(tensor(").removesuffix("))").upper()]
    items = onnx.helper.make_tensor_sequence_value_info("items", int(element), None)
    at, length = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, []) for name in ("at", "length"))
    item = onnx.helper.make_tensor_value_info("item", int(element), None)
    opsets = [onnx.helper.make_opsetid("", 11)]
    found = []
    for op, inputs, output in (("SequenceLength", [items], length), ("SequenceAt", [items, at], item)):
        node = onnx.helper.make_node(op, [each.name for each in inputs], [output.name])
        graph = onnx.helper.make_graph([node], "reader", inputs, [output])
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=6)
        found.append(onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]))
    return found[0], found[1]


def _to_torch(name: str, value: Any) -> torch.Tensor:
    """A copy, so that the result outlives the session."""
    try:
        dtype = to_torch_dtype(ir.DataType(value.element_type()))
    except TypeError as error:
        raise VerifyError(f"the output '{name}' is a {value.data_type()}, a type that PyTorch does not have") from error
    shape, length = list(value.shape()), int(value.tensor_size_in_bytes())
    if not length:
        return torch.empty(shape, dtype=dtype)
    memory = (ctypes.c_ubyte * length).from_address(value.data_ptr())
    return torch.frombuffer(memory, dtype=torch.uint8).clone().view(dtype).reshape(shape)


def _listed(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
