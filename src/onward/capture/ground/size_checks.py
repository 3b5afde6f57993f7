"""Sizes that fit, for kernels that do not check them.

Some kernels of PyTorch take the sizes of their arguments on trust, because a layer in Python has checked them before.
Given sizes that do not fit, they read and write past the end of memory: `aten.lstm.input` even on tensors without data.
`python -m reliability.kernels` finds them. Each has its check here, which is made before the kernel is called with
sizes that nobody else has checked: at a probe, at an example that was made larger, in a program that is run again.

A check is given the arguments by their names in the schema, tensors or layouts; both have a `shape`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from ...tables import registrar

aten = torch.ops.aten
Check = Callable[[SimpleNamespace], None]
_CHECKS: dict[OpOverload, Check] = {}
_check = registrar(_CHECKS)


class SizesDoNotFit(ValueError):
    """The arguments of an operator have sizes that do not go together."""


def is_checked(op: OpOverload) -> bool:
    """Whether there is a check for an operator."""
    return op in _CHECKS


def check_sizes(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise SizesDoNotFit where an operator's kernel would not notice by itself."""
    check = _CHECKS.get(op)
    if check is not None:
        names, defaults = _arguments(op)
        check(SimpleNamespace(**{**defaults, **dict(zip(names, args, strict=False)), **kwargs}))


class Checked(TorchDispatchMode):
    """Inside, every operator's sizes are checked before it runs: for code of others at sizes that are made up."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        check_sizes(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No guard against torch.compile around this handler: it would import the compiler, seconds of it."""
        return False


@functools.cache
def _arguments(op: OpOverload) -> tuple[list[str], dict[str, Any]]:
    arguments = op._schema.arguments
    return [each.name for each in arguments], {each.name: each.default_value for each in arguments}


def _refuse(text: str) -> NoReturn:
    raise SizesDoNotFit(text)


def _expect(name: str, tensor: Any, wanted: Sequence[int]) -> None:
    if tensor is not None and tuple(tensor.shape) != tuple(wanted):
        _refuse(f"{name} has the size {_text(tensor.shape)}, and {_text(wanted)} is expected")


def _text(size: Sequence[int]) -> str:
    return "x".join(map(str, size)) or "of a single number"


# Recurrent layers

_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def _kind(op: OpOverload) -> str:
    return op._schema.name.split("::")[1]


def _recurrent(kind: str, of: SimpleNamespace) -> None:
    """lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout,
    bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)"""
    if len(of.input.shape) != 3:
        _refuse(f"the input has {len(of.input.shape)} axes, and 3 are expected")
    batch = of.input.shape[0 if of.batch_first else 1]
    _states(kind, of, batch, "the input's batch is")
    _weights(kind, of, of.input.shape[2])


def _packed(kind: str, of: SimpleNamespace) -> None:
    """lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers,
    float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)"""
    if not isinstance(of.batch_sizes, torch.Tensor) or of.batch_sizes.is_meta:
        _refuse("the sizes of the batches are data, and there is none")
    batches = of.batch_sizes.tolist()
    if len(of.data.shape) != 2 or not batches or sum(batches) != of.data.shape[0] or min(batches) < 1:
        _refuse(f"the data has the size {_text(of.data.shape)}, and the batches have {batches}")
    if batches != sorted(batches, reverse=True):
        _refuse(f"the sizes of the batches grow: {batches}")
    _states(kind, of, batches[0], "the largest batch is")
    _weights(kind, of, of.data.shape[1])


def _states(kind: str, of: SimpleNamespace, batch: int, found: str) -> None:
    states = list(of.hx) if isinstance(of.hx, (list, tuple)) and not hasattr(of.hx, "shape") else [of.hx]
    if len(states) != (2 if kind == "lstm" else 1):
        _refuse(f"there are {len(states)} states")
    count = of.num_layers * (2 if of.bidirectional else 1)
    for name, state, width in zip(("h_0", "c_0"), states, _widths(kind, of), strict=False):
        if len(state.shape) == 3 and state.shape[1] != batch:
            _refuse(f"{found} {batch}, and that of the state {name} is {state.shape[1]}")
        _expect(f"the state {name}", state, (count, batch, width))


def _groups(of: SimpleNamespace) -> list[list[Any]]:
    """The weights of each layer and direction."""
    count = of.num_layers * (2 if of.bidirectional else 1)
    size = len(of.params) // count if count > 0 else 0
    allowed = (4, 5) if of.has_biases else (2, 3)
    if size not in allowed or size * count != len(of.params):
        _refuse(f"{len(of.params)} weights do not make {count} layers and directions")
    return [list(of.params[place : place + size]) for place in range(0, len(of.params), size)]


def _widths(kind: str, of: SimpleNamespace) -> tuple[int, int]:
    """The widths of a layer's output and of its cell."""
    first = _groups(of)[0]
    if any(len(each.shape) != 2 for each in first[:2]):
        _refuse("a weight of the layer is no matrix")
    return first[1].shape[1], first[1].shape[0] // _GATES[kind]


def _weights(kind: str, of: SimpleNamespace, features: int) -> None:
    gates, (width, cell) = _GATES[kind], _widths(kind, of)
    directions = 2 if of.bidirectional else 1
    projected = len(_groups(of)[0]) in (3, 5)
    if not projected and width != cell:
        _refuse(f"the weights are for a state of {width} and for one of {cell}")
    for place, group in enumerate(_groups(of)):
        taken = features if place < directions else width * directions
        name = f"layer {place // directions}"
        _expect(f"the weight of the input of {name}", group[0], (gates * cell, taken))
        _expect(f"the weight of the state of {name}", group[1], (gates * cell, width))
        for bias in group[2:4] if of.has_biases else ():
            _expect(f"a bias of {name}", bias, (gates * cell,))
        if projected:
            _expect(f"the projection of {name}", group[-1], (width, cell))


for _op in (aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input):
    _check(_op)(functools.partial(_recurrent, _kind(_op)))
for _op in (aten.lstm.data, aten.gru.data, aten.rnn_tanh.data, aten.rnn_relu.data):
    _check(_op)(functools.partial(_packed, _kind(_op)))


@_check(aten.mkldnn_rnn_layer.default)
def _mkldnn(of: SimpleNamespace) -> None:
    """mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor weight3, Tensor hx_,
    Tensor cx_, bool reverse, int[] batch_sizes, int mode, int hidden_size, int num_layers, bool has_biases,
    bool bidirectional, bool batch_first, bool train) -> (Tensor, Tensor, Tensor, Tensor)"""
    if len(of.input.shape) != 3 or 0 in of.input.shape or of.mode not in (2, 3) or of.num_layers != 1:
        _refuse(f"an input of the size {_text(of.input.shape)}, with {of.num_layers} layers in mode {of.mode}")
    if of.batch_sizes or of.batch_first or of.bidirectional:
        _refuse("sequences of different lengths, a batch that comes first, or two directions")
    gates, width = (4, of.hidden_size) if of.mode == 2 else (3, of.hidden_size)
    _expect("the weight of the input", of.weight0, (gates * width, of.input.shape[2]))
    _expect("the weight of the state", of.weight1, (gates * width, width))
    for bias in (of.weight2, of.weight3) if of.has_biases else ():
        _expect("a bias", bias, (gates * width,) if of.mode == 2 or bias is of.weight3 else (4 * width,))
    for state in (of.hx_, of.cx_) if of.mode == 2 else (of.hx_,):
        if tuple(state.shape[-2:]) != (of.input.shape[1], width) or any(size != 1 for size in state.shape[:-2]):
            _refuse(f"a state has the size {_text(state.shape)}, and {of.input.shape[1]}x{width} is expected")


# Normalization


@_check(
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit_no_training.default,
    aten._batch_norm_no_update.default,
    aten._batch_norm_with_update.default,
    aten._batch_norm_with_update_functional.default,
    aten.batch_norm_update_stats.default,
)
def _batch_norm(of: SimpleNamespace) -> None:
    """native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
    bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor), and the like"""
    if len(of.input.shape) < 2:
        _refuse(f"the input has {len(of.input.shape)} axes, and 2 are the least")
    for name in ("weight", "bias", "running_mean", "running_var"):
        _expect(name, getattr(of, name, None), of.input.shape[1:2])


@_check(aten._weight_norm.default, aten._weight_norm_interface.default)
def _weight_norm(of: SimpleNamespace) -> None:
    """_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor"""
    if 0 in of.v.shape:
        _refuse("the weight is empty")
    if of.dim == -1:
        _expect("g", of.g, of.g.shape if all(size == 1 for size in of.g.shape) else ())
        return
    kept = of.dim % max(len(of.v.shape), 1)
    _expect("g", of.g, [size if axis == kept else 1 for axis, size in enumerate(of.v.shape)])


# Attention


@_check(aten.scaled_dot_product_attention.default)
def _attention(of: SimpleNamespace) -> None:
    """scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float
    dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor"""
    if min(len(of.query.shape), len(of.key.shape), len(of.value.shape)) < 2:
        _refuse("query, key and value have 2 axes at least")
    if of.key.shape[-2] != of.value.shape[-2]:
        _refuse(f"there are {of.key.shape[-2]} keys and {of.value.shape[-2]} values")
    if of.query.shape[-1] != of.key.shape[-1]:
        _refuse(f"queries have the size {of.query.shape[-1]} and keys {of.key.shape[-1]}")


@_check(aten._scaled_dot_product_flash_attention_for_cpu.default)
def _flash_attention(of: SimpleNamespace) -> None:
    """_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0,
    bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)"""
    query, key = tuple(of.query.shape), tuple(of.key.shape)
    if len(query) != 4 or 0 in query or 0 in key:
        _refuse(f"queries have the size {_text(query)}")
    _expect("value", of.value, key)
    _expect("key", of.key, (*query[:2], key[-2], query[3]))
    if of.attn_mask is not None:
        scores = (*query[:3], key[-2])
        mask = tuple(of.attn_mask.shape)
        if len(mask) not in (2, 4) or any(size not in (1, scores[-axis]) for axis, size in enumerate(mask[::-1], 1)):
            _refuse(f"the mask has the size {_text(mask)}, and the scores have {_text(scores)}")


@_check(aten._native_multi_head_attention.default, aten._transformer_encoder_layer_fwd.default)
def _heads(of: SimpleNamespace) -> None:
    """Both have `embed_dim` and `num_heads` or `num_head`, and divide by it."""
    if getattr(of, "num_heads", None) == 0 or getattr(of, "num_head", None) == 0:
        _refuse("there are 0 heads")


# Indices and matrices


@_check(aten.ctc_loss.IntList, aten.ctc_loss.Tensor, aten._ctc_loss.default, aten._ctc_loss.Tensor)
def _ctc_loss(of: SimpleNamespace) -> None:
    """ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, ...)
    -> Tensor"""
    classes = of.log_probs.shape[-1] if of.log_probs.shape else 0
    if not 0 <= of.blank < classes:
        _refuse(f"there are {classes} classes, and the blank is number {of.blank}")
    targets = of.targets
    if not isinstance(targets, torch.Tensor) or targets.is_meta or not targets.numel():
        return
    if int(targets.max()) >= classes or int(targets.min()) < 0:
        _refuse(f"there are {classes} classes, and the targets go from {targets.min()} to {targets.max()}")


@_check(aten.embedding_bag.default, aten.embedding_bag.padding_idx, aten._embedding_bag.default)
def _embedding_bag(of: SimpleNamespace) -> None:
    """embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0,
    bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, ...)"""
    if 0 in of.offsets.shape:
        _refuse("there are no offsets")


_check(aten._embedding_bag_forward_only.default)(_embedding_bag)


@_check(aten.lu_unpack.default)
def _lu_unpack(of: SimpleNamespace) -> None:
    """lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)
    -> (Tensor P, Tensor L, Tensor U)"""
    size = tuple(of.LU_data.shape)
    if len(size) < 2:
        _refuse(f"a matrix has 2 axes, and this one has {len(size)}")
    _expect("the pivots", of.LU_pivots, (*size[:-2], min(size[-2:])))


@_check(aten.linalg_lstsq.default)
def _lstsq(of: SimpleNamespace) -> None:
    """linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> ..."""
    if 0 in of.b.shape:
        _refuse(f"the right side is empty: {_text(of.b.shape)}")


@_check(aten._fft_c2c.default, aten._fft_c2r.default, aten._fft_r2c.default)
def _transform(of: SimpleNamespace) -> None:
    """_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor"""
    rank = len(of.self.shape)
    if any(not 0 <= axis < rank for axis in of.dim):
        _refuse(f"there are {rank} axes, and {list(of.dim)} are asked for")


@_check(aten.slow_conv3d.default, aten.slow_conv3d_forward.default, aten.slow_conv_transpose2d.default)
def _window(of: SimpleNamespace) -> None:
    """slow_conv3d(Tensor self, Tensor weight, int[3] kernel_size, Tensor? bias=None, ...) -> Tensor"""
    wanted = list(of.kernel_size) * (1 if len(of.kernel_size) > 1 else len(of.weight.shape) - 2)
    if list(of.weight.shape[2:]) != wanted:
        _refuse(f"the kernel has the size {_text(of.weight.shape[2:])}, and {_text(wanted)} is expected")
