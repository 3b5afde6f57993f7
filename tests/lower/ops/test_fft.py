"""Fourier transforms: by a matrix or by DFT, at known and unknown sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fft

import onward

from ..harness import NEWEST, Case, case, check, f32, floats, run

OPSETS = (9, 13, 17, 20, NEWEST)


def c64(*size: int, seed: int = 0) -> torch.Tensor:
    return torch.complex(f32(*size, seed=seed), f32(*size, seed=seed + 50))


def row(name: str, function: Callable[..., Any], x: torch.Tensor, axes: tuple[int, ...] = (), **options: Any) -> Case:
    """A case whose batch, and the axes named, are dynamic."""
    named = {0: "batch", **{axis: f"size_{axis}" for axis in axes}}
    return case(name, function, [x], dynamic={0: named}, **{"opsets": OPSETS, "sizes": (2, 7), **options})


def _convolution(x: torch.Tensor) -> torch.Tensor:
    """Longer than the sum of both, as long convolutions (Hyena, S4) do it."""
    n = 2 * x.shape[-1]
    kernel = torch.exp(-torch.arange(x.shape[-1]) / 3.0)
    return fft.irfft(fft.rfft(x, n=n) * fft.rfft(kernel, n=n), n=n)[..., : x.shape[-1]]


NORMS = (None, "forward", "backward", "ortho")
KNOWN = [
    row("fft of reals", fft.fft, f32(3, 10)),
    row("fft", fft.fft, c64(3, 10)),
    row("ifft", fft.ifft, c64(3, 9)),
    row("rfft", fft.rfft, f32(3, 9)),
    row("irfft", fft.irfft, c64(3, 9)),
    row("irfft of odd length", lambda z: fft.irfft(z, 13), c64(3, 7)),
    row("irfft of reals", fft.irfft, f32(3, 7)),
    row("hfft", fft.hfft, c64(3, 6)),
    row("ihfft", fft.ihfft, f32(3, 8)),
    row("fft2", fft.fft2, c64(3, 6, 5)),
    row("rfft2", fft.rfft2, f32(3, 6, 5)),
    row("irfft2", fft.irfft2, c64(3, 6, 5)),
    row("hfft2", fft.hfft2, c64(3, 6, 5)),
    row("ihfft2", fft.ihfft2, f32(3, 6, 5)),
    row("fftn over three axes", lambda z: fft.fftn(z, dim=(1, 2, 3)), c64(3, 4, 2, 5)),
    row("ifftn", lambda z: fft.ifftn(z, dim=(1, 3)), c64(3, 4, 2, 5)),
    row("rfftn", lambda x: fft.rfftn(x, dim=(3, 1)), f32(3, 4, 2, 5)),
    row("irfftn", lambda z: fft.irfftn(z, s=(4, 6), dim=(1, 2)), c64(3, 4, 4)),
    row("along another axis", lambda x: fft.rfft(x, dim=1), f32(3, 6, 2, 2)),
    row("fft along the second last axis", lambda z: fft.ifft(z, dim=-2), c64(3, 6, 2)),
    row("cropped", lambda z: fft.fft(z, 6), c64(3, 10)),
    row("padded", lambda z: fft.rfft(z, 16), f32(3, 10)),
    row("fft2 with sizes", lambda z: fft.fft2(z, s=(4, 9)), c64(3, 6, 5)),
    row("shift", lambda z: fft.fftshift(fft.fft(z), dim=-1), c64(3, 10)),
    row("shift back", lambda z: fft.ifft(fft.ifftshift(z, dim=1)), c64(3, 9)),
    row("there and back", lambda x: fft.irfft(fft.rfft(x) * 2, n=10), f32(3, 10)),
    row("float64", lambda x: (fft.rfft(x), fft.irfft(fft.rfft(x), n=11)), floats(3, 11, dtype=torch.float64)),
]
KNOWN += [
    row(f"{function.__name__} with norm={norm}", lambda x, f=function, n=norm: f(x, norm=n), x, opsets=(9, 20))
    for function, x in ((fft.fft, c64(3, 6)), (fft.ifft, c64(3, 6)), (fft.rfft, f32(3, 6)), (fft.irfft, c64(3, 6)),
                        (fft.hfft, c64(3, 6)), (fft.ihfft, f32(3, 6)))
    for norm in NORMS
]  # fmt: skip

UNKNOWN = [
    row("fft of reals at any size", fft.fft, f32(3, 10), (1,)),
    row("fft at any size", lambda z: fft.fft(z, norm="ortho"), c64(3, 10), (1,)),
    row("ifft at any size", fft.ifft, c64(3, 9), (1,)),
    row("ifft at any size, not divided", lambda z: fft.ifft(z, norm="forward"), c64(3, 9), (1,)),
    row("rfft at any size", fft.rfft, f32(3, 9), (1,)),
    row("irfft at any size", fft.irfft, c64(3, 9), (1,)),
    row("irfft with a length", lambda x: fft.irfft(fft.rfft(x), n=x.shape[1]), f32(3, 9), (1,)),
    row("hfft at any size", lambda z: fft.hfft(z, norm="ortho"), c64(3, 6), (1,)),
    row("rfft2 at any size", fft.rfft2, f32(3, 6, 5), (1, 2)),
    row("irfft2 at any size", fft.irfft2, c64(3, 6, 5), (1, 2)),
    row("fftn at any size", lambda z: fft.fftn(z, dim=(1, 2)), c64(3, 6, 5), (1, 2)),
    row("cropped or padded", lambda z: fft.fft(z, 6), c64(3, 10), (1,)),
    row("padded or cropped", lambda x: fft.rfft(x, 16, norm="ortho"), f32(3, 10), (1,)),
    row("two axes cropped or padded", lambda z: fft.fft2(z, s=(3, 6)), c64(3, 6, 5), (1, 2)),
    row("one size of two", lambda z: fft.ifft2(z, s=(-1, 6)), c64(3, 6, 5), (1, 2)),
    row("irfft of a given length", lambda z: fft.irfft(z, 9), c64(3, 10), (1,)),
    row("hfft2 of given sizes", lambda z: fft.hfft2(z, s=(4, 7), norm="ortho"), c64(3, 6, 5), (1, 2)),
    row("ihfft2 of given sizes", lambda x: fft.ihfft2(x, s=(4, 7)), f32(3, 6, 5), (1, 2)),
    row("twice as long", lambda x: fft.rfft(x, 2 * x.shape[1]), f32(3, 10), (1,), opsets=(11, 13, 17, 20, NEWEST)),
    row("convolution by spectra", _convolution, f32(3, 10), (1,), opsets=(11, 17, 20)),
    row("of integers", lambda x: fft.fft(x), torch.arange(30).reshape(3, 10), (1,)),
    row("first axis", lambda z: fft.fft(z, dim=0), c64(3, 4)),
    row("cropped to a known size", lambda z: fft.fft(z[:, :2], 2), c64(3, 10), (1,)),
    row("shifted at any size", lambda z: fft.fftshift(z, dim=-1), c64(3, 10), (1,)),
    row("frequencies", lambda x: (x + fft.fftfreq(x.shape[1]), x[:, : x.shape[1] // 2 + 1] * fft.rfftfreq(x.shape[1])),
        f32(3, 10), (1,)),
    row("float64 at any size", fft.rfft, floats(3, 9, dtype=torch.float64), (1,)),
]  # fmt: skip


@pytest.mark.parametrize("row", KNOWN + UNKNOWN, ids=str)
def test_transforms(row: Case) -> None:
    run(row)


LARGE = [
    case("a power of two", fft.rfft, [f32(2, 4096)], opsets=(17, 20)),
    case("no power of two", fft.rfft, [f32(2, 3000)], opsets=(17, 20)),
    case("back", lambda z: fft.irfft(z, 3000), [c64(2, 1501)], opsets=(17, 20)),
    case("by a large matrix", fft.fft, [c64(2, 500)], opsets=(9, 20)),
]


@pytest.mark.parametrize("row", LARGE, ids=str)
def test_large_transforms(row: Case) -> None:
    run(row)


@pytest.mark.parametrize("function", [fft.hfft, fft.hfftn])
@pytest.mark.parametrize("x", [c64(3, 6), f32(3, 6)], ids=["complex", "real"])
def test_the_example_is_right_where_an_operator_conjugates_inside(function: Any, x: torch.Tensor) -> None:
    program = onward.export(function, (x,), verify=True)
    torch.testing.assert_close(program.captured.example_outputs[0], function(x))


def operators(function: Callable[..., Any], x: torch.Tensor, opset: int, **axes: Any) -> list[str]:
    program = onward.export(function, (x,), input_names=["x"], opset_version=opset, **axes)
    return [node.op_type for node in program.model.graph]


def test_small_transforms_are_products() -> None:
    assert operators(lambda x: torch.view_as_real(fft.rfft(x)), f32(3, 10), 20).count("MatMul") == 2
    assert "DFT" not in operators(fft.fft, f32(3, 1000), 20)


def test_large_and_unknown_sizes_are_left_to_the_operator() -> None:
    assert operators(fft.fft, f32(2, 4096), 20) == ["Unsqueeze", "DFT"]
    assert "Cast" in operators(fft.fft, f32(2, 4095), 17)  # onnxruntime's DFT is precise in float64 alone
    assert "DFT" in operators(fft.fft, f32(2, 64), 17, dynamic_axes={"x": {1: "n"}})
    assert "DFT" not in operators(fft.fft, f32(2, 64), 16, dynamic_axes={"x": {1: "n"}})


def test_a_large_matrix_is_not_stored() -> None:
    proto = check(LARGE[-1], 20)
    assert proto.ByteSize() < 20_000
