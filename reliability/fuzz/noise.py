"""Whether a result can be compared at all: how far it moves when every operation rounds a little differently.

A program that divides by what is nearly zero, or asks which of two nearly equal numbers is larger, has no single right
answer in floating point. Such programs are told from wrong files by running PyTorch itself with noise of the size of
rounding errors in every operation that rounds.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

_AMPLITUDES = {torch.float64: 1e-8, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}

# onnxruntime computes them to about 1e-8 of 1, however small the result is.
_ABSOLUTE = frozenset({"sigmoid", "sigmoid_", "tanh", "tanh_", "erf", "erfc", "softplus"})

# At whole numbers it is the sine of a multiple of pi, which is all rounding error.
_ABSOLUTE |= {"sinc", "special_sinc"}

# They are their argument times such a function, so it is about 1e-8 of the argument.
_ABSOLUTE_TIMES_X = frozenset({"silu", "silu_", "gelu", "gelu_", "mish", "mish_"})

# They move or choose elements, and do not round. Their results stay as they are.
_EXACT = frozenset({
    "clone", "cat", "stack", "index", "index_put", "gather", "index_select", "where", "masked_fill", "full", "ones",
    "zeros", "arange", "scalar_tensor", "eye", "lift_fresh", "constant_pad_nd", "repeat", "flip", "roll", "relu",
    "clamp", "clamp_min", "clamp_max", "abs", "neg", "floor", "ceil", "round", "trunc", "sign", "maximum",
    "minimum", "amax", "amin", "embedding", "full_like", "zeros_like", "ones_like", "empty", "empty_like",
    "new_zeros", "new_ones", "new_full", "new_empty", "copy_", "fill_", "zero_", "copy", "fill", "one_hot",
    "scatter", "tril", "triu", "masked_select", "max_pool2d_with_indices", "detach", "slice_scatter",
    "select_scatter", "nan_to_num", "linspace", "_to_copy", "heaviside", "unfold", "hardtanh", "relu_", "clamp_",
    "masked_fill_", "index_put_", "neg_", "abs_", "round_", "bernoulli", "rand", "randn",
})  # fmt: skip
_EQUALITIES = frozenset({"eq", "ne"})
_NEARLY = 32  # amplitudes that numbers may be apart that another order of rounding makes equal

_ORDERS = frozenset({
    "sort", "topk", "argmax", "argmin", "max", "min", "argsort", "cummax", "cummin", "kthvalue", "median", "mode",
    "aminmax", "max_pool2d_with_indices", "adaptive_max_pool2d",
})  # fmt: skip

# What they return may be all rounding error (the norm of a single element), so their inputs are moved.
_NORMS = frozenset({
    "native_group_norm", "native_layer_norm", "native_batch_norm", "var", "std", "var_mean",
    "_native_batch_norm_legit", "cudnn_batch_norm", "_fused_rms_norm",
})  # fmt: skip

# PyTorch computes `x * scale - mean * scale`, and its own definition is `(x - mean) * scale`: the first is a rounding
# error of the terms where the second is 0, as it is for a group of one element.
_CENTRED = frozenset({
    "native_group_norm", "native_layer_norm", "native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm",
})  # fmt: skip

# They add many numbers up in an order of their own, so they are off by a rounding error of what they add, and not of
# what they return, which may be all but zero.
_SUMS = frozenset({
    "sum", "mean", "nansum", "cumsum", "logcumsumexp", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot",
    "vdot", "convolution", "mkldnn_convolution", "linear", "_trilinear", "avg_pool2d", "avg_pool3d",
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "trace", "_scaled_dot_product_flash_attention_for_cpu",
})  # fmt: skip


class Refused(RuntimeError):
    """An operator of PyTorch's does not take what noise has made of its inputs."""


class NoiseFault(Exception):
    """The noise itself failed, which says nothing about the program."""


class Noise(TorchDispatchMode):
    """Every float result is off by about a rounding error; of equal numbers one is the larger.

    Operators that PyTorch computes as one, and that round many times inside, are taken apart: an LSTM is computed gate
    by gate, as a GRU always is, and distances of many rows are computed from products. Norms are computed by either of
    two formulas.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)
        self._one_dnn = torch._C._get_mkldnn_enabled()

    def __enter__(self) -> Any:
        torch._C._set_mkldnn_enabled(False)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch._C._set_mkldnn_enabled(self._one_dnn)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return self._noisy(func, args, kwargs or {})
        except (Refused, NoiseFault):
            raise
        except Exception as error:
            raise NoiseFault(f"{func}: {type(error).__name__}: {error}") from error

    def _noisy(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = func._schema.name.split("::")[-1]
        if name in _ORDERS:
            args = tree_map(self._apart, args)
        if name in _NORMS:
            args = (self._moved(args[0].clone()) if isinstance(args[0], torch.Tensor) else args[0], *args[1:])
        if name in _SUMS:
            args = tree_map(lambda each: self._moved(each.clone()) if isinstance(each, torch.Tensor) else each, args)
        if name == "_euclidean_dist":
            return self._distances(*args)
        scale = args[0].double().abs().clamp(min=1) if name in _ABSOLUTE_TIMES_X else 1.0
        try:
            by_definition = name in _CENTRED and self._tosses()
            result = (decomposition_table.get(func, func) if by_definition else func)(*args, **kwargs)
        except Exception as error:
            raise Refused(str(error)) from error
        aliases = [each.alias_info for each in func._schema.returns]
        views = any(each is not None and not each.is_write for each in aliases)
        if name in _EQUALITIES:
            return self._maybe_equal(result, *args)
        if views or name in _EXACT or name in _ORDERS:
            return result
        if name in _ABSOLUTE or name in _ABSOLUTE_TIMES_X:
            return self._shifted(result, scale)
        return tree_map(self._moved, result)

    def _maybe_equal(self, result: torch.Tensor, x: torch.Tensor, y: Any) -> torch.Tensor:
        """Numbers that noise has moved apart may be equal without it, or with other rounding errors."""
        if x.dtype not in _AMPLITUDES or not isinstance(y, torch.Tensor) or y.dtype != x.dtype:
            return result
        wide = x.double(), y.double()
        most = _NEARLY * _AMPLITUDES[x.dtype] * torch.maximum(wide[0].abs(), wide[1].abs())
        near = (wide[0] != wide[1]) & ((wide[0] - wide[1]).abs() <= most)
        return result ^ (near & (torch.rand(result.shape, generator=self._generator) < 0.5))

    def _distances(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """As PyTorch computes them: the root of x*x + y*y - 2*x*y, which is all rounding error where x is y."""
        squares = [self._moved(each.square().sum(-1, keepdim=True)) for each in (x, y)]
        squared = squares[0] + squares[1].mT - 2 * self._moved(x @ y.mT)
        return self._moved(squared.clamp(min=0).sqrt())

    def _tosses(self) -> bool:
        return bool(torch.rand((), generator=self._generator) < 0.5)

    def _draw(self, value: torch.Tensor) -> torch.Tensor:
        drawn = torch.rand(value.shape, generator=self._generator, dtype=torch.float64) * 2 - 1
        return drawn * _AMPLITUDES[value.dtype]

    def _moved(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in _AMPLITUDES and value.numel():
            value.copy_((value.double() * (1 + self._draw(value))).to(value.dtype))
        return value

    def _shifted(self, value: Any, scale: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in _AMPLITUDES and value.numel():
            value.copy_((self._moved(value).double() + 0.05 * scale * self._draw(value)).to(value.dtype))
        return value

    def _apart(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in _AMPLITUDES and value.numel():
            finite = value[torch.isfinite(value)]
            scale = float(finite.abs().max()) if finite.numel() else 1.0
            return (value.double() + (scale or 1.0) * self._draw(value)).to(value.dtype)
        return value
