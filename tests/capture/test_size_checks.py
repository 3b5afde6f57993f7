"""No kernel runs on sizes that do not fit. Each export runs in a process of its own: what is tested here kills it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from onward.capture.ground._checking_kernels import CHECKING_KERNELS
from onward.capture.ground.size_checks import SizesDoNotFit, check_sizes, is_checked
from onward.capture.sizes.layout_rules import ProbeFailure
from onward.capture.sizes.layouts import Layout, LayoutKernels

aten = torch.ops.aten

_PROGRAM = """
import torch, onward
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {layer}
        self.register_buffer("h", torch.zeros({h}))
        self.register_buffer("c", torch.zeros({c}))

    def forward(self, x{more}):
        return self.layer(x, {state})[0]

try:
    onward.export(
        Model().eval(), ({example}, {states}), input_names={names}, dynamic_axes={{"x": {{{axis}: "batch"}}}}
    )
except onward.errors.ExportError as error:
    print(type(error).__name__, error)
else:
    print("exported")
"""

_LAYERS = {
    # layer, x, axis of the batch, h, c
    "lstm": ("nn.LSTM(5, 3)", "torch.randn(4, 2, 5)", 1, "1, 2, 3", "1, 2, 3"),
    "batch first": ("nn.LSTM(5, 3, batch_first=True)", "torch.randn(2, 4, 5)", 0, "1, 2, 3", "1, 2, 3"),
    "two ways": ("nn.LSTM(5, 3, 2, bidirectional=True)", "torch.randn(4, 2, 5)", 1, "4, 2, 3", "4, 2, 3"),
    "projected": ("nn.LSTM(5, 4, proj_size=3)", "torch.randn(4, 2, 5)", 1, "1, 2, 3", "1, 2, 4"),
    "example of 1": ("nn.LSTM(5, 3)", "torch.randn(4, 1, 5)", 1, "1, 1, 3", "1, 1, 3"),
    "gru": ("nn.GRU(5, 3)", "torch.randn(4, 2, 5)", 1, "1, 2, 3", "1"),
    "rnn": ("nn.RNN(5, 3, nonlinearity='relu')", "torch.randn(4, 2, 5)", 1, "1, 2, 3", "1"),
    "lstm cell": ("nn.LSTMCell(5, 3)", "torch.randn(2, 5)", 0, "2, 3", "2, 3"),
    "gru cell": ("nn.GRUCell(5, 3)", "torch.randn(2, 5)", 0, "2, 3", "1"),
    "rnn cell": ("nn.RNNCell(5, 3)", "torch.randn(2, 5)", 0, "2, 3", "1"),
}


# One process imports everything, and runs each program in a child of its own.
_RUNNER = """
import os, pathlib, runpy, sys
import torch, onward
onward.export

for folder in map(pathlib.Path, sys.argv[1:]):
    child = os.fork()
    if child == 0:
        out = os.open(folder / "said", os.O_CREAT | os.O_WRONLY)
        os.dup2(out, 1), os.dup2(out, 2)
        runpy.run_path(str(folder / "model.py"), run_name="__main__")
        sys.stdout.flush()
        os._exit(0)
    (folder / "ended").write_text(str(os.waitpid(child, 0)[1]))
"""


def _alone(sources: dict[str, str], folder: Path) -> dict[str, str]:
    """What programs print; each must end by itself."""
    folders = {name: folder / str(place) for place, name in enumerate(sources)}
    for name, each in folders.items():
        each.mkdir()
        (each / "model.py").write_text(sources[name], encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-c", _RUNNER, *map(str, folders.values())]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    said = {name: (each / "said").read_text(encoding="utf-8") for name, each in folders.items()}
    failed = {name: said[name][-2000:] for name, each in folders.items() if (each / "ended").read_text() != "0"}
    assert not failed, failed
    return said


def _program(name: str, *, buffers: bool) -> str:
    layer, example, axis, h, c = _LAYERS[name]
    two = "LSTM" in layer
    states = f"torch.zeros({h}), torch.zeros({c})" if two else f"torch.zeros({h}),"
    kept = "(self.h, self.c)" if two else "self.h"
    return _PROGRAM.format(
        layer=layer, h=h, c=c, example=example, axis=axis,
        more="" if buffers else ", h, c" if two else ", h",
        state=kept if buffers else kept.replace("self.", ""),
        states="" if buffers else states,
        names=["x"] if buffers else ["x", "h", "c"][: 3 if two else 2],
    )  # fmt: skip


@pytest.mark.parametrize("buffers", [False, True], ids=["inputs", "buffers"])
def test_a_batch_that_a_fixed_state_does_not_follow_is_refused_with_its_line(buffers, tmp_path) -> None:
    answers = _alone({name: _program(name, buffers=buffers) for name in _LAYERS}, tmp_path)
    for name, said in answers.items():
        assert "exported" not in said, name
        assert "'batch'" in said, name
        assert "model.py:13" in said, name
    if not buffers:
        assert "Expected hidden[0] size (1, 4, 3), got [1, 2, 3]" in answers["lstm"]


_BELOW_THE_LAYER = """
import torch, onward

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.LSTM(5, 3)

    def forward(self, x, h, c):
        return torch.lstm(x, (h, c), self.layer._flat_weights, True, 1, 0.0, False, False, False)[0]

x, h = torch.randn(4, 2, 5), torch.zeros(1, 2, 3)
try:
    onward.export(Model(), (x, h, h.clone()), input_names=["x", "h", "c"], dynamic_axes={"x": {1: "batch"}})
except onward.errors.RefusedSizesError as error:
    print(error)
"""


def test_without_the_layers_own_check_the_error_names_what_does_not_fit(tmp_path) -> None:
    said = _alone({"model": _BELOW_THE_LAYER}, tmp_path)["model"]
    assert said.startswith("the model works on the example but not at other sizes of 'batch'"), said
    assert "and that of the state h_0 is 2" in said and "model.py:10" in said
    assert "give axes that must be equal one name" in said


_PACKED = """
import torch, onward
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.LSTM(5, 3)

    def forward(self, x, lengths, h, c):
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        return pad_packed_sequence(self.layer(packed, (h, c))[0])[0]

x, h = torch.randn(4, 2, 5), torch.zeros(1, 2, 3)
try:
    onward.export(
        Model(), (x, torch.tensor([4, 3]), h, h.clone()), input_names=["x", "lengths", "h", "c"],
        dynamic_axes={"x": {1: "batch"}, "lengths": {0: "batch"}},
    )
    print("exported")
except onward.errors.ExportError as error:
    print(error)
"""


def test_packed_sequences_with_a_fixed_state_are_refused(tmp_path) -> None:
    said = _alone({"model": _PACKED}, tmp_path)["model"]
    assert "exported" not in said
    assert "model.py:12" in said or "model.py:11" in said, said


def _of(*size: int, dtype: torch.dtype = torch.float32) -> Layout:
    return Layout.of(torch.empty(size, dtype=dtype, device="meta"))


_LSTM = [_of(12, 5), _of(12, 3), _of(12), _of(12)]
_WRONG = {
    "state": (aten.lstm.input, (_of(4, 7, 5), [_of(1, 2, 3)] * 2, _LSTM, True, 1, 0.0, False, False, False)),
    "cell": (aten.lstm.input, (_of(4, 2, 5), [_of(1, 2, 3), _of(1, 1, 3)], _LSTM, True, 1, 0.0, False, False, False)),
    "layers": (aten.lstm.input, (_of(4, 2, 5), [_of(2, 2, 3)] * 2, _LSTM, True, 1, 0.0, False, False, False)),
    "features": (aten.lstm.input, (_of(4, 2, 9), [_of(1, 2, 3)] * 2, _LSTM, True, 1, 0.0, False, False, False)),
    "packed": (aten.gru.data, (_of(4, 5), _of(2), _of(1, 2, 3), _LSTM, True, 1, 0.0, False, False)),
    "statistics": (aten.native_batch_norm.default, (_of(2, 6, 4), _of(1), None, None, None, True, 0.1, 1e-5)),
    "keys": (aten.scaled_dot_product_attention.default, (_of(1, 2, 4, 8), _of(1, 2, 3, 8), _of(1, 2, 9, 8))),
    "norm": (aten._weight_norm_interface.default, (_of(3, 2), _of(1, 1), 0)),
    "pivots": (aten.lu_unpack.default, (_of(4, 4), _of(2, dtype=torch.int32))),
    "blank": (aten.ctc_loss.IntList, (_of(6, 2, 3), _of(2, 2, dtype=torch.int64), [6, 6], [2, 2], 5)),
    "kernel": (aten.slow_conv3d.default, (_of(1, 3, 5, 5, 5), _of(4, 3, 1, 1, 1), [3, 3, 3])),
}


@pytest.mark.parametrize("case", _WRONG)
def test_sizes_that_a_kernel_does_not_check_are_refused_before_it_runs(case) -> None:
    op, args = _WRONG[case]
    with pytest.raises(ProbeFailure):
        LayoutKernels().run(op, args, {})


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("layers, two_ways, bias", [(1, False, True), (2, True, True), (2, True, False)])
def test_sizes_that_fit_pass(kind, layers, two_ways, bias) -> None:
    layer = getattr(torch.nn, kind)(5, 3, layers, bidirectional=two_ways, bias=bias)
    op = {"LSTM": aten.lstm.input, "GRU": aten.gru.input, "RNN": aten.rnn_tanh.input}[kind]
    h = _of(layers * (1 + two_ways), 7, 3)
    weights = [Layout.of(each) for each in layer._flat_weights]
    state = [h, h] if kind == "LSTM" else h
    check_sizes(op, (_of(4, 7, 5), state, weights, bias, layers, 0.0, False, two_ways, False), {})
    with pytest.raises(SizesDoNotFit, match="the input's batch is 6"):
        check_sizes(op, (_of(4, 6, 5), state, weights, bias, layers, 0.0, False, two_ways, False), {})


def test_a_kernel_of_pytorchs_that_nobody_tried_does_not_run_where_its_meta_kernel_refuses() -> None:
    assert str(aten.max_pool2d_with_indices_backward.default) not in CHECKING_KERNELS
    grad, x, indices = _of(1, 1, 2, 2), _of(1, 1, 4, 4), _of(1, 1, 9, 9, dtype=torch.int64)
    with pytest.raises(ProbeFailure):
        LayoutKernels().run(
            aten.max_pool2d_with_indices_backward.default, (grad, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices), {}
        )


def test_where_a_fake_kernel_refuses_the_real_one_does_not_run() -> None:
    calls = []

    @torch.library.custom_op("size_checks::same", mutates_args=())
    def same(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape)
        return x + y.sum()

    with pytest.raises(ProbeFailure):  # it ran, on zeros, and refused: there is no fake kernel yet
        LayoutKernels().run(torch.ops.size_checks.same.default, (_of(2), None), {})
    assert calls == [(2,)]
    calls.clear()

    @same.register_fake
    def _(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape == y.shape, lambda: "x and y differ")
        return torch.empty_like(x)

    op = torch.ops.size_checks.same.default
    assert LayoutKernels().run(op, (_of(2), _of(2)), {}).size == (2,)
    with pytest.raises(ProbeFailure, match="x and y differ"):
        LayoutKernels().run(op, (_of(2), _of(3)), {})
    assert not calls


def test_the_list_of_kernels_that_check_has_none_that_is_known_not_to() -> None:
    for op in (aten._upsample_bilinear2d_aa.default, aten.unfold_backward.default):
        assert str(op) not in CHECKING_KERNELS
    assert is_checked(aten.lstm.input) and str(aten.index.Tensor) in CHECKING_KERNELS
