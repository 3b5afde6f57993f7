"""Which of PyTorch's operators a model may name.

A node can be a call of a PyTorch operator (`onward.lower.aten_nodes`), and a file is untrusted, so a name in it must
not reach whatever the process happens to have loaded. What may be called:

* operators that are functional: they change none of their arguments, and those are tensors, numbers, names and lists;
* of `aten`, those that compute on dense tensors and check what they are given: none that reads files, prints, makes
  tensors of other layouts, wants memory that another operator packed, or is a step of a backward pass, whose kernels
  believe the indices that they get;
* of PyTorch's other namespaces, `prims` and `quantized_decomposed`, which compute as `aten` does;
* of custom namespaces, those that the caller names; if none are named, all that this process has registered, which is
  what importing the package of an operator is for, apart from packages that are known to read and write files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..errors import BackendError, InputError
from ..lower.aten_nodes import DecodedCall, Given

_COMPUTING = frozenset({"aten", "prims", "quantized_decomposed", "onward"})
_PYTORCHS_OWN = frozenset(
    {
        "prim", "quantized", "_quantized", "quantization", "symm_mem", "static_runtime", "c10d", "c10d_functional",
        "_c10d_functional", "_c10d_functional_autograd", "onednn", "mkldnn", "mkldnn_prepacked", "mkl", "sparse",
        "inductor", "inductor_prims", "_inductor_test", "profiler", "_test", "debugprims", "debug_mode_ops", "rngprims",
        "_native", "export", "_dtensor", "streams", "fsdp", "onnx", "onnx_symbolic", "flex_lib", "higher_order", "cuda",
        "aoti_torch", "tensorexpr", "bundled", "mobile", "metal", "vulkan", "xnnpack", "prepacked", "load_library",
    }
)  # fmt: skip
_READS_AND_WRITES_FILES = re.compile(r"image|video\w*|torchaudio\w*|torio\w*|torchcodec\w*|\w*fsspec\w*|\w*_io|io")
_REFUSED_IN_ATEN = re.compile(
    r"from_file|_print|_?get_gradients|set|_copy_from.*|_?pin_memory|_make_dep_token|_debug.*|record_stream"
    r"|.*(_test_|nested|sparse|_backward|cudnn|cufft|cuda|miopen|mkldnn|fbgemm|vulkan|nnpack|quantized).*"
    r"|.*(4bit|_cslt|_dyn_quant|int4pack|int8pack|prepack|triton|jagged|_batch_dim|_dual|_fw_primal).*"
    # Strides, sizes and indices that nobody compares with the memory there is.
    r"|_reshape_alias.*|_resize_output|resize.*|_rowwise_prune|_sobol.*|_convert_indices.*|_coalesced?|_?indices|_?values"
    r"|_dim[IV]|_nnz|_foobar|_lazy_clone|_propagate_xla_data|_version"
)
_ARGUMENTS = re.compile(
    r"((Optional|List)\[)*(Tensor|int|float|bool|str|number|complex|SymInt|Device|Generator|Layout|ScalarType|MemoryFormat)\]*"
)


def check_call(target: Any, custom_ops: Collection[str] | None = None) -> None:
    """Raise unless a model may call this operator. Arithmetic on sizes is no operator and always allowed."""
    if not isinstance(target, torch._ops.OpOverload):
        return
    reason = _reason(target, custom_ops)
    if reason:
        raise BackendError(
            f"a model may not call {target}: {reason}",
            op=str(target),
            hint="docs/backend.md says which of PyTorch's operators a file may name, and how to allow more",
        )


def _reason(target: torch._ops.OpOverload[Any, Any], custom_ops: Collection[str] | None) -> str | None:
    namespace, _, name = target._schema.name.partition("::")
    if namespace not in _COMPUTING:
        reason = _custom(namespace, custom_ops)
        if reason:
            return reason
    if namespace == "aten" and _REFUSED_IN_ATEN.fullmatch(name):
        return "it is not one that computes on dense tensors alone and checks what it is given"
    if target._schema.is_mutable:
        return "it changes its arguments"
    for argument in target._schema.arguments:
        if not _ARGUMENTS.fullmatch(str(argument.type)):
            return f"its argument {argument.name} is a {argument.type}"
    return None


def _custom(namespace: str, custom_ops: Collection[str] | None) -> str | None:
    if custom_ops is not None:
        return None if namespace in custom_ops else f"custom_ops does not list {namespace!r}"
    if namespace in _PYTORCHS_OWN:
        return f"{namespace!r} is for PyTorch's own use"
    if _READS_AND_WRITES_FILES.fullmatch(namespace):
        return f"operators of {namespace!r} read or write files; list it in custom_ops if you trust the model"
    return None


def checked_custom_ops(custom_ops: Any) -> Collection[str] | None:
    """The caller's namespaces, or an error that says what is wrong with them."""
    if custom_ops is None:
        return None
    if isinstance(custom_ops, str) or not all(isinstance(each, str) for each in custom_ops):
        raise InputError("custom_ops is a collection of namespaces", hint='for instance custom_ops=["my_ops"]')
    return frozenset(custom_ops)


def check_results(results: Collection[Any]) -> None:
    """What flows on is dense: operators on other kinds of tensors are not expected to check for them."""
    for each in results:
        if isinstance(each, torch.Tensor) and (
            each.layout is not torch.strided or each.is_quantized or each.is_nested or each.device.type == "meta"
        ):
            raise BackendError("the operator gave a tensor that is not dense, or has no content")


# What PyTorch 2.13 does not check itself and then reads or writes beyond its memory.

_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def check_arguments(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise where sizes do not fit together and the kernel would not notice."""
    namespace, _, name = (
        target._schema.name.partition("::") if isinstance(target, torch._ops.OpOverload) else ("", "", "")
    )
    if namespace == "aten" and name in _GATES and target._schema.overload_name == "input":
        names = [argument.name for argument in target._schema.arguments]
        _check_recurrent(_GATES[name], **{**dict(zip(names, args, strict=False)), **kwargs})


def _check_recurrent(
    gates: int,
    input: Any,
    hx: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> None:
    states = hx if isinstance(hx, list) else [hx]
    directions = 2 if bidirectional else 1
    projected = gates == 4 and len(states) == 2 and states[0].shape[-1:] != states[1].shape[-1:]
    each = 2 + 2 * bool(has_biases) + projected
    if input.dim() != 3 or len(states) != (2 if gates == 4 else 1) or len(params) != num_layers * directions * each:
        raise ValueError("the input is of three axes, and weights and states are as many as layers and directions have")
    batch = input.shape[0 if batch_first else 1]
    width, hidden = states[0].shape[-1], states[-1].shape[-1]
    wanted = [[num_layers * directions, batch, width], [num_layers * directions, batch, hidden]][: len(states)]
    features = input.shape[2]
    for place in range(0, len(params), each):
        size = features if place < directions * each else width * directions
        wanted += [[gates * hidden, size], [gates * hidden, width]]
        wanted += [[gates * hidden]] * (2 if has_biases else 0) + ([[width, hidden]] if projected else [])
    for tensor, shape in zip([*states, *params], wanted, strict=True):
        if list(tensor.shape) != shape or tensor.dtype != input.dtype:
            raise ValueError(f"a weight or state of size {list(tensor.shape)} and {tensor.dtype} should be {shape}")


_SIZED_BY_VALUES = frozenset({"one_hot", "repeat_interleave", "bincount", "histogramdd", "histogram", "item"})


def sizes_follow_from_shapes(call: DecodedCall) -> bool:
    """Whether results of a call have the same sizes whenever its tensors have."""
    if any(isinstance(each, Given) and each.type is not torch.Tensor for each in tree_leaves((call.args, call.kwargs))):
        return False
    if not isinstance(call.target, torch._ops.OpOverload):
        return True
    name = call.target._schema.name.partition("::")[2]
    return torch.Tag.dynamic_output_shape not in call.target.tags and name not in _SIZED_BY_VALUES
