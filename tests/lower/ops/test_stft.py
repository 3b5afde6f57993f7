"""Short-time Fourier transforms, there and back, with time as an axis that varies."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ..harness import NEWEST, Case, case, f32, floats, run

OPSETS = (9, 13, 17, 20, NEWEST)
HANN, SHORT = torch.hann_window(16), torch.hamming_window(10)


def there(name: str, *size: int, **options: Any) -> Case:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.stft(x, 16, **{"return_complex": True, "window": HANN, **options})

    dynamic = {0: {len(size) - 1: "time"} | ({0: "batch"} if len(size) > 1 else {})}
    return case(name, function, [f32(*size)], dynamic=dynamic, opsets=OPSETS, sizes=(30, 41))


def back(name: str, bins: int, frames: int = 13, **options: Any) -> Case:
    def function(z: torch.Tensor) -> torch.Tensor:
        return torch.istft(z, 16, **{"window": HANN, **options})

    spectrum = torch.complex(f32(2, bins, frames), f32(2, bins, frames, seed=1))
    dynamic = {0: {0: "batch", 2: "time"}}
    return case(name, function, [spectrum], dynamic=dynamic, opsets=OPSETS, sizes=(5, 20))


def around(x: torch.Tensor) -> torch.Tensor:
    spectrum = torch.stft(x, 16, 4, window=HANN, return_complex=True)
    return torch.istft(spectrum * 0.5, 16, 4, window=HANN, length=x.shape[-1])


CASES = [
    there("stft", 2, 50, hop_length=4),
    there("stft of one signal", 50),
    there("not centered", 2, 50, center=False),
    there("constant padding", 2, 50, hop_length=5, pad_mode="constant"),
    there("replicated", 2, 50, hop_length=5, pad_mode="replicate"),
    there("a short window", 2, 50, window=SHORT, win_length=10),
    there("no window", 2, 50, window=None, win_length=12),
    there("normalized", 2, 50, normalized=True),
    there("both sides", 2, 50, onesided=False),
    case("as reals", lambda x: torch.view_as_real(torch.stft(x, 16, window=HANN, return_complex=True)), [f32(2, 50)],
         dynamic={0: {1: "time"}}, opsets=OPSETS, sizes=(30, 41)),
    case("power spectrum in float64", lambda x: torch.stft(x, 16, window=HANN.double(), return_complex=True).abs() ** 2,
         [floats(2, 50, dtype=torch.float64)], dynamic={0: {1: "time"}}, opsets=(9, 20), sizes=(30, 41)),
    back("istft", 9, hop_length=4),
    back("istft, hops that do not divide the window", 9, hop_length=5),
    back("istft, a short window", 9, hop_length=4, window=SHORT, win_length=10),
    back("istft, normalized", 9, hop_length=4, normalized=True),
    back("istft, both sides", 16, hop_length=4, onesided=False),
    back("istft, both sides, complex", 16, hop_length=4, onesided=False, return_complex=True),
    case("there and back", around, [f32(2, 50)], dynamic={0: {0: "batch", 1: "time"}}, opsets=OPSETS, sizes=(30, 41)),
]  # fmt: skip


@pytest.mark.parametrize("row", CASES, ids=str)
def test_case(row: Case) -> None:
    run(row)
