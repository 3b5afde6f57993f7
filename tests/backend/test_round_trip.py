"""Export, run on the backend, export again: the second file verifies and has no more nodes than the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from onnx import helper
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import onward
from onward.backend import prepare
from tests.models._torchvision import torchvision_models
from tests.models._weights import seeded

Args = tuple[Tensor, ...]
Axes = Mapping[str, Mapping[int, str]]


class Transformer(nn.Module):
    """A model of transformers, which takes tokens and a mask and gives plain tensors."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torchvision_models()  # transformers imports torchvision by itself, and fails where that fails
        import transformers

        if kind == "bert":
            bert = transformers.BertConfig(
                hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=50
            )
            self.model = transformers.BertModel(bert)
        elif kind == "gpt2":
            gpt2 = transformers.GPT2Config(
                n_embd=16, n_layer=2, n_head=2, vocab_size=50, n_positions=32, bos_token_id=0, eos_token_id=0
            )
            self.model = transformers.GPT2LMHeadModel(gpt2)
        else:
            llama = transformers.LlamaConfig(
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                vocab_size=50,
                max_position_embeddings=32,
            )
            self.model = transformers.LlamaForCausalLM(llama)
        self.model.config.use_cache = False

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.model(input_ids=tokens, attention_mask=mask)[0]


class Blocks(nn.Module):
    """The blocks of a torchvision model, few and narrow."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        models = torchvision_models()
        if kind == "resnet":
            self.model: nn.Module = models.ResNet(models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=5)
        elif kind == "mobilenet":
            self.model = models.MobileNetV2(5, 0.25, [[1, 16, 1, 1], [6, 24, 2, 2]])
        elif kind == "mobilenet3":
            features = models.mobilenet_v3_small(weights=None, num_classes=5).features[:5]
            self.model = nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        elif kind == "densenet":
            self.model = models.DenseNet(4, (2, 2), 8, num_classes=5)
        elif kind == "swin":
            self.model = models.swin_transformer.SwinTransformer([4, 4], 8, [1, 1], [2, 2], [4, 4], num_classes=5)
        else:
            self.model = models.VisionTransformer(32, 8, 1, 2, 16, 32, num_classes=5)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)


class Resized(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        smooth = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        return smooth, F.interpolate(x, size=(9, 7), mode="nearest"), F.interpolate(x, size=(6, 6), mode="bicubic")


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(50, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.table(tokens).mean(1))


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.one(x), lambda x: self.two(x).relu(), (x,))


class Turns(nn.Module):
    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        for turn in range(int(turns)):
            x = torch.tanh(x) * 0.9 + float(turn)
        return x


class Sizes(nn.Module):
    """What models do with sizes."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        batch, length, width = x.shape
        short = x.reshape(batch * length, width)[:, : width - 1].reshape(batch, length, width - 1)
        places = torch.arange(length).unsqueeze(0).expand(batch, length)
        padded = torch.cat([torch.zeros(batch, 1, width - 1), short], 1)
        return padded, places, x.new_full((batch, length + 1), 2.0), F.pad(short, (0, length)), short.repeat(2, 1, 1)


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def pictures(*sizes: int) -> Args:
    batch, height, width = sizes or (2, 32, 32)
    return (torch.randn(batch, 3, height, width),)


def rows(*sizes: int) -> Args:
    return (torch.randn(*(sizes or (5, 2)), 4),)


def tokens(*sizes: int) -> Args:
    return (torch.randint(50, sizes or (2, 7)),)


def masked_tokens(*sizes: int) -> Args:
    (given,) = tokens(*sizes)
    mask = torch.ones_like(given)
    mask[-1, -2:] = 0
    return given, mask


def counted_rows(*sizes: int) -> Args:
    first, second, turns = sizes or (5, 2, 3)
    return (*rows(first, second), torch.tensor(turns))


BATCH: Axes = {"a": {0: "batch"}}
PICTURE: Axes = {"a": {0: "batch", 2: "height", 3: "width"}}
TABLE: Axes = {"a": {0: "first", 1: "second"}}
TOKENS: Axes = {"a": {0: "batch", 1: "length"}, "b": {0: "batch", 1: "length"}}


@dataclass(frozen=True)
class Case:
    make: Callable[[], nn.Module]
    args: Callable[..., Args]
    axes: Axes
    other: tuple[int, ...]  # sizes to run the second file at


CASES = {
    "resnet": Case(lambda: Blocks("resnet"), pictures, PICTURE, (3, 48, 40)),
    "mobilenet v2": Case(lambda: Blocks("mobilenet"), pictures, BATCH, (3, 32, 32)),
    "mobilenet v3": Case(lambda: Blocks("mobilenet3"), pictures, BATCH, (3, 32, 32)),
    "densenet": Case(lambda: Blocks("densenet"), pictures, BATCH, (3, 32, 32)),
    "vit": Case(lambda: Blocks("vit"), pictures, BATCH, (3, 32, 32)),
    "swin": Case(lambda: Blocks("swin"), pictures, BATCH, (3, 32, 32)),
    "lstm": Case(lambda: nn.LSTM(4, 5), rows, TABLE, (6, 3)),
    "bidirectional lstm": Case(lambda: nn.LSTM(4, 5, 2, bidirectional=True, batch_first=True), rows, TABLE, (6, 3)),
    "gru": Case(lambda: nn.GRU(4, 5, bidirectional=True), rows, TABLE, (6, 3)),
    "rnn": Case(lambda: nn.RNN(4, 5, 2, nonlinearity="relu"), rows, TABLE, (6, 3)),
    "bert": Case(lambda: Transformer("bert"), masked_tokens, TOKENS, (3, 9)),
    "bert, fixed": Case(lambda: Transformer("bert"), masked_tokens, {}, ()),
    "gpt2": Case(lambda: Transformer("gpt2"), masked_tokens, TOKENS, (3, 9)),
    "llama": Case(lambda: Transformer("llama"), masked_tokens, TOKENS, (3, 9)),
    "resize": Case(Resized, pictures, BATCH, (3, 32, 32)),
    "resize, any size": Case(Resized, pictures, PICTURE, (3, 48, 40)),
    "embedding": Case(Embedded, tokens, TABLE, (3, 5)),
    "branch": Case(Branches, rows, BATCH, (6, 2)),
    "loop": Case(lambda: torch.jit.script(Turns()), counted_rows, BATCH, (4, 2, 5)),
    "sizes": Case(Sizes, rows, TABLE, (3, 6)),
    "encoder": Case(Attends, lambda *sizes: (torch.randn(*(sizes or (2, 5)), 8),), TABLE, (3, 6)),
}


def operators(graph: onnx.GraphProto) -> Counter[str]:
    """How often each occurs, in subgraphs too; a Constant is a weight in another place."""
    found = Counter(node.op_type for node in graph.node if node.op_type != "Constant")
    for node in graph.node:
        for attribute in node.attribute:
            found += operators(attribute.g) if attribute.HasField("g") else Counter()
    return found


def exported(module: Any, args: Args, axes: Axes, file: Path) -> onnx.ModelProto:
    onward.export(module, args, file, input_names=["a", "b"][: len(args)], dynamic_axes=axes, verify=True)
    return onnx.load(file)


@pytest.mark.parametrize("name", CASES)
def test_no_more_nodes_than_the_first(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    torch.manual_seed(0)
    module, args = seeded(case.make), case.args()
    first = exported(module, args, case.axes, tmp_path / "first.onnx")
    again = prepare(tmp_path / "first.onnx").module
    second = exported(again, args, case.axes, tmp_path / "second.onnx")
    before, after = operators(first.graph), operators(second.graph)
    assert after.total() <= before.total(), f"more: {after - before}, fewer: {before - after}"

    others = case.args(*case.other)
    session = onnxruntime.InferenceSession(tmp_path / "second.onnx", providers=["CPUExecutionProvider"])
    fed = {value.name: each.numpy() for value, each in zip(session.get_inputs(), others, strict=True)}
    with torch.no_grad():
        wanted = pytree.tree_leaves(module(*others))
    for got, want in zip(session.run(None, fed), wanted, strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-3, atol=1e-4)


def test_a_branch_keeps_both_sides(tmp_path: Path) -> None:
    module = seeded(Branches)
    exported(module, rows(), BATCH, tmp_path / "first.onnx")
    second = exported(prepare(tmp_path / "first.onnx").module, rows(), BATCH, tmp_path / "second.onnx")
    assert operators(second.graph)["If"] == 1
    session = onnxruntime.InferenceSession(tmp_path / "second.onnx", providers=["CPUExecutionProvider"])
    for sign in (1, -1):
        x = sign * torch.rand(3, 2, 4)
        np.testing.assert_allclose(session.run(None, {"a": x.numpy()})[0], module(x).detach().numpy(), rtol=1e-5)


QUANTISED = """<ir_version: 10, opset_import: ["" : 20]>
g (float[batch, 3, 8, 8] x) => (float[batch, 4] y)
<float xs = {0.05}, uint8 xz = {128}, int8[4, 3, 1, 1] w = {1, -20, 30, 4, 50, -40, 7, 45, 9, -10, 11, 12},
 float[4] ws = {0.01, 0.02, 0.03, 0.04}, int8[4] wz = {0, 0, 0, 0}, int32[4] b = {100, -200, 300, 0},
 float[4] bs = {0.0005, 0.001, 0.0015, 0.002}, float ys = {0.0973}, uint8 yz = {10}, int64[2] shape = {0, -1}>
{
  q = QuantizeLinear (x, xs, xz) d = DequantizeLinear (q, xs, xz)
  wd = DequantizeLinear <axis = 0> (w, ws, wz) bd = DequantizeLinear <axis = 0> (b, bs)
  c = Conv <kernel_shape = [1, 1]> (d, wd, bd) r = Relu (c)
  rq = QuantizeLinear (r, ys, yz) rd = DequantizeLinear (rq, ys, yz)
  p = GlobalAveragePool (rd) y = Reshape (p, shape)
}"""


def test_a_quantised_model_stays_quantised(tmp_path: Path) -> None:
    """Weights in 8 bits, and the nodes around every operator from which onnxruntime makes its integer kernels."""
    first = onnx.parser.parse_model(QUANTISED)
    rep = prepare(first)
    torch.manual_seed(0)
    second = exported(rep.module, (torch.randn(2, 3, 8, 8),), BATCH, tmp_path / "second.onnx")
    assert operators(second.graph) == operators(first.graph)
    types = {tensor.name: tensor.data_type for tensor in second.graph.initializer}
    assert (types["w"], types["b"]) == (onnx.TensorProto.INT8, onnx.TensorProto.INT32)
    session = onnxruntime.InferenceSession(tmp_path / "second.onnx", providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal((3, 3, 8, 8), dtype=np.float32)
    np.testing.assert_allclose(session.run(None, {"a": x})[0], rep.run(x)[0], rtol=1e-5)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_an_antialiased_resize_is_one_node(mode: str, tmp_path: Path) -> None:
    class Smaller(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.interpolate(x, size=(5, 7), mode=mode, antialias=True)

    x = torch.randn(2, 3, 12, 14)
    first = onward.export(Smaller(), (x,), tmp_path / "first.onnx", opset_version=18, verify=True)
    second = onward.export(prepare(tmp_path / "first.onnx").module, (x,), opset_version=18, verify=True)
    assert [node.op_type for node in second.model.graph] == [node.op_type for node in first.model.graph] == ["Resize"]


WIDE = """<ir_version: 10, opset_import: ["" : 21]>
g (float[batch, 64] x) => (float[batch, 4] y)
<float xs = {0.001}, uint16 xz = {30000}>
{
  q = QuantizeLinear (x, xs, xz) d = DequantizeLinear (q, xs, xz)
  wd = DequantizeLinear <axis = 0, block_size = 32> (w, ws) y = MatMul (d, wd)
}"""


def test_sixteen_bits_and_blocks_stay(tmp_path: Path) -> None:
    first = onnx.parser.parse_model(WIDE)
    random = np.random.default_rng(0)
    for name, values in (
        ("w", random.integers(-127, 127, (64, 4), dtype=np.int8)),
        ("ws", random.random((2, 4), dtype=np.float32)),
    ):
        first.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    rep = prepare(first)
    x = torch.randn(2, 64)
    onward.export(rep.module, (x,), tmp_path / "second.onnx", verify=True, opset_version=21)
    second = onnx.load(tmp_path / "second.onnx")
    assert operators(second.graph) == operators(first.graph)
    blocks = [helper.get_attribute_value(a) for n in second.graph.node for a in n.attribute if a.name == "block_size"]
    assert blocks == [32]
    with pytest.raises(onward.LoweringError, match="opset"):
        onward.export(rep.module, (x,), opset_version=17)
