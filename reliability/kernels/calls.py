"""Calls of operators to start from: those of PyTorch's own database, and of operators that it does not contain."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import onward.lower.ops  # noqa: F401  (it fills the registry)
from onward.lower.registry import registry

aten = torch.ops.aten
Call = tuple[OpOverload, tuple[Any, ...], dict[str, Any]]
_SAMPLES = 30  # of an entry of the database
_PER_OPERATOR = 5  # calls of one operator that differ in the kinds of their arguments
_DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)


def below_autograd() -> Any:
    """The keys that onward leaves out, so that composite operators arrive whole."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
    for name in ("AutogradCPU", "AutogradMeta", "AutogradOther", "AutogradFunctionality"):
        keys = keys | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
    return torch._C._ExcludeDispatchKeyGuard(keys)


class Collected(TorchDispatchMode):
    """Notes every operator that is called, and the operators that it consists of."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[OpOverload, dict[Any, Call]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        known = self.calls.setdefault(func, {})
        key = _kinds((args, kwargs))
        if key not in known and len(known) < _PER_OPERATOR:
            known[key] = (func, *tree_map(_copied, (args, kwargs)))
            with self, contextlib.suppress(Exception):  # what it consists of is called as well
                func.decompose(*args, **kwargs)
        return func(*args, **kwargs)


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _kinds(value: Any) -> Any:
    """Ranks and types, by which calls of one operator are told apart."""
    if isinstance(value, torch.Tensor):
        return value.dim(), str(value.dtype), 0 in value.shape
    if isinstance(value, dict):
        return tuple((name, _kinds(each)) for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_kinds, value))
    return value if isinstance(value, (bool, str)) else type(value).__name__


def collect(names: list[str] | None = None) -> dict[OpOverload, list[Call]]:
    """Calls by operator; of some entries of the database only, if names are given."""
    found = Collected()
    for run in itertools.chain(_database(names), [] if names else _others()):
        with torch.no_grad(), below_autograd(), found, contextlib.suppress(Exception):  # a sample that PyTorch refuses
            run()
    calls = {op: list(calls.values()) for op, calls in found.calls.items() if isinstance(op, OpOverload)}
    return {**_plain_calls(), **calls}


def _plain_calls() -> dict[OpOverload, list[Call]]:
    """Calls of the operators that onward writes, made from their schemas; nobody has tried them."""
    made = {}
    for name in {key for each in vars(registry).values() if isinstance(each, dict) for key in each}:
        space, _, rest = name.partition("::") if isinstance(name, str) else ("", "", "")
        packet, _, overload = rest.partition(".")
        op = getattr(getattr(getattr(torch.ops, space, None), packet, None), overload, None) if rest else None
        if isinstance(op, OpOverload) and not op._schema.is_mutable:
            needed = [each for each in op._schema.arguments if not each.has_default_value()]
            args = tuple(_PLAIN.get(str(each.type)) for each in needed if not each.kwarg_only)
            if all(str(each.type) in _PLAIN for each in needed):
                made[op] = [(op, args, {each.name: _PLAIN[str(each.type)] for each in needed if each.kwarg_only})]
    return made


_PLAIN: dict[str, Any] = {
    "Tensor": torch.rand(3, 4), "List[Tensor]": [torch.rand(3, 4)] * 2, "int": 1, "float": 0.5, "bool": False,
    "number": 1, "List[int]": [1], "Optional[Tensor]": None, "Optional[int]": None, "Optional[float]": None,
}  # fmt: skip


def _database(names: list[str] | None) -> Iterator[Callable[[], Any]]:
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        if names and info.name not in names:
            continue
        for dtype in _DTYPES:
            if not info.supports_dtype(dtype, "cpu"):
                continue
            with contextlib.suppress(Exception):  # a sample that cannot be made here
                for sample in itertools.islice(info.sample_inputs("cpu", dtype), _SAMPLES):
                    yield lambda info=info, sample=sample: info.op(sample.input, *sample.args, **sample.kwargs)
            if dtype is torch.float32:
                break


def _others() -> Iterator[Callable[[], Any]]:
    """Operators that are not in the database: layers with state, cells, packed sequences, kernels of quantised ones."""
    torch.manual_seed(0)
    x, lengths = torch.randn(4, 2, 5), torch.tensor([4, 3])
    for kind, layers, two_ways, first in itertools.product(
        ("LSTM", "GRU", "RNN"), (1, 2), (False, True), (False, True)
    ):
        layer = getattr(torch.nn, kind)(5, 3, layers, bidirectional=two_ways, batch_first=first).eval()
        h = torch.zeros(layers * (1 + two_ways), 4 if first else 2, 3)
        state = (h, h.clone()) if kind == "LSTM" else h
        yield lambda layer=layer, state=state: layer(x, state)
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
        yield lambda layer=layer, packed=packed: layer(packed)
    with_relu, projected = torch.nn.RNN(5, 3, nonlinearity="relu").eval(), torch.nn.LSTM(5, 4, proj_size=3).eval()
    yield lambda: with_relu(x, torch.zeros(1, 2, 3))
    yield lambda: projected(x, (torch.zeros(1, 2, 3), torch.zeros(1, 2, 4)))
    for cell in (torch.nn.LSTMCell(5, 3), torch.nn.GRUCell(5, 3), torch.nn.RNNCell(5, 3)):
        h = torch.zeros(2, 3)
        yield lambda cell=cell, h=h: cell(x[0], (h, h.clone()) if isinstance(cell, torch.nn.LSTMCell) else h)
    yield lambda: torch.rnn_relu_cell(x[0], torch.zeros(2, 3), torch.randn(3, 5), torch.randn(3, 3))
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
    yield lambda: aten._pack_padded_sequence(x, lengths, False)
    yield lambda: aten._pad_packed_sequence(packed.data, packed.batch_sizes, False, 0.0, 4)
    yield lambda: torch.nn.utils.rnn.pad_sequence([torch.randn(3, 2), torch.randn(5, 2)])
    yield from _norms()
    yield from _embeddings()
    yield from _memory()
    yield from _quantised()


def _norms() -> Iterator[Callable[[], Any]]:
    x, of = torch.randn(2, 6, 4, 4), torch.ones(6)
    for train in (False, True):
        yield lambda t=train: aten.native_batch_norm(x, of, of, of.clone(), of.clone(), t, 0.1, 1e-5)
        yield lambda t=train: aten.batch_norm(x, of, of, of.clone(), of.clone(), t, 0.1, 1e-5, False)
        yield lambda t=train: aten.instance_norm(x, of, of, of.clone(), of.clone(), t, 0.1, 1e-5, False)
    yield lambda: aten._native_batch_norm_legit_no_training(x, of, of, of, of, 0.1, 1e-5)
    yield lambda: aten._native_batch_norm_legit.no_stats(x, of, of, True, 0.1, 1e-5)
    yield lambda: aten._native_batch_norm_legit_functional(x, of, of, of, of, True, 0.1, 1e-5)
    yield lambda: aten._batch_norm_impl_index(x, of, of, of, of, False, 0.1, 1e-5, False)
    yield lambda: aten._batch_norm_no_update(x, of, of, of, of, 0.1, 1e-5)
    yield lambda: aten.batch_norm_update_stats(x, of, of, 0.1)
    yield lambda: aten.native_group_norm(x, of, of, 2, 6, 16, 3, 1e-5)
    yield lambda: aten.group_norm(x, 3, of, of)
    yield lambda: aten.native_layer_norm(x, [4], torch.ones(4), torch.ones(4), 1e-5)
    yield lambda: aten._fused_rms_norm(x, [4], torch.ones(4), 1e-5)


def _embeddings() -> Iterator[Callable[[], Any]]:
    table, ids, offsets = torch.randn(7, 3), torch.tensor([1, 2, 4, 5, 4]), torch.tensor([0, 2])
    weights = torch.randn(5)
    for mode in range(3):
        yield lambda m=mode: aten.embedding_bag(table, ids, offsets, False, m, False, None, False)
        yield lambda m=mode: aten._embedding_bag(table, ids, offsets, False, m, False, None, True)
        yield lambda m=mode: aten._embedding_bag_forward_only(table, ids, offsets, False, m)
    yield lambda: aten.embedding_bag(table, ids, offsets, False, 0, False, weights, False)
    yield lambda: aten._embedding_bag(table, ids, offsets, False, 0, False, weights, False, -1)
    yield lambda: aten.embedding_renorm_(table.clone(), ids, 1.0, 2.0)
    log, targets = torch.randn(6, 2, 5).log_softmax(-1), torch.tensor([[1, 2], [3, 1]])
    yield lambda: aten.ctc_loss.IntList(log, targets, [6, 5], [2, 1])
    yield lambda: aten.ctc_loss.Tensor(log, targets, torch.tensor([6, 5]), torch.tensor([2, 1]))
    yield lambda: aten._ctc_loss(log, targets, [6, 5], [2, 1])
    yield lambda: aten._ctc_loss.Tensor(log, targets, torch.tensor([6, 5]), torch.tensor([2, 1]))
    for rank in (2, 3):
        picture, grid = torch.randn(2, 3, *[4] * rank), torch.rand(2, *[5] * rank, rank)
        grid_op = aten.grid_sampler_2d if rank == 2 else aten.grid_sampler_3d
        yield lambda p=picture, g=grid: aten.grid_sampler(p, g, 0, 0, False)
        yield lambda p=picture, g=grid, op=grid_op: op(p, g, 0, 0, False)
    yield lambda: aten._grid_sampler_2d_cpu_fallback(torch.randn(2, 3, 4, 4), torch.rand(2, 5, 5, 2), 0, 0, False)
    yield lambda: aten.affine_grid_generator(torch.randn(2, 2, 3), [2, 3, 4, 4], False)
    q, k = torch.randn(2, 2, 4, 8), torch.randn(2, 2, 6, 8)
    yield lambda: aten._scaled_dot_product_flash_attention_for_cpu(q, k, k.clone())
    yield lambda: aten._scaled_dot_product_attention_math(q, k, k.clone())
    yield lambda: aten._transformer_encoder_layer_fwd(
        torch.randn(2, 4, 8), 8, 2, torch.randn(24, 8), torch.randn(24), torch.randn(8, 8), torch.randn(8), False,
        False, 1e-5, torch.ones(8), torch.ones(8), torch.ones(8), torch.ones(8), torch.randn(16, 8), torch.randn(16),
        torch.randn(8, 16), torch.randn(8),
    )  # fmt: skip
    yield lambda: aten._native_multi_head_attention(
        torch.randn(2, 4, 8), torch.randn(2, 4, 8), torch.randn(2, 4, 8), 8, 2, torch.randn(24, 8), torch.randn(24),
        torch.randn(8, 8), torch.randn(8),
    )  # fmt: skip


def _memory() -> Iterator[Callable[[], Any]]:
    x, index = torch.randn(4, 3), torch.tensor([[0, 1, 2], [2, 0, 0]])
    yield lambda: aten.as_strided(x, [2, 2], [1, 2], 1)
    yield lambda: aten.as_strided_scatter(x, torch.zeros(2, 2), [2, 2], [1, 2], 1)
    yield lambda: aten.as_strided_copy(x, [2, 2], [1, 2], 1)
    yield lambda: aten.resize_(x.clone(), [2, 3])
    yield lambda: aten.set_.source_Tensor(x.clone(), torch.zeros(2))
    yield lambda: aten.gather(x, 0, index)
    yield lambda: aten.scatter.src(x, 0, index, torch.ones(2, 3))
    yield lambda: aten.scatter_add(x, 0, index, torch.ones(2, 3))
    yield lambda: aten.scatter_reduce.two(x, 0, index, torch.ones(2, 3), "sum")
    yield lambda: aten.index_put(x, [index[0]], torch.ones(3, 3), True)
    yield lambda: aten._unsafe_index.Tensor(x, [index[0]])
    yield lambda: aten._unsafe_index_put(x, [index[0]], torch.ones(3, 3))
    yield lambda: aten._unsafe_masked_index(x, x > 0, [index[0], index[1]], 0)
    yield lambda: aten._unsafe_view(x, [3, 4])
    yield lambda: aten.max_unpool2d(torch.ones(1, 1, 2, 2), torch.tensor([[[[0, 3], [8, 11]]]]), [4, 4])
    yield lambda: aten.max_unpool3d(
        torch.ones(1, 1, 1, 2, 2), torch.tensor([[[[[0, 3], [8, 11]]]]]), [2, 4, 4], [1] * 3, [0] * 3
    )
    yield lambda: aten.fractional_max_pool2d(torch.randn(1, 2, 6, 6), [2, 2], [3, 3], torch.rand(1, 2, 2))
    yield lambda: aten.fractional_max_pool3d(torch.randn(1, 2, 6, 6, 6), [2] * 3, [3] * 3, torch.rand(1, 2, 3))
    yield lambda: aten.segment_reduce(torch.randn(6, 2), "sum", lengths=torch.tensor([2, 4]), axis=0, unsafe=True)
    yield lambda: aten.segment_reduce(torch.randn(6, 2), "max", lengths=torch.tensor([2, 4]), axis=0)
    yield lambda: aten.bincount(index[0], torch.ones(3))
    yield lambda: aten.searchsorted.Tensor(x.sort().values, x, sorter=x.argsort())
    yield lambda: aten.nll_loss2d(torch.randn(2, 3, 4, 4), torch.zeros(2, 4, 4, dtype=torch.int64), torch.ones(3))
    yield lambda: aten.multi_margin_loss(torch.randn(2, 3), torch.tensor([0, 2]), 1, 1.0, torch.ones(3))
    yield lambda: aten.multilabel_margin_loss(torch.randn(2, 3), torch.tensor([[0, 2, -1], [1, -1, 0]]))
    yield lambda: aten.im2col(torch.randn(1, 2, 5, 5), [2, 2], [1, 1], [0, 0], [1, 1])
    yield lambda: aten.col2im(torch.randn(1, 8, 16), [5, 5], [2, 2], [1, 1], [0, 0], [1, 1])
    yield lambda: aten._weight_norm(torch.randn(3, 2), torch.randn(3, 1), 0)
    yield lambda: aten._weight_norm_interface(torch.randn(3, 2), torch.randn(3, 1), 0)
    yield lambda: aten._cdist_forward(torch.randn(3, 2), torch.randn(4, 2), 2.0, None)
    yield lambda: aten._trilinear(torch.randn(2, 3), torch.randn(2, 3), torch.randn(2, 3), [], [], [], [1])
    yield lambda: torch.nn.functional.fold(torch.randn(1, 8, 16), (5, 5), (2, 2))
    yield lambda: torch.ops.aten.histc(x, 5, -1, 1)
    yield lambda: aten.lu_unpack(*torch.linalg.lu_factor(torch.randn(3, 3)))
    yield lambda: aten.linalg_lu_solve(*torch.linalg.lu_factor(torch.randn(3, 3)), torch.randn(3, 2))
    yield lambda: aten.ormqr(*torch.geqrf(torch.randn(4, 3)), torch.randn(4, 2))
    yield lambda: aten.linalg_householder_product(*torch.geqrf(torch.randn(4, 3)))
    yield lambda: aten.linalg_ldl_solve(*torch.linalg.ldl_factor(torch.eye(3)), torch.randn(3, 2))
    yield lambda: aten.cholesky_solve(torch.randn(3, 2), torch.eye(3))


def _quantised() -> Iterator[Callable[[], Any]]:
    x = torch.randn(4, 5)
    scale, zero = torch.tensor([0.1] * 4), torch.tensor([0] * 4)
    yield lambda: aten.quantize_per_channel(x, scale, zero, 0, torch.quint8)
    yield lambda: aten.fake_quantize_per_channel_affine(x, scale, zero.int(), 0, 0, 255)
    yield lambda: aten.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)
    yield lambda: aten._fake_quantize_learnable_per_channel_affine(x, scale, zero.float(), 0, 0, 255)
    yield lambda: aten._int_mm(torch.ones(17, 8, dtype=torch.int8), torch.ones(8, 16, dtype=torch.int8))
    yield lambda: aten._weight_int8pack_mm(x, torch.ones(3, 5, dtype=torch.int8), torch.ones(3))
    yield lambda: aten.mkldnn_linear(x.to_mkldnn(), torch.randn(3, 5).to_mkldnn())
    yield lambda: aten.mkldnn_convolution(
        torch.randn(1, 3, 5, 5), torch.randn(4, 3, 3, 3), None, [0, 0], [1, 1], [1, 1], 1
    )
    yield lambda: torch.ops.mkldnn._linear_pointwise(x, torch.randn(3, 5), None, "none", [], "")
    yield lambda: torch.ops.mkldnn._convolution_pointwise(
        torch.randn(1, 3, 5, 5), torch.randn(4, 3, 3, 3), None, [0, 0], [1, 1], [1, 1], 1, "none", [], ""
    )
    yield lambda: aten._nnpack_spatial_convolution(torch.randn(1, 3, 5, 5), torch.randn(4, 3, 3, 3), None, [0, 0])
    yield lambda: aten.slow_conv3d(torch.randn(1, 3, 5, 5, 5), torch.randn(4, 3, 3, 3, 3), [3, 3, 3])
    yield lambda: aten.conv_depthwise3d(
        torch.randn(1, 3, 5, 5, 5), torch.randn(3, 1, 3, 3, 3), [3] * 3, None, [1] * 3, [0] * 3, [1] * 3
    )
    yield lambda: aten.slow_conv_transpose2d(torch.randn(1, 3, 5, 5), torch.randn(3, 4, 3, 3), [3, 3])
    yield lambda: aten.slow_conv_dilated2d(torch.randn(1, 3, 7, 7), torch.randn(4, 3, 3, 3), [3, 3], None, 1, 0, 2)
    yield lambda: aten.thnn_conv2d(torch.randn(1, 3, 5, 5), torch.randn(4, 3, 3, 3), [3, 3])
    yield lambda: aten._unique(x)
    one = torch.tensor(1.0)
    yield lambda: aten.fake_quantize_per_tensor_affine.tensor_qparams(x, one, torch.tensor(0), 0, 255)
    yield lambda: aten.conv_tbc(torch.randn(5, 2, 3), torch.randn(3, 3, 4), torch.randn(4))
    yield lambda: aten._convolution(
        torch.randn(1, 3, 5, 5), torch.randn(4, 3, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False,
        False, False,
    )  # fmt: skip
    yield from _packed()


def _packed() -> Iterator[Callable[[], Any]]:
    """Kernels on quantised tensors and on weights in a layout of their own."""
    x = torch.quantize_per_tensor(torch.rand(4, 5), 0.1, 0, torch.quint8)
    picture = torch.quantize_per_tensor(torch.rand(1, 3, 5, 5), 0.1, 0, torch.quint8)
    matrix = torch.quantize_per_tensor(torch.randn(3, 5), 0.1, 0, torch.qint8)
    window = torch.quantize_per_tensor(torch.randn(4, 3, 3, 3), 0.1, 0, torch.qint8)
    quantized = torch.ops.quantized
    yield lambda: aten.dequantize.self(x)
    yield lambda: aten.int_repr(x)
    yield lambda: aten.quantize_per_tensor(torch.rand(4, 5), 0.1, 0, torch.quint8)
    yield lambda: quantized.add(x, x, 0.1, 0)
    yield lambda: quantized.mul(x, x, 0.1, 0)
    yield lambda: quantized.cat([x, x], 0, 0.1, 0)
    yield lambda: quantized.batch_norm2d(
        picture, torch.ones(3), torch.ones(3), torch.ones(3), torch.ones(3), 1e-5, 0.1, 0
    )
    yield lambda: quantized.layer_norm(x, [5], torch.ones(5), torch.ones(5), 1e-5, 0.1, 0)
    yield lambda: quantized.group_norm(picture, 3, torch.ones(3), torch.ones(3), 1e-5, 0.1, 0)
    yield lambda: quantized.instance_norm(picture, torch.ones(3), torch.ones(3), 1e-5, 0.1, 0)
    yield lambda: quantized.linear(x, quantized.linear_prepack(matrix, torch.randn(3)), 0.1, 0)
    yield lambda: quantized.linear_dynamic(torch.rand(4, 5), quantized.linear_prepack(matrix, torch.randn(3)))
    packed = quantized.conv2d_prepack(window, torch.randn(4), [1, 1], [0, 0], [1, 1], 1)
    yield lambda: quantized.conv2d.new(picture, packed, 0.1, 0)
    yield lambda: quantized.embedding_bag_byte(
        quantized.embedding_bag_byte_prepack(torch.randn(7, 8)), torch.tensor([1, 2, 4]), torch.tensor([0, 2])
    )
    for kind in (torch.ao.nn.quantized.dynamic.LSTM, torch.ao.nn.quantized.dynamic.GRU):
        h = torch.zeros(1, 2, 3)
        layer = kind(5, 3)
        yield lambda layer=layer, h=h: layer(
            torch.randn(4, 2, 5), (h, h.clone()) if isinstance(layer, torch.ao.nn.quantized.dynamic.LSTM) else h
        )
