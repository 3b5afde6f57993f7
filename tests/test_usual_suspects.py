"""What users of other exporters name first when they are asked what does not export: each as a small row, verified.

`tests/lower` has every operator at every opset; here are the calls as people write them, with axes that vary.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import onward
from tests.opsets import DEFAULT, NEWEST

Row = tuple[str, Callable[..., Any], tuple[torch.Tensor, ...], dict[str, dict[int, str]]]
_ROWS: list[Row] = []


def row(name: str, function: Callable[..., Any], *args: torch.Tensor, **axes: dict[int, str]) -> None:
    """A model, its inputs `a`, `b`, `c` ..., and their dynamic axes."""
    _ROWS.append((name, function, args, axes))


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def rand(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)))


def below(limit: int, *shape: int) -> torch.Tensor:
    return torch.randint(limit, shape, generator=torch.Generator().manual_seed(sum(shape)))


def layer(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return module.eval()


# Attention
attend = F.scaled_dot_product_attention
row("attention with a mask", lambda q, m: attend(q, q, q, attn_mask=m), randn(2, 4, 5, 8), rand(2, 1, 5, 5) > 0.3,
    a={0: "batch"}, b={0: "batch"})  # fmt: skip
row("causal attention", lambda q: attend(q, q, q, is_causal=True), randn(2, 4, 5, 8), a={0: "batch", 2: "length"})
row("grouped heads and a scale", lambda q, k: attend(q, k, k, enable_gqa=True, scale=0.3), randn(2, 4, 5, 8),
    randn(2, 2, 6, 8), a={0: "batch", 2: "length"}, b={0: "batch", 2: "past"})  # fmt: skip
_mha = layer(nn.MultiheadAttention(16, 4, batch_first=True))
row("MultiheadAttention", lambda x: _mha(x, x, x), randn(2, 5, 16), a={0: "batch", 1: "length"})
row("MultiheadAttention without weights", lambda x: _mha(x, x, x, need_weights=False)[0], randn(2, 5, 16),
    a={0: "batch", 1: "length"})  # fmt: skip
_odd = layer(nn.MultiheadAttention(16, 4, kdim=8, vdim=12, add_bias_kv=True, add_zero_attn=True))
row("MultiheadAttention with everything", lambda q, k, v: _odd(q, k, v), randn(5, 2, 16), randn(6, 2, 8),
    randn(6, 2, 12), a={1: "batch"}, b={1: "batch"}, c={1: "batch"})  # fmt: skip
row("Transformer", layer(nn.Transformer(16, 2, 1, 1, 32, batch_first=True)), randn(2, 5, 16), randn(2, 6, 16),
    a={0: "batch", 1: "source"}, b={0: "batch", 1: "target"})  # fmt: skip
_encoder = layer(nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2))
row("TransformerEncoder", _encoder, randn(2, 5, 16), a={0: "batch", 1: "length"})
row("TransformerEncoder with padding", lambda x, m: _encoder(x, src_key_padding_mask=m), randn(2, 5, 16),
    torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).bool(),
    a={0: "batch", 1: "length"}, b={0: "batch", 1: "length"})  # fmt: skip

# Pictures
for _mode, _padding, _align in itertools.product(
    ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (True, False)
):
    row(f"grid_sample {_mode} {_padding} {_align}",
        lambda x, g, how=(_mode, _padding, _align): F.grid_sample(x, g, *how),
        randn(1, 2, 5, 6), rand(1, 3, 4, 2) * 2.4 - 1.2, a={2: "height"}, b={1: "rows"})  # fmt: skip
row("grid_sample of volumes", lambda x, g: F.grid_sample(x, g, align_corners=False), randn(1, 2, 5, 6, 4),
    rand(1, 3, 4, 2, 3) * 2 - 1)  # fmt: skip
for _align in (True, False):
    row(f"affine_grid {_align}", lambda t, x, c=_align: F.grid_sample(x, F.affine_grid(t, x.shape, c), align_corners=c),
        randn(2, 2, 3), randn(2, 3, 8, 9), a={0: "batch"}, b={0: "batch", 2: "height", 3: "width"})  # fmt: skip
    row(f"affine_grid of volumes {_align}", lambda t, c=_align: F.affine_grid(t, [2, 3, 4, 5, 6], c), randn(2, 3, 4))
_RESIZES = [(mode, False, None) for mode in ("nearest", "nearest-exact", "area")] + [
    (mode, antialias, align)
    for mode, antialias, align in itertools.product(("bilinear", "bicubic"), (False, True), (False, True))
]
for _mode, _antialias, _align in _RESIZES:
    _how: dict[str, Any] = {"mode": _mode, "antialias": _antialias, "align_corners": _align}
    row(f"interpolate {_mode} {_antialias} {_align} to a size",
        lambda x, how=_how: F.interpolate(x, size=(7, 11), **how),
        randn(1, 2, 5, 6), a={0: "batch", 2: "height", 3: "width"})  # fmt: skip
    # PyTorch 2.13 resizes columns of width 1 wrongly with antialias, see docs/known-defects.md.
    _axes = {0: "batch", 2: "height"} if _antialias else {0: "batch", 2: "height", 3: "width"}
    row(f"interpolate {_mode} {_antialias} {_align} by a factor",
        lambda x, how=_how: F.interpolate(x, scale_factor=(1.7, 0.6), **how),
        randn(1, 2, 5, 6), a=_axes)  # fmt: skip
row("interpolate volumes", lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), randn(1, 2, 4, 5, 6),
    a={2: "depth"})  # fmt: skip
row("interpolate lines", lambda x: F.interpolate(x, scale_factor=2, mode="linear"), randn(1, 2, 4), a={2: "length"})
row("unfold", lambda x: F.unfold(x, 3, padding=1, stride=2), randn(2, 3, 8, 9), a={0: "batch", 2: "height", 3: "width"})
row("fold", lambda x: F.fold(x, (8, 9), 3, padding=1), randn(2, 27, 72), a={0: "batch"})

# Moving, counting, finding
row("Tensor.unfold", lambda x: x.unfold(1, 3, 2), randn(2, 9), a={1: "length"})
row("roll", lambda x: x.roll((1, -2), (0, 1)), randn(4, 5), a={0: "rows", 1: "columns"})
row("running results", lambda x: (x.cumsum(1), x.cumprod(1), x.logcumsumexp(1), x.cummax(1), x.cummin(0)), randn(4, 5),
    a={0: "rows", 1: "columns"})  # fmt: skip
for _reduce in ("sum", "prod", "mean", "amax", "amin"):
    row(f"scatter_reduce {_reduce}", lambda x, i, s, how=_reduce: x.scatter_reduce(0, i, s, how, include_self=False),
        randn(5, 3), below(5, 4, 3), randn(4, 3), b={0: "count"}, c={0: "count"})  # fmt: skip
row("index_add", lambda x, i, s: x.index_add(0, i, s), randn(5, 3), below(5, 4), randn(4, 3), b={0: "n"}, c={0: "n"})
row("index_put", lambda x, i, s: x.index_put((i,), s, accumulate=True), randn(5, 3), below(5, 4), randn(4, 3),
    b={0: "n"}, c={0: "n"})  # fmt: skip
row("searchsorted and bucketize",
    lambda e, v: (torch.searchsorted(e, v), torch.searchsorted(e, v, right=True), torch.bucketize(v, e[0])),
    randn(2, 7).sort(1).values, randn(2, 4), b={1: "count"})  # fmt: skip
row("topk, sort, kthvalue, median",
    lambda x: (x.topk(3), x.sort(stable=True, descending=True), x.kthvalue(2), x.median(1)),
    randn(4, 9), a={0: "rows", 1: "columns"})  # fmt: skip
row("einsum in full",
    lambda x, y: (torch.einsum("bij,bjk->bik", x, y), torch.einsum("bii->bi", x),
                  torch.einsum("...ij,...kj->...ik", x, y), torch.einsum("bij,bkl->", x, y)),
    randn(2, 4, 4), randn(2, 4, 4), a={0: "batch"}, b={0: "batch"})  # fmt: skip
row("cdist", lambda x, y: tuple(torch.cdist(x, y, p=p) for p in (2.0, 1.0, 3.0, torch.inf)), randn(2, 30, 4),
    randn(2, 33, 4), a={1: "rows"})  # fmt: skip
row("embedding_bag of lists", layer(nn.EmbeddingBag(10, 4, mode="mean")), below(10, 6), torch.tensor([0, 2, 4]),
    a={0: "count"})  # fmt: skip
row("embedding_bag of rows", layer(nn.EmbeddingBag(10, 4, mode="sum")), below(10, 3, 6), a={0: "batch"})

# Linear algebra
row("systems and factors",
    lambda x, y: (torch.linalg.det(x), torch.linalg.inv(x), torch.linalg.solve(x, y), torch.linalg.norm(x),
                  torch.linalg.cholesky(x @ x.mT + torch.eye(4))),
    randn(2, 4, 4) + 3 * torch.eye(4), randn(2, 4, 3), a={0: "batch"}, b={0: "batch"})  # fmt: skip

# Quantisation that the model does itself
row("fake_quantize per tensor", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255), randn(2, 3, 4),
    a={0: "batch"})  # fmt: skip
row("fake_quantize to few bits", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.3, 1, 0, 15), randn(2, 3, 4),
    a={0: "batch"})  # fmt: skip
_scales, _zeros = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2], dtype=torch.int32)
row("fake_quantize per channel", lambda x: torch.fake_quantize_per_channel_affine(x, _scales, _zeros, 1, -128, 127),
    randn(2, 3, 4), a={0: "batch"})  # fmt: skip
row("quantize_per_tensor", lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).dequantize(), randn(2, 3, 4),
    a={0: "batch"})  # fmt: skip
row("quantize_per_channel and its integers",
    lambda x: (torch.quantize_per_channel(x, _scales, _zeros, 1, torch.qint8).dequantize(),
               torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).int_repr()),
    randn(2, 3, 4), a={0: "batch"})  # fmt: skip

# Weights that are computed
row("weight_norm", nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 3)).eval(), randn(2, 3, 9), a={0: "batch"})
row("weight_norm as a hook", nn.utils.weight_norm(nn.Linear(3, 4)).eval(), randn(2, 3), a={0: "batch"})
row("spectral_norm", nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)).eval(), randn(2, 3), a={0: "batch"})
row("spectral_norm as a hook", nn.utils.spectral_norm(nn.Linear(3, 4)).eval(), randn(2, 3), a={0: "batch"})

# Recurrent networks
for _kind, _both in itertools.product((nn.LSTM, nn.GRU, nn.RNN), (False, True)):
    row(f"{_kind.__name__} {_both}", layer(_kind(4, 6, 2, bidirectional=_both, batch_first=True)), randn(2, 5, 4),
        a={0: "batch", 1: "length"})  # fmt: skip
_projected = layer(nn.LSTM(4, 6, 2, proj_size=3, bidirectional=True))
row("LSTM with projections", _projected, randn(5, 2, 4), a={0: "length", 1: "batch"})
row("LSTM with states of its own", lambda x, h, c: _projected(x, (h, c)), randn(5, 2, 4), randn(4, 2, 3),
    randn(4, 2, 6), a={0: "length", 1: "batch"}, b={1: "batch"}, c={1: "batch"})  # fmt: skip
for _kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell):
    row(_kind.__name__, layer(_kind(4, 6)), randn(3, 4), a={0: "batch"})


@pytest.fixture
def quiet() -> Iterator[None]:
    """No word of warning, but PyTorch's own about what it means to remove."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@pytest.mark.parametrize("opset", [DEFAULT, NEWEST])
@pytest.mark.parametrize(("model", "args", "axes"), [each[1:] for each in _ROWS], ids=[each[0] for each in _ROWS])
def test_it_exports_and_agrees(quiet: None, model: Any, args: Any, axes: Any, opset: int) -> None:
    names = ["a", "b", "c"][: len(args)]
    verified = onward.export(model, args, input_names=names, dynamic_axes=axes, opset_version=opset).verify()
    assert verified.ok


def test_dropout_of_attention_in_training() -> None:
    attention = nn.MultiheadAttention(16, 4, dropout=0.5, batch_first=True).train()
    program = onward.export(
        lambda x: attention(x, x, x)[0], randn(2, 5, 16), training=onward.TrainingMode.PRESERVE, opset_version=17
    )
    assert "Dropout" in {node.op_type for node in program.model.graph}


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_draws_what_it_may(replacement: bool) -> None:
    chances = torch.tensor([[0.0, 1.0, 2.0, 0.0, 3.0]]).repeat(3, 1)
    program = onward.export(lambda p: torch.multinomial(p, 3, replacement=replacement), chances)
    drawn = program(chances)
    assert drawn.shape == (3, 3) and set(drawn.flatten().tolist()) <= {1, 2, 4}
    assert replacement or all(len(set(each)) == 3 for each in drawn.tolist())
