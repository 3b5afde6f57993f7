"""onnx's own suite holds files that PyTorch exported years ago, with inputs and what must come out.

The same modules, written here with the weights of those files, must give the same results from our files. The folder's
names are the suite's; a folder without a row fails the last test.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn

import onward

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
ROWS: dict[str, Callable[..., Any]] = {
    # modules; weights are the file's, in its order
    "AvgPool1d": nn.AvgPool1d(2),
    "AvgPool1d_stride": nn.AvgPool1d(2, 2),
    "AvgPool2d": nn.AvgPool2d((2, 2)),
    "AvgPool2d_stride": nn.AvgPool2d((2, 2), (2, 2)),
    "AvgPool3d": nn.AvgPool3d((2, 2, 2)),
    "AvgPool3d_stride": nn.AvgPool3d(2, (2, 2, 2)),
    "AvgPool3d_stride1_pad0_gpu_input": nn.AvgPool3d(3, 1, 0),
    "BatchNorm1d_3d_input_eval": nn.BatchNorm1d(5),
    "BatchNorm2d_eval": nn.BatchNorm2d(3),
    "BatchNorm2d_momentum_eval": nn.BatchNorm2d(3, 1e-3, 0.8),
    "BatchNorm3d_eval": nn.BatchNorm3d(3),
    "BatchNorm3d_momentum_eval": nn.BatchNorm3d(3, 1e-3, 0.7),
    "ConstantPad2d": nn.ConstantPad2d((1, 2, 3, 4), 2.0),
    "Conv1d": nn.Conv1d(4, 5, 3),
    "Conv1d_dilated": nn.Conv1d(4, 5, 3, dilation=2),
    "Conv1d_groups": nn.Conv1d(4, 6, 3, groups=2),
    "Conv1d_pad1": nn.Conv1d(4, 5, 3, padding=1),
    "Conv1d_pad1size1": nn.Conv1d(4, 4, 3, padding=1),
    "Conv1d_pad2": nn.Conv1d(4, 5, 5, padding=2),
    "Conv1d_pad2size1": nn.Conv1d(4, 4, 5, padding=2),
    "Conv1d_stride": nn.Conv1d(4, 5, 3, stride=2),
    "Conv2d": nn.Conv2d(3, 4, (3, 2)),
    "Conv2d_depthwise": nn.Conv2d(4, 4, 3, groups=4),
    "Conv2d_depthwise_padded": nn.Conv2d(4, 4, 3, padding=1, groups=4),
    "Conv2d_depthwise_strided": nn.Conv2d(4, 4, 3, stride=2, groups=4),
    "Conv2d_depthwise_with_multiplier": nn.Conv2d(4, 8, 3, groups=4),
    "Conv2d_dilated": nn.Conv2d(3, 2, 3, stride=2, padding=1, dilation=2),
    "Conv2d_groups": nn.Conv2d(4, 6, (3, 2), groups=2),
    "Conv2d_groups_thnn": nn.Conv2d(4, 6, (3, 2), groups=2),
    "Conv2d_no_bias": nn.Conv2d(3, 4, (3, 2), bias=False),
    "Conv2d_padding": nn.Conv2d(3, 4, 3, stride=2, padding=1),
    "Conv2d_strided": nn.Conv2d(3, 4, 3, stride=2),
    "Conv3d": nn.Conv3d(3, 4, (2, 3, 4)),
    "Conv3d_dilated": nn.Conv3d(3, 4, 2, dilation=2),
    "Conv3d_dilated_strided": nn.Conv3d(3, 4, 2, stride=2, dilation=2),
    "Conv3d_groups": nn.Conv3d(4, 6, 3, groups=2),
    "Conv3d_no_bias": nn.Conv3d(3, 4, (2, 3, 4), bias=False),
    "Conv3d_stride": nn.Conv3d(3, 4, 2, stride=2),
    "Conv3d_stride_padding": nn.Conv3d(3, 4, 2, stride=2, padding=1),
    "ConvTranspose2d": nn.ConvTranspose2d(3, 4, 3, (3, 2), 1, (1, 1)),
    "ConvTranspose2d_no_bias": nn.ConvTranspose2d(3, 4, 3, (2, 3), 1, (1, 1), bias=False),
    "ELU": nn.ELU(2.0),
    "Embedding": nn.Embedding(4, 3),
    "Embedding_sparse": nn.Embedding(4, 3, sparse=True),
    "GLU": nn.GLU(),
    "GLU_dim": nn.GLU(1),
    "LeakyReLU": nn.LeakyReLU(),
    "LeakyReLU_with_negval": nn.LeakyReLU(0.5),
    "Linear": nn.Linear(10, 8),
    "Linear_no_bias": nn.Linear(10, 8, bias=False),
    "LogSoftmax": nn.LogSoftmax(1),
    "MaxPool1d": nn.MaxPool1d(4),
    "MaxPool1d_stride": nn.MaxPool1d(4, 4),
    "MaxPool1d_stride_padding_dilation": nn.MaxPool1d(200, 10, 100, 10),
    "MaxPool2d": nn.MaxPool2d((3, 3), (2, 2), (1, 1)),
    "MaxPool2d_stride_padding_dilation": nn.MaxPool2d((60, 80), 10, (10, 20), 10),
    "MaxPool3d": nn.MaxPool3d((2, 2, 2)),
    "MaxPool3d_stride": nn.MaxPool3d(2, (2, 2, 2)),
    "MaxPool3d_stride_padding": nn.MaxPool3d(2, (2, 2, 2), (1, 1, 1)),
    "PReLU_1d": nn.PReLU(),
    "PReLU_1d_multiparam": nn.PReLU(3),
    "PReLU_2d": nn.PReLU(),
    "PReLU_2d_multiparam": nn.PReLU(3),
    "PReLU_3d": nn.PReLU(),
    "PReLU_3d_multiparam": nn.PReLU(3),
    "PixelShuffle": nn.PixelShuffle(3),
    "ReLU": nn.ReLU(),
    "ReflectionPad2d": nn.ReflectionPad2d((1, 2, 3, 4)),
    "ReplicationPad2d": nn.ReplicationPad2d((1, 2, 3, 4)),
    "SELU": nn.SELU(),
    "Sigmoid": nn.Sigmoid(),
    "Softmax": nn.Softmax(1),
    "Softmin": nn.Softmin(1),
    "Softplus": nn.Softplus(),
    "Softsign": nn.Softsign(),
    "Tanh": nn.Tanh(),
    "ZeroPad2d": nn.ZeroPad2d((1, 2, 3, 4)),
    # functions; what the file holds besides is passed after the inputs
    "PoissonNLLLLoss_no_reduce": lambda x, target: F.poisson_nll_loss(x, target, reduction="none"),
    "log_softmax_dim3": lambda x: F.log_softmax(x, 3),
    "log_softmax_lastdim": lambda x: F.log_softmax(x, -1),
    "softmax_functional_dim3": lambda x: F.softmax(x, 3),
    "softmax_lastdim": lambda x: F.softmax(x, 1),
    "operator_add_broadcast": torch.add,
    "operator_add_size1_broadcast": torch.add,
    "operator_add_size1_right_broadcast": torch.add,
    "operator_add_size1_singleton_broadcast": torch.add,
    "operator_addconstant": lambda x: x + 1,
    "operator_addmm": lambda x, y, z: torch.addmm(torch.addmm(z, x, y), x, y),
    "operator_basic": lambda x, y: -torch.sigmoid(torch.tanh(x * (x + y))),
    "operator_chunk": lambda x: x.chunk(2),
    "operator_clip": lambda x: x.clamp(-0.5, 0.5),
    "operator_concat2": lambda x, y: torch.cat((x, y), 1),
    "operator_conv": nn.Conv2d(16, 13, 3, bias=False),
    "operator_convtranspose": nn.ConvTranspose2d(3, 3, 3, 3, 1, 2, bias=False),
    "operator_exp": torch.exp,
    "operator_flatten": lambda x: x.view(x.size(0), -1),
    "operator_index": lambda x: x[0],
    "operator_max": torch.max,
    "operator_maxpool": nn.MaxPool1d(3, 2),
    "operator_min": torch.min,
    "operator_mm": torch.mm,
    "operator_non_float_params": lambda x, weight: x * (x + weight),
    "operator_pad": nn.ReflectionPad2d((2, 3, 0, 1)),
    "operator_params": lambda x, weight: -torch.sigmoid(torch.tanh(x * (x + weight))),
    "operator_permute2": lambda x: x.permute(0, 1, 4, 2, 5, 3),
    "operator_pow": torch.pow,
    "operator_reduced_mean": lambda x: x.mean(2),
    "operator_reduced_mean_keepdim": lambda x: x.mean(2, keepdim=True),
    "operator_reduced_sum": lambda x: x.sum(2),
    "operator_reduced_sum_keepdim": lambda x: x.sum(2, keepdim=True),
    "operator_repeat": lambda x: x.repeat(1, 2, 3, 4),
    "operator_repeat_dim_overflow": lambda x: x.repeat(1, 2, 3, 4),
    "operator_selu": torch.selu,
    "operator_sqrt": torch.sqrt,
    "operator_symbolic_override": lambda x, weight, bias: F.instance_norm(x, weight=weight, bias=bias, eps=1e-9),
    "operator_symbolic_override_nested": lambda x, y, z: (x + y + z, -x, -y),
    "operator_view": lambda x: x.view(1, -1),
}


def folder(name: str) -> Path:
    return DATA / ("pytorch-operator" if name.startswith("operator_") else "pytorch-converted") / f"test_{name}"


def tensors(folder: Path, kind: str) -> list[torch.Tensor]:
    paths = sorted(folder.glob(f"{kind}_*.pb"), key=lambda path: int(path.stem.rpartition("_")[2]))
    return [torch.from_numpy(np.array(numpy_helper.to_array(onnx.load_tensor(path)))) for path in paths]


def weights(file: onnx.ModelProto) -> list[torch.Tensor]:
    """What the old file holds: its initializers, or the one constant that is no number."""
    found = [numpy_helper.to_array(each) for each in file.graph.initializer]
    constants = [numpy_helper.to_array(node.attribute[0].t) for node in file.graph.node if node.op_type == "Constant"]
    found += [each for each in constants if each.size > 10]
    return [torch.from_numpy(np.array(each)) for each in found]


CASES = [(name, opset) for name in ROWS for opset in (9, 20) if opset > 9 or "_dilation" not in name]  # of pools: 10+


@pytest.mark.parametrize(("name", "opset"), CASES)
def test_our_file_gives_what_the_old_one_gave(name: str, opset: int, tmp_path: Path) -> None:
    model, place = ROWS[name], folder(name)
    held = weights(onnx.load(place / "model.onnx"))
    inputs, expected = (tensors(place / "test_data_set_0", kind) for kind in ("input", "output"))
    if isinstance(model, nn.Module):
        state = [key for key in model.eval().state_dict() if not key.endswith("num_batches_tracked")]
        model.load_state_dict(dict(zip(state, held, strict=True)), strict=False)
    else:
        inputs = [*inputs, *held]
    onward.export(model, tuple(inputs), tmp_path / "model.onnx", opset_version=opset)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    found = session.run(None, {name: each.numpy() for name, each in zip(names, inputs, strict=True)})
    for have, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(have, want.numpy(), rtol=1e-3, atol=1e-5)


def test_no_file_of_the_suite_is_left_out() -> None:
    folders = [*(DATA / "pytorch-converted").iterdir(), *(DATA / "pytorch-operator").iterdir()]
    assert {each.name.removeprefix("test_") for each in folders} == ROWS.keys()
