"""Contract row D1: every operator of the founding documents' list, as PyTorch users call it, in the list's order.

A row is a function with example tensors. Floating tensors stand for the dtype under test and take each in turn
(`Row.at`); tensors of integers or bools are indices and masks, and stay what they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ..lower.harness import OTHER_SIZES, Case, case, f32, ints

Axes = Mapping[int, Mapping[int, str]]
FLOAT, INT, BOOL = torch.float32, torch.int64, torch.bool


@dataclass(frozen=True)
class Refusal:
    """Opsets and dtypes in which there is no file to be written, what the error says, and why it has to."""

    opsets: tuple[int, ...]
    says: str
    reason: str
    dtypes: tuple[torch.dtype, ...] = ()  # none named: all


@dataclass(frozen=True)
class Row:
    """`dtype` is the operator's own, tested at every opset; `skip` says for which others the row means nothing."""

    function: Callable[..., Any]
    args: tuple[torch.Tensor, ...]
    axes: Axes = field(default_factory=dict)
    dtype: torch.dtype = FLOAT
    sizes: Sequence[int] = OTHER_SIZES
    skip: Mapping[torch.dtype, str] = field(default_factory=dict)
    refusal: Refusal | None = None

    def refused(self, dtype: torch.dtype) -> tuple[int, ...]:
        """The opsets at which the row has to be refused."""
        if self.refusal is None or (self.refusal.dtypes and dtype not in self.refusal.dtypes):
            return ()
        return self.refusal.opsets

    def at(self, dtype: torch.dtype, name: str, opsets: Sequence[int]) -> Case:
        """The row in one dtype, for the runner of operator tests."""
        function = self.function
        if isinstance(function, nn.Module):
            function = copy.deepcopy(function).eval()
            if dtype.is_floating_point:
                function = function.to(dtype)
        args = [as_dtype(arg, dtype) for arg in self.args]
        return case(name, function, args, dynamic=self.axes, opsets=opsets, sizes=self.sizes)

    def runs_in_eager(self, dtype: torch.dtype) -> bool:
        """Whether PyTorch itself has the operator for this dtype."""
        trial = self.at(dtype, "trial", ())
        try:
            with torch.no_grad():
                trial.function(*trial.args)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return False
        return True


def as_dtype(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A floating tensor in the dtype: integers get enough of the values to differ, none of them out of range."""
    if not tensor.is_floating_point():
        return tensor
    if dtype.is_floating_point:
        return tensor.to(dtype)
    if dtype is torch.bool:
        return tensor > 0
    known = tensor.nan_to_num(0, 1, -1)
    spread = (known * 3 if tensor.numel() < 40 else known).round()
    return (spread - spread.min() if dtype is torch.uint8 else spread).to(dtype)


def row(function: Callable[..., Any], *args: torch.Tensor, axes: Axes | None = None, **rest: Any) -> Row:
    return Row(function, args, axes or {}, **rest)


def module(build: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """A module with weights and statistics that are the same in every run, none of them 0 or 1 by default."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = build()
        for name, buffer in made.named_buffers():
            if buffer.is_floating_point():
                buffer.copy_(torch.rand_like(buffer) + (0.5 if name.endswith("var") else 0))
        for parameter in made.parameters():
            if parameter.dim() == 1:
                nn.init.uniform_(parameter, 0.5, 1.5)
    return made.eval()


def distinct(*size: int) -> torch.Tensor:
    """No value twice, in any dtype: for what picks places."""
    count = torch.Size(size).numel()
    return (torch.randperm(count, generator=torch.Generator().manual_seed(0)).float() - count // 2).reshape(size)


def away_from_zero(*size: int, seed: int = 0) -> torch.Tensor:
    """For divisors: at least 0.5 on either side."""
    values = f32(*size, seed=seed).clamp(-2, 2)
    return values + values.sign() * 0.5


def index(*size: int, below: int, seed: int = 0) -> torch.Tensor:
    return ints(*size, low=0, high=below, seed=seed)


X, Y = f32(2, 3), f32(2, 3, seed=1)
X1, X2, X3 = f32(2, 4, 8), f32(2, 4, 7, 8), f32(2, 4, 5, 6, 5)  # signals, images, volumes
CUBE = f32(2, 3, 4)
SMALL = torch.linspace(-0.9, 0.9, 6).reshape(2, 3)
POSITIVE = X.abs() + 0.1
SOME_NAN = torch.tensor([[1.0, float("nan"), -2.0], [float("inf"), 0.0, float("nan")]])

B = {0: {0: "b"}}
BN = {0: {0: "b", 1: "n"}}
BOTH = {0: {0: "b"}, 1: {0: "b"}}
BOTH_BN = {0: {0: "b", 1: "n"}, 1: {0: "b", 1: "n"}}
LENGTH = {0: {0: "b", 2: "length"}}
IMAGE = {0: {0: "b", 2: "height", 3: "width"}}
VOLUME = {0: {0: "b", 2: "depth", 3: "height", 4: "width"}}
LARGER = (8, 9)  # where a window or a border needs room
CRASHES = {torch.bfloat16: "the oneDNN of torch 2.13 ends the process on CPUs without bfloat16"}
NO_DILATIONS = Refusal((9,), r"opset 9 \(exists from 1[03]\)", "MaxPool has `dilations` from opset 10 on")
BOOL_TIES = {torch.bool: "among equal values PyTorch names no place"}


class WithStates(nn.LSTM):
    """An LSTM that is given its first states."""

    def __init__(self) -> None:
        super().__init__(3, 4)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> Any:  # type: ignore[override]
        return super().forward(x, (h, c))


def pointwise(function: Callable[..., Any], x: torch.Tensor = X, **rest: Any) -> list[Row]:
    return [row(function, x, axes=BN, **rest)]


def compare(function: Callable[..., Any]) -> list[Row]:
    equal_in_places = torch.where(X > 0, X, Y)
    return [
        row(function, X, equal_in_places, axes=BOTH_BN),
        row(lambda x, y: function(x, y), X, equal_in_places[0], axes=B),
        row(lambda x: function(x, 1), torch.tensor([[-1.0, 0.0, 1.0], [2.0, 1 / 3, 1.0]]), axes=B),
    ]


def joins(function: Callable[..., Any]) -> list[Row]:
    return [
        row(lambda x, y: function((x, y), 0), X, Y, axes={0: {0: "b"}, 1: {0: "c"}}),
        row(lambda x, y: function([x, y, x], dim=-1), X, Y, axes=BOTH),
    ]


TABLE: dict[str, list[Row]] = {
    "batch_norm": [
        row(module(lambda: nn.BatchNorm1d(4)), X1, axes=LENGTH),
        row(module(lambda: nn.BatchNorm2d(4)), X2, axes=IMAGE),
        row(module(lambda: nn.BatchNorm3d(4, affine=False)), X3, axes=B),
        row(lambda x: F.batch_norm(x, None, None, training=True, eps=1e-3), X2, axes=IMAGE),
        row(lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), X2, f32(4), f32(4).abs() + 1, f32(4), f32(4), axes=B),
    ],
    "constant_pad_nd": [
        row(lambda x: F.pad(x, (1, 2), value=2), X, axes=BN),
        row(lambda x: torch.constant_pad_nd(x, (1, -1, 0, 2), 1), CUBE, axes=B),
    ],
    "conv1d": [
        row(module(lambda: nn.Conv1d(4, 6, 3, padding=1)), X1, axes=LENGTH),
        row(module(lambda: nn.Conv1d(4, 6, 3, padding="same", dilation=2, groups=2, bias=False)), X1, axes=B),
    ],
    "conv2d": [
        row(module(lambda: nn.Conv2d(4, 6, (3, 2), stride=2, padding=1)), X2, axes=IMAGE),
        row(lambda x, w: F.conv2d(x, w, groups=4, dilation=(1, 2)), X2, f32(4, 1, 3, 3), axes=B),
    ],
    "conv3d": [row(module(lambda: nn.Conv3d(4, 2, 3, padding=1)), X3, axes=VOLUME)],
    "conv_transpose1d": [
        row(module(lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, output_padding=1)), X1, axes=LENGTH, skip=CRASHES)
    ],
    "conv_transpose2d": [
        row(module(lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1)), X2, axes=IMAGE, skip=CRASHES),
        row(lambda x, w: F.conv_transpose2d(x, w, groups=2, dilation=2), X2, f32(4, 3, 2, 2), axes=B, skip=CRASHES),
    ],
    "conv_transpose3d": [row(module(lambda: nn.ConvTranspose3d(4, 2, 2, stride=2)), X3, axes=VOLUME, skip=CRASHES)],
    "dropout": [
        row(nn.Dropout(0.4), X, axes=BN),
        row(lambda x: F.dropout(x, 0.4, training=False) + 1, X, axes=BN),
    ],
    "embedding": [
        row(module(lambda: nn.Embedding(5, 3)), index(2, 4, below=5), axes=BN),
        row(F.embedding, index(2, 4, below=5), f32(5, 3), axes=BN),
        row(F.embedding, index(2, 4, below=5).int(), f32(5, 3), axes=BN),
    ],
    "feature_dropout": [
        row(nn.Dropout2d(0.4), X2, axes=IMAGE),
        row(lambda x: torch.feature_dropout(x, 0.4, False) + 1, X2, axes=B),
    ],
    "index": [
        row(lambda x, i: x[i], CUBE, index(5, below=2), axes={1: {0: "b"}}),
        row(lambda x, i: x[:, i], CUBE, index(2, 2, below=3), axes=B),
        row(lambda x, i, j: x[i, :, j], CUBE, index(3, below=2), index(3, below=4), axes={1: {0: "k"}, 2: {0: "k"}}),
        row(lambda x, i: x[..., None, i], CUBE, torch.tensor([-1, 0, -2]), axes=B),
        row(lambda x, mask: x[mask], CUBE, torch.tensor([True, False]), axes=BOTH),
        row(lambda x, mask: x[mask], X, X > 0, axes=BOTH_BN),
    ],
    "max_pool1d": [
        row(lambda x: F.max_pool1d(x, 3, 2, padding=1), X1, axes=LENGTH, sizes=LARGER),
        row(
            lambda x: F.max_pool1d(x, 3, ceil_mode=True, return_indices=True), distinct(2, 4, 8), axes=B, skip=BOOL_TIES
        ),
        row(lambda x: F.max_pool1d(x, 2, dilation=2), X1, axes=B, refusal=NO_DILATIONS),
    ],
    "max_pool2d": [
        row(lambda x: F.max_pool2d(x, 3, 2, padding=1), X2, axes=IMAGE, sizes=LARGER),
        row(lambda x: F.max_pool2d(x, (2, 3), ceil_mode=True), X2, axes=B),
        row(lambda x: F.max_pool2d(x, 2, dilation=(2, 1)), X2, axes=B, refusal=NO_DILATIONS),
        row(lambda x: F.max_pool2d(x, 2, return_indices=True), distinct(1, 2, 7, 6), skip=BOOL_TIES),
    ],
    "max_pool3d": [
        row(lambda x: F.max_pool3d(x, 2, 2, padding=1), X3, axes=VOLUME, sizes=LARGER),
        row(lambda x: F.max_pool3d(x, 2, ceil_mode=True), X3, axes=B),
    ],
    "rnn": [
        row(module(lambda: nn.RNN(3, 4, batch_first=True)), f32(2, 5, 3), axes=BN),
        row(module(lambda: nn.RNN(3, 4, nonlinearity="relu", bidirectional=True)), f32(5, 2, 3), f32(2, 2, 4)),
    ],
    "lstm": [
        row(module(lambda: nn.LSTM(3, 4, batch_first=True)), f32(2, 5, 3), axes=BN, skip=CRASHES),
        row(module(lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True)), f32(5, 2, 3), axes=BN, skip=CRASHES),
        row(module(WithStates), f32(5, 2, 3), f32(1, 2, 4), f32(1, 2, 4), skip=CRASHES),
    ],
    "gru": [
        row(module(lambda: nn.GRU(3, 4, batch_first=True)), f32(2, 5, 3), axes=BN),
        row(module(lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True, bias=False)), f32(5, 2, 3), f32(4, 2, 4)),
    ],
    "abs": pointwise(torch.abs),
    "acos": pointwise(torch.acos, SMALL),
    "adaptive_avg_pool1d": [
        row(lambda x: F.adaptive_avg_pool1d(x, 1), X1, axes=LENGTH),
        row(lambda x: F.adaptive_avg_pool1d(x, 3), X1, axes=B),
    ],
    "adaptive_avg_pool2d": [
        row(lambda x: F.adaptive_avg_pool2d(x, 1), X2, axes=IMAGE),
        row(lambda x: F.adaptive_avg_pool2d(x, (3, None)), X2, axes=B),
    ],
    "adaptive_avg_pool3d": [
        row(lambda x: F.adaptive_avg_pool3d(x, 1), X3, axes=VOLUME),
        row(lambda x: F.adaptive_avg_pool3d(x, (5, 3, 2)), X3, axes=B),
    ],
    "adaptive_max_pool1d": [
        row(lambda x: F.adaptive_max_pool1d(x, 1), X1, axes=LENGTH),
        row(lambda x: F.adaptive_max_pool1d(x, 3), X1, axes=B),
    ],
    "adaptive_max_pool2d": [
        row(lambda x: F.adaptive_max_pool2d(x, 1), X2, axes=IMAGE),
        row(lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True), distinct(1, 2, 7, 8), skip=BOOL_TIES),
    ],
    "adaptive_max_pool3d": [
        row(lambda x: F.adaptive_max_pool3d(x, 1), X3, axes=VOLUME),
        row(lambda x: F.adaptive_max_pool3d(x, (5, 3, 2)), X3, axes=B),
    ],
    "add": [
        row(torch.add, X, Y, axes=BOTH_BN),
        row(lambda x, y: x + y, CUBE, f32(3, 1), axes=B),
        row(lambda x: x + 2, X, axes=BN),
        row(lambda x, y: torch.add(x, y, alpha=2), X, Y, axes=BOTH),
    ],
    "addmm": [
        row(torch.addmm, f32(4), X, f32(3, 4), axes={1: {0: "b"}}),
        row(lambda c, x, w: torch.addmm(c, x, w, beta=2, alpha=3), f32(2, 4), X, f32(3, 4), axes=BOTH),
    ],
    "and": [
        row(lambda x, y: x & y, X, Y, axes=BOTH_BN, dtype=BOOL),
        row(torch.logical_and, X, Y, axes=BOTH, dtype=BOOL),
        row(lambda x: x & 5, X, axes=BN, dtype=INT),
    ],
    "arange": [
        row(lambda x: torch.arange(x.size(0)), X, axes=B),
        row(lambda x: torch.arange(1, x.size(1) + 1, 2, dtype=x.dtype), X, axes=BN),
        row(lambda x: torch.arange(0, x.size(0), 0.5), X, axes=B),
    ],
    "argmax": [
        row(lambda x: x.argmax(1), distinct(2, 3), axes=BN),
        row(lambda x: torch.argmax(x, -2, keepdim=True), distinct(2, 3, 4), axes=B),
        row(torch.argmax, distinct(2, 3), axes=BN),
    ],
    "argmin": [
        row(lambda x: x.argmin(1), distinct(2, 3), axes=BN),
        row(lambda x: torch.argmin(x, -2, keepdim=True), distinct(2, 3, 4), axes=B),
        row(torch.argmin, distinct(2, 3), axes=BN),
    ],
    "asin": pointwise(torch.asin, SMALL),
    "atan": pointwise(torch.atan),
    "avg_pool1d": [
        row(lambda x: F.avg_pool1d(x, 3, 2, padding=1), X1, axes=LENGTH, sizes=LARGER),
        row(lambda x: F.avg_pool1d(x, 3, ceil_mode=True, count_include_pad=False), X1, axes=B),
    ],
    "avg_pool2d": [
        row(lambda x: F.avg_pool2d(x, 3, 2, padding=1), X2, axes=IMAGE, sizes=LARGER),
        row(lambda x: F.avg_pool2d(x, (2, 3), ceil_mode=True, padding=1, count_include_pad=False), X2, axes=B),
    ],
    "avg_pool3d": [
        row(lambda x: F.avg_pool3d(x, 2, 2, padding=1), X3, axes=VOLUME, sizes=LARGER),
        row(lambda x: F.avg_pool3d(x, 2, divisor_override=3), X3, axes=B),
    ],
    "cat": joins(torch.cat),
    "ceil": pointwise(torch.ceil),
    "clamp": [
        row(lambda x: x.clamp(-1, 1), X, axes=BN),
        row(torch.clamp, X, SMALL - 0.5, SMALL + 0.5, axes={0: {0: "b"}, 1: {0: "b"}, 2: {0: "b"}}),
    ],
    "clamp_max": [row(lambda x: x.clamp_max(1), X, axes=BN), row(torch.clamp_max, X, Y, axes=BOTH)],
    "clamp_min": [row(lambda x: x.clamp_min(0), X, axes=BN), row(torch.clamp_min, X, Y, axes=BOTH)],
    "concat": joins(torch.concat),
    "cos": pointwise(torch.cos),
    "dim_arange": [row(lambda x: torch._dim_arange(x, 1), X, axes=BN)],
    "div": [
        row(torch.div, X, away_from_zero(2, 3), axes=BOTH_BN),
        row(lambda x: x / 2, X, axes=BN),
        row(lambda x, y: torch.div(x, y, rounding_mode="floor"), X, away_from_zero(2, 3), axes=BOTH),
        row(lambda x, y: torch.div(x, y, rounding_mode="trunc"), X, away_from_zero(2, 3), axes=BOTH),
    ],
    "elu": [row(F.elu, X, axes=BN), row(lambda x: F.elu(x, alpha=0.5), X, axes=BN)],
    "eq": compare(torch.eq),
    "erf": pointwise(torch.erf),
    "exp": pointwise(torch.exp),
    "expand": [
        row(lambda x: x.expand(-1, 4, 3), f32(2, 1, 3), axes=B),
        row(lambda x: x[:1].expand(x.size(0), -1), X, axes=BN),
    ],
    "expand_as": [row(lambda x, y: x.expand_as(y), f32(1, 3), X, axes={1: {0: "b"}})],
    "flatten": [
        row(torch.flatten, CUBE, axes=B),
        row(lambda x: x.flatten(1), CUBE, axes=BN),
        row(lambda x: torch.flatten(x, -3, -2), X2, axes=B),
    ],
    "floor": pointwise(torch.floor),
    "full": [row(lambda x: torch.full((x.size(0), 3), 1, dtype=x.dtype), X, axes=B)],
    "full_like": [
        row(lambda x: torch.full_like(x, 1), X, axes=BN),
        row(lambda x: torch.full_like(x, 2.5, dtype=torch.float64), X, axes=BN),
    ],
    "gather": [
        row(lambda x, i: x.gather(1, i), X, index(2, 4, below=3), axes=BOTH),
        row(lambda x, i: torch.gather(x, -2, i), CUBE, index(2, 2, 4, below=3), axes=BOTH),
    ],
    "ge": compare(torch.ge),
    "glu": [row(F.glu, f32(2, 4), axes=B), row(lambda x: F.glu(x, 1), X2, axes=B)],
    "gt": compare(torch.gt),
    "hardtanh": [row(F.hardtanh, X, axes=BN), row(lambda x: F.hardtanh(x, -2, 3), X, axes=BN)],
    "index_copy": [
        row(
            lambda x, i, y: x.index_copy(1, i, y),
            CUBE,
            torch.tensor([2, 0]),
            f32(2, 2, 4),
            axes={0: {0: "b"}, 2: {0: "b"}},
        )
    ],
    "index_fill": [
        row(lambda x, i: x.index_fill(1, i, 2), CUBE, torch.tensor([2, 0]), axes=B),
        row(lambda x, i, v: x.index_fill(-1, i, v), CUBE, torch.tensor([1]), f32()),
    ],
    "index_select": [
        row(lambda x, i: x.index_select(1, i), CUBE, index(4, below=3), axes={0: {0: "b"}, 1: {0: "k"}}),
        row(lambda x, i: torch.index_select(x, 0, i), X, index(3, below=2).int(), axes={1: {0: "k"}}),
    ],
    "instance_norm": [
        row(F.instance_norm, X1, axes=B),
        row(module(lambda: nn.InstanceNorm2d(4, affine=True)), X2, axes=IMAGE, sizes=LARGER),
        row(module(lambda: nn.InstanceNorm3d(4, track_running_stats=True)), X3, axes=B),
    ],
    "isnan": pointwise(torch.isnan, SOME_NAN),
    "layer_norm": [
        row(module(lambda: nn.LayerNorm(4)), CUBE, axes=BN),
        row(lambda x: F.layer_norm(x, (3, 4), eps=1e-3), CUBE, axes=B),
        row(lambda x, w, b: F.layer_norm(x, (4,), w, b), CUBE, f32(4), f32(4, seed=1), axes=BN),
    ],
    "le": compare(torch.le),
    "leaky_relu": [row(F.leaky_relu, X, axes=BN), row(lambda x: F.leaky_relu(x, 0.3), X, axes=BN)],
    "log": pointwise(torch.log, POSITIVE),
    "log2": pointwise(torch.log2, POSITIVE),
    "log_sigmoid": pointwise(F.logsigmoid),
    "log_softmax": [
        row(lambda x: F.log_softmax(x, -1), CUBE, axes=BN),
        row(lambda x: F.log_softmax(x, 1), CUBE, axes=BN),
    ],
    "logsumexp": [
        row(lambda x: torch.logsumexp(x, 1), CUBE, axes=BN),
        row(lambda x: x.logsumexp((0, 2), keepdim=True), CUBE, axes=BN),
    ],
    "lt": compare(torch.lt),
    "masked_fill": [
        row(lambda x, m: x.masked_fill(m, 1), X, Y > 0, axes=BOTH_BN),
        row(lambda x, m, v: x.masked_fill(m, v), X, Y[0] > 0, f32(), axes=B),
    ],
    "max": [
        row(torch.max, X, axes=BN),
        row(lambda x: x.max(1), distinct(2, 3), axes=B, skip=BOOL_TIES),
        row(lambda x: x.max(-1, keepdim=True)[0], X, axes=BN),
        row(lambda x, y: torch.max(x, y), X, Y, axes=BOTH_BN),
    ],
    "mean": [
        row(torch.mean, X, axes=BN),
        row(lambda x: x.mean((0, -1), keepdim=True), CUBE, axes=BN),
        row(lambda x: x.mean(1, dtype=torch.float32), CUBE, axes=B),
    ],
    "min": [
        row(torch.min, X, axes=BN),
        row(lambda x: x.min(1), distinct(2, 3), axes=B, skip=BOOL_TIES),
        row(lambda x: x.min(-1, keepdim=True)[0], X, axes=BN),
        row(lambda x, y: torch.min(x, y), X, Y, axes=BOTH_BN),
    ],
    "mm": [row(torch.mm, X, f32(3, 4), axes=B)],
    "mul": [
        row(torch.mul, X, Y, axes=BOTH_BN),
        row(lambda x: x * 3, X, axes=BN),
        row(lambda x, y: x * y, CUBE, f32(4), axes=B),
    ],
    "narrow": [
        row(lambda x: x.narrow(1, 1, 2), CUBE, axes=B),
        row(lambda x: torch.narrow(x, -1, -3, 2), CUBE, axes=BN),
    ],
    "ne": compare(torch.ne),
    "neg": pointwise(torch.neg),
    "nonzero": [
        row(torch.nonzero, X.round(), axes=BN),
        row(lambda x: torch.nonzero(x, as_tuple=True), X.round(), axes=BN),
    ],
    "norm": [
        row(torch.norm, X, axes=BN),
        row(lambda x: x.norm(2, 1), CUBE, axes=B),
        row(lambda x: x.norm(1, -1, keepdim=True), CUBE, axes=BN),
        row(lambda x: x.norm(3, (0, 2)), CUBE, axes=B),
        row(lambda x: x.norm(float("inf"), 1), CUBE, axes=B),
        row(lambda x: x.norm("fro", (1, 2)), CUBE, axes=B),
    ],
    "ones": [row(lambda x: torch.ones(x.size(0), 3, dtype=x.dtype), X, axes=B)],
    "ones_like": pointwise(torch.ones_like),
    "or": [
        row(lambda x, y: x | y, X, Y, axes=BOTH_BN, dtype=BOOL),
        row(torch.logical_or, X, Y, axes=BOTH, dtype=BOOL),
        row(lambda x: x | 5, X, axes=BN, dtype=INT),
    ],
    "permute": [
        row(lambda x: x.permute(2, 0, 1), CUBE, axes=BN),
        row(lambda x: torch.permute(x, (0, -1, 1)), CUBE, axes=B),
    ],
    "pixel_shuffle": [row(lambda x: F.pixel_shuffle(x, 2), f32(2, 8, 3, 4), axes=IMAGE)],
    "pow": [
        row(lambda x: x**2, X, axes=BN),
        row(lambda x: x.pow(3), X, axes=BN),
        row(lambda x: x**0.5, POSITIVE, axes=BN),
        row(torch.pow, POSITIVE, POSITIVE.flip(0), axes=BOTH_BN),
        row(lambda x: 2**x, POSITIVE, axes=BN),
    ],
    "prelu": [
        row(module(lambda: nn.PReLU(4)), X2, axes=IMAGE),
        row(module(lambda: nn.PReLU()), X, axes=BN),
        row(F.prelu, X2, f32(4), axes=B),
    ],
    "prod": [row(torch.prod, X, axes=BN), row(lambda x: x.prod(1, keepdim=True), X, axes=B)],
    "rand": [],
    "randn": [],
    "randn_like": [],
    "reciprocal": pointwise(torch.reciprocal, away_from_zero(2, 3)),
    "reflection_pad": [
        row(lambda x: F.pad(x, (2, 1), mode="reflect"), X1, axes=LENGTH, sizes=LARGER),
        row(lambda x: F.pad(x, (2, 1, 0, 3), mode="reflect"), X2, axes=IMAGE, sizes=LARGER),
        row(lambda x: F.pad(x, (1, 1, 2, 0, 1, 2), mode="reflect"), X3, axes=B),
    ],
    "relu": pointwise(F.relu),
    "repeat": [row(lambda x: x.repeat(2, 1), X, axes=BN), row(lambda x: x.repeat(2, 1, 3), X, axes=B)],
    "replication_pad": [
        row(lambda x: F.pad(x, (2, 1), mode="replicate"), X1, axes=LENGTH),
        row(lambda x: F.pad(x, (2, 1, 0, 3), mode="replicate"), X2, axes=IMAGE),
        row(lambda x: F.pad(x, (1, 1, 2, 0, 1, 2), mode="replicate"), X3, axes=B),
    ],
    "reshape": [row(lambda x: x.reshape(x.size(0), -1), CUBE, axes=BN), row(lambda x: x.reshape(-1, 6), CUBE, axes=B)],
    "reshape_as": [row(lambda x, y: x.reshape_as(y), f32(2, 6), CUBE[:, :, :2], axes=BOTH)],
    "rrelu": [row(F.rrelu, X, axes=BN), row(nn.RReLU(0.1, 0.5), X, axes=BN)],
    "rsub": [
        row(torch.rsub, X, Y, axes=BOTH_BN),
        row(lambda x: 2 - x, X, axes=BN),
        row(lambda x, y: torch.rsub(x, y, alpha=3), X, Y, axes=BOTH),
    ],
    "scatter": [
        row(
            lambda x, i, y: x.scatter(1, i, y),
            X,
            torch.tensor([[2, 0], [1, 2]]),
            Y,
            axes={0: {0: "b"}, 1: {0: "b"}, 2: {0: "b"}},
        ),
        row(lambda x, i: x.scatter(-1, i, 2), X, torch.tensor([[2, 0], [1, 2]]), axes=BOTH),
        row(lambda x, i, y: x.scatter(1, i, y, reduce="add"), X, torch.tensor([[2, 0], [1, 2]]), Y),
        row(lambda x, i, y: x.scatter(1, i, y, reduce="multiply"), X, torch.tensor([[2, 0], [1, 2]]), Y),
    ],
    "scatter_add": [
        row(
            lambda x, i, y: x.scatter_add(1, i, y),
            X,
            index(2, 4, below=3),
            f32(2, 4),
            axes={0: {0: "b"}, 1: {0: "b"}, 2: {0: "b"}},
        ),
        row(lambda x, i, y: torch.scatter_add(x, 0, i, y), X, index(2, 3, below=2), Y, axes={1: {0: "k"}, 2: {0: "k"}}),
    ],
    "select": [row(lambda x: x[:, 1], CUBE, axes=B), row(lambda x: x.select(-1, -1), CUBE, axes=BN)],
    "selu": pointwise(F.selu),
    "sigmoid": pointwise(torch.sigmoid),
    "sign": pointwise(torch.sign, X.round()),
    "sin": pointwise(torch.sin),
    "size": [
        row(lambda x: x * x.size(1), X, axes=BN),
        row(lambda x: torch._shape_as_tensor(x), X, axes=BN),
        row(lambda x: x.new_zeros(x.size()), X, axes=BN),
    ],
    "slice": [
        row(lambda x: x[:, 1:], X, axes=B),
        row(lambda x: x[:, ::2, -2:], CUBE, axes=B),
        row(lambda x: x[..., 1 : x.size(-1) - 1], CUBE, axes=B),
    ],
    "softmax": [
        row(lambda x: F.softmax(x, -1), CUBE, axes=BN),
        row(lambda x: torch.softmax(x, 1), CUBE, axes=BN),
        row(lambda x: torch.softmax(x, 0, dtype=torch.float32), CUBE, axes=BN),
    ],
    "softplus": [row(F.softplus, X, axes=BN), row(lambda x: F.softplus(x, beta=2, threshold=1), X, axes=BN)],
    "split": [
        row(lambda x: x.split(2, 1), CUBE, axes=B),
        row(lambda x: torch.split(x, [1, 3], dim=-1), CUBE, axes=BN),
        row(lambda x: x.chunk(2, -1), CUBE, axes=BN),
    ],
    "sqrt": pointwise(torch.sqrt, POSITIVE),
    "squeeze": [
        row(lambda x: x.squeeze(1), f32(2, 1, 3), axes=B, sizes=(4, 5)),
        row(torch.squeeze, f32(1, 2, 1, 3)),
        row(lambda x: x.squeeze((1, -1)), f32(2, 1, 3, 1), axes=B),
    ],
    "stack": [
        row(lambda x, y: torch.stack((x, y)), X, Y, axes=BOTH_BN),
        row(lambda x, y: torch.stack([x, y], -1), X, Y, axes=BOTH),
    ],
    "sub": [
        row(torch.sub, X, Y, axes=BOTH_BN),
        row(lambda x: x - 2, X, axes=BN),
        row(lambda x, y: torch.sub(x, y, alpha=2), X, Y, axes=BOTH),
    ],
    "sum": [
        row(torch.sum, X, axes=BN),
        row(lambda x: x.sum((0, -1), keepdim=True), CUBE, axes=BN),
        row(lambda x: x.sum(1, dtype=torch.float64), CUBE, axes=B),
    ],
    "t": [row(torch.t, X, axes=BN), row(lambda x: x.t() + 1, f32(3), axes=B)],
    "tan": pointwise(torch.tan),
    "tanh": pointwise(torch.tanh),
    "threshold": [row(lambda x: F.threshold(x, 0, 0), X, axes=BN), row(lambda x: F.threshold(x, 1, 20), X, axes=BN)],
    "to": [
        row(lambda x: x.to(torch.float32), X * 3, axes=BN),
        row(lambda x: x.to(torch.float64), X * 3, axes=BN),
        row(lambda x: x.half(), X * 3, axes=BN),
        row(lambda x: x.to(torch.int32), X * 3, axes=BN),
        row(lambda x: x.long(), X * 3, axes=BN),
        row(lambda x: x.abs().to(torch.uint8), X * 3, axes=BN, skip={torch.bool: "abs has no bool"}),
        row(lambda x: x.to(torch.int8), X * 3, axes=BN),
        row(lambda x: x.to(torch.bool), X.round(), axes=BN),
    ],
    "topk": [
        row(lambda x: x.topk(2), distinct(2, 4), axes=B, skip=BOOL_TIES),
        row(lambda x: torch.topk(x, 2, 1, largest=False), distinct(2, 3, 4), axes=B, skip=BOOL_TIES),
    ],
    "transpose": [row(lambda x: x.transpose(0, -1), CUBE, axes=BN)],
    "type_as": [
        row(lambda x, y: x.type_as(y), X, torch.tensor([1]), axes=BN),
        row(lambda x, y: y.type_as(x), X, torch.tensor([1, 0, 3]), axes={1: {0: "k"}}),
    ],
    "unfold": [
        row(lambda x: x.unfold(1, 3, 2), X1[0], axes=B),
        row(lambda x: F.unfold(x, (2, 3), padding=1, stride=2, dilation=(1, 2)), X2, axes=B),
    ],
    "unsqueeze": [row(lambda x: x.unsqueeze(1), X, axes=BN), row(lambda x: torch.unsqueeze(x, -1), X, axes=BN)],
    "upsample_nearest1d": [
        row(lambda x: F.interpolate(x, scale_factor=2), X1, axes=LENGTH),
        row(lambda x: F.interpolate(x, size=13), X1, axes=B),
    ],
    "upsample_nearest2d": [
        row(nn.Upsample(scale_factor=2), X2, axes=IMAGE),
        row(lambda x: F.interpolate(x, size=(5, 12)), X2, axes=B),
        row(lambda x, y: F.interpolate(x, size=y.shape[2:]), X2, f32(2, 1, 9, 6), axes={0: {0: "b"}, 1: {2: "height"}}),
    ],
    "upsample_nearest3d": [
        row(lambda x: F.interpolate(x, scale_factor=2), X3, axes=VOLUME),
        row(lambda x: F.interpolate(x, size=(4, 9, 5)), X3, axes=B),
    ],
    "view": [row(lambda x: x.view(x.size(0), -1), CUBE, axes=BN), row(lambda x: x.view(-1, 2, 2), CUBE, axes=B)],
    "where": [
        row(lambda x, y, c: torch.where(c, x, y), X, Y, CUBE[..., 0] > 0, axes={0: {0: "b"}, 1: {0: "b"}, 2: {0: "b"}}),
        row(lambda x: torch.where(x > 0, x, 1), X, axes=BN),
        row(lambda x: torch.where(x), X.round(), axes=BN),
    ],
    "zeros": [row(lambda x: torch.zeros(x.size(0), 3, dtype=x.dtype), X, axes=B)],
    "zeros_like": pointwise(torch.zeros_like),
}
