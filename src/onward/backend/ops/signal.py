"""Transforms and windows."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ...onnx_operators.python_numbers import number
from ..limits import FOR_EACH, about_to_make
from ..registry import implements
from ..values import holder


def _windowed(size: Tensor, output_datatype: int, periodic: int, coefficients: tuple[float, ...]) -> Tensor:
    count = int(number(size))
    steps = count if periodic else count - 1
    angle = torch.arange(count, dtype=torch.float64) * (2 * math.pi / steps)
    total = sum((-1) ** k * c * torch.cos(k * angle) for k, c in enumerate(coefficients))
    return torch.as_tensor(total).to(holder(output_datatype))


@implements("HannWindow")
def hann_window(size: Tensor, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    return _windowed(size, output_datatype, periodic, (0.5, 0.5))


@implements("HammingWindow")
def hamming_window(size: Tensor, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    return _windowed(size, output_datatype, periodic, (25 / 46, 21 / 46))


@implements("BlackmanWindow")
def blackman_window(size: Tensor, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    return _windowed(size, output_datatype, periodic, (0.42, 0.5, 0.08))


@implements("DFT")
def dft(
    x: Tensor, dft_length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0, opset: int
) -> Tensor:
    """Complex numbers are a last axis of two; a last axis of one is their real part."""
    along = (1 if opset < 20 else -2) if axis is None else int(number(axis))
    along = along % x.dim()
    length = None if dft_length is None else int(number(dft_length))
    whole = torch.view_as_complex(x.contiguous()) if x.shape[-1] == 2 else x[..., 0]
    if inverse and onesided:
        return torch.fft.irfft(whole, length, along).unsqueeze(-1)
    if inverse:
        result = torch.fft.ifft(whole, length, along)
    elif onesided and not whole.is_complex():
        result = torch.fft.rfft(whole, length, along)
    else:
        result = torch.fft.fft(whole, length, along)
    return torch.view_as_real(result).to(x.dtype)


@implements("STFT")
def stft(
    signal: Tensor, frame_step: Tensor, window: Tensor | None = None, frame_length: Any = None, *, onesided: int = 1
) -> Tensor:
    step = int(number(frame_step))
    if frame_length is not None:
        length = int(number(frame_length))
    elif window is not None:
        length = window.shape[0]
    else:
        raise ValueError("STFT has neither a window nor a frame_length")
    whole = torch.view_as_complex(signal.contiguous()) if signal.shape[-1] == 2 else signal.reshape(signal.shape[:2])
    frames = whole.unfold(1, length, step)
    frames = frames if window is None else frames * window
    result = torch.fft.rfft(frames) if onesided and not frames.is_complex() else torch.fft.fft(frames)
    return torch.view_as_real(result).to(signal.dtype)


@implements("MelWeightMatrix")
def mel_weight_matrix(
    num_mel_bins: Tensor,
    dft_length: Tensor,
    sample_rate: Tensor,
    lower_edge_hertz: Tensor,
    upper_edge_hertz: Tensor,
    *,
    output_datatype: int = 1,
) -> Tensor:
    """Triangles over frequencies, as wide as hearing is precise."""
    bins, length, rate = int(number(num_mel_bins)), int(number(dft_length)), int(number(sample_rate))
    about_to_make(bins + length, FOR_EACH)
    low, high = (2595 * math.log10(1 + number(edge) / 700) for edge in (lower_edge_hertz, upper_edge_hertz))
    mels = low + (high - low) / (bins + 2) * torch.arange(bins + 2, dtype=torch.float64)
    hertz = 700 * (10 ** (mels / 2595) - 1)
    edges = torch.floor((length + 1) * hertz / rate).to(torch.int64).tolist()
    result = torch.zeros(length // 2 + 1, bins, dtype=torch.float64)
    for place in range(bins):
        left, top, right = edges[place : place + 3]
        if top == left:
            result[top, place] = 1
        for row in range(left, top + 1 if top > left else left):
            result[row, place] = (row - left) / (top - left)
        for row in range(top, right):
            result[row, place] = (right - row) / (right - top)
    return result.to(holder(output_datatype))
