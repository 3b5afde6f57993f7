"""F3 (issue 3, item 10): new weights into an existing program or file, without capturing again."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onward
from tests.opsets import NEWEST

from ..models._torchvision import torchvision_models
from . import weighted
from .running import assert_same, load, run

WAYS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "without folding": {"do_constant_folding": False},
    "as inputs": {"export_params": False},
    "without passes": {"optimize": False},
    "with functions": {"export_modules_as_functions": True},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["recurrent", "convolutional"])
def test_exactly_as_if_the_model_had_had_them(name: str, way: str) -> None:
    model, x, axes = weighted.models()[name]
    options = {"input_names": ["x"], "dynamic_axes": {"x": axes}, **WAYS[way]}
    program = onward.export(model, x, **options)
    before, weights = program(x), weighted.other_weights(model)
    assert program.apply_weights(weights) is program
    assert_same([program(x)], [weighted.answer(model, weights, x)])
    assert not torch.allclose(before, program(x), atol=1e-3)
    other = copy.deepcopy(model)
    other.load_state_dict(weights)
    assert program.proto() == onward.export(other, x, **options).proto()


@pytest.mark.parametrize("opset", [9, 13, 17, 20, NEWEST])
def test_what_follows_uses_them(opset: int, tmp_path: Path) -> None:
    model, x, axes = weighted.models()["convolutional"]
    state = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    program = onward.export(model, x, dynamic_axes={"image": axes}, opset_version=opset)
    weights = weighted.other_weights(model)
    program.apply_weights(weights)
    assert program.verify().ok  # against the model with these weights
    program.save(tmp_path / "m.onnx")
    load(tmp_path / "m.onnx")
    assert_same(run(tmp_path / "m.onnx", [x]), [weighted.answer(model, weights, x)])
    assert program.verify(tmp_path / "m.onnx").ok
    assert all(torch.equal(tensor, state[key]) for key, tensor in model.state_dict().items())


def test_a_part_and_then_another() -> None:
    model, x, _ = weighted.models()["recurrent"]
    program, weights = onward.export(model, x), weighted.other_weights(model)
    state = dict(model.state_dict())
    halves = [{key: weights[key] for key in list(weights)[half::2]} for half in (0, 1)]
    for half in halves:
        program.apply_weights(half)
        tied = {"embedding.weight", "out.weight"}
        state |= half | (dict.fromkeys(tied, weights["out.weight"]) if tied & set(half) else {})
        assert_same([program(x)], [weighted.answer(model, state, x)])
    program.apply_weights({})
    assert_same([program(x)], [weighted.answer(model, weights, x)])


class Builds(nn.Module):
    """Makes its weight in memory of its own, piece by piece, through views and in place."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(2, 3))
        self.register_buffer("mask", torch.tensor([1.0, 0, 1]), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        table = torch.full((3, 3), 2.0)
        table[0] = self.a
        table[1:].add_(self.b)
        table.t().mul_(self.mask)
        first, rest = table.split([1, 2])
        return x @ (rest.t() @ rest) + first + self.b.detach()[0].data


class Resnet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        models = torchvision_models()
        self.net = models.ResNet(models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


def _bert() -> tuple[nn.Module, torch.Tensor]:
    torchvision_models()
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=99)

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertForMaskedLM(config)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.bert(ids).logits

    return Logits(), torch.randint(0, 99, (2, 7))


def _old_norms() -> tuple[nn.Module, torch.Tensor]:
    with pytest.warns(FutureWarning):
        first = torch.nn.utils.weight_norm(nn.Conv1d(3, 4, 3))
    return nn.Sequential(first, nn.ReLU(), torch.nn.utils.spectral_norm(nn.Linear(6, 4))), torch.randn(2, 3, 8)


REAL = {
    "builds": lambda: (Builds(), torch.randn(2, 3)),
    "resnet": lambda: (Resnet(), torch.randn(1, 3, 32, 32)),
    "bert": _bert,
    "old norms": _old_norms,
    "double": lambda: (nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)).double(), torch.randn(1, 2, 5, 5).double()),
    "multihead": lambda: (nn.TransformerEncoderLayer(16, 2, 32), torch.randn(3, 2, 16)),
}


@pytest.mark.parametrize("name", REAL)
def test_models_of_many_kinds(name: str) -> None:
    torch.manual_seed(0)
    model, x = REAL[name]()
    model.eval()
    program = onward.export(model, x)
    weights = weighted.other_weights(model)
    program.apply_weights(weights)
    assert program.verify().ok
    model.load_state_dict(weights)
    with torch.no_grad():
        wanted = model(x)
    torch.testing.assert_close(program(x), wanted, rtol=1e-4, atol=1e-4)


class Looks(nn.Module):
    """Python looks at weights, in every way there is."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.scale = how, nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "if":
            return x * self.scale if self.scale.sum() > 1 else -x
        if self.how == "item":
            return x * (self.scale[0] * 2).item()
        if self.how == "list":
            return x * self.scale.tolist()[0]
        return x * float(self.scale.detach().numpy()[0])


@pytest.mark.parametrize("folding", [True, False])
@pytest.mark.parametrize("how", ["if", "item", "list", "numpy"])
def test_a_value_that_python_read_must_stay(how: str, folding: bool) -> None:
    model, x = Looks(how), torch.randn(2)
    program = onward.export(model, x, do_constant_folding=folding)
    before = program(x)
    with pytest.raises(onward.CaptureError, match="read out of its weights differs") as caught:
        program.apply_weights({"scale": torch.tensor([-5.0, 3.0])})
    assert "test_f03_apply_weights.py" in str(caught.value) and "export the model again" in str(caught.value)
    assert torch.equal(program(x), before)  # nothing has changed
    if how == "if":
        program.apply_weights({"scale": torch.tensor([5.0, 3.0])})  # still the same side
        assert_same([program(x)], [x * torch.tensor([5.0, 3.0])])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conv.wieght": torch.zeros(1)},
         "the model has no weight of this name\n  'conv.wieght' (did you mean 'conv.weight'?)"),
        ({"conv.weight": torch.zeros(12, 3, 3)}, "the state dict does not fit the model\n  'conv.weight' has the shape "
         "[12, 3, 3], and the model's has [12, 3, 3, 3]"),
        ({"norm.bias": torch.zeros(12).half()},
         "the state dict does not fit the model\n  'norm.bias' is torch.float16, and the model's is torch.float32"),
        ({"norm.bias": [0.0] * 12},
         "the state dict does not fit the model\n  'norm.bias' is of type list, not a tensor"),
        ({f"module.{key}": torch.zeros(12) for key in ("norm.weight", "norm.bias")},
         "the model has no weights of these names\n  'module.norm.weight' (did you mean 'norm.weight'?)\n"
         "  'module.norm.bias' (did you mean 'norm.bias'?)\n  the names are those of a DataParallel or compiled model: "
         "take its state dict from the model inside"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    model, x, _ = weighted.models()["convolutional"]
    with pytest.raises(onward.InputError) as caught:
        onward.export(model, x).apply_weights(change)
    assert str(caught.value) == message


def test_no_state_dict_at_all() -> None:
    model, x, _ = weighted.models()["convolutional"]
    with pytest.raises(onward.InputError, match=r"takes a state dict, not Convolutional\n  pass model.state_dict\(\)"):
        onward.export(model, x).apply_weights(model)  # type: ignore[arg-type]


def test_tied_weights_that_differ() -> None:
    model, x, _ = weighted.models()["recurrent"]
    program = onward.export(model, x)
    with pytest.raises(onward.InputError, match=r"'embedding.weight' and 'out.weight' are one weight in the model"):
        program.apply_weights({"embedding.weight": torch.zeros(11, 6), "out.weight": torch.ones(11, 6)})
    program.apply_weights({"out.weight": torch.ones(11, 6)})  # either name will do
    assert_same([program(x)], [weighted.answer(model, {**model.state_dict(), "embedding.weight": torch.ones(11, 6),
                                                       "out.weight": torch.ones(11, 6)}, x)])  # fmt: skip


def test_in_training() -> None:
    model, x, _ = weighted.models()["convolutional"]
    with pytest.warns(onward.CaptureWarning):
        program = onward.export(model, x, training=True)
    program.apply_weights(weighted.other_weights(model))
    assert program.verify().ok
    assert not model.training


def test_with_opened_outputs() -> None:
    model, x, _ = weighted.models()["convolutional"]
    opened = onward.export(model, x, do_constant_folding=False).with_outputs(["conv.conv2d"])
    weights = weighted.other_weights(model)
    opened.apply_weights(weights)
    assert_same([opened(x)["conv.conv2d"]], [torch.conv2d(x, weights["conv.weight"])])


# Files


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("name", ["recurrent", "convolutional"])
def test_a_file(name: str, external: bool, tmp_path: Path) -> None:
    model, x, _ = weighted.models()[name]
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    onward.export(model, x, before, input_names=["x"], do_constant_folding=False, external_data=external)
    content = before.read_bytes()
    weights = weighted.other_weights(model)
    onward.apply_weights(before, weights, after)
    load(after)
    assert_same(run(after, [x]), [weighted.answer(model, weights, x)])
    assert before.read_bytes() == content
    data_files = [path.name for path in tmp_path.iterdir() if path.suffix != ".onnx"]
    assert len(data_files) == (2 if external else 0)


def test_a_file_in_its_own_place(tmp_path: Path) -> None:
    model, x, _ = weighted.models()["recurrent"]
    file = tmp_path / "m.onnx"
    onward.export(model, x, file, do_constant_folding=False, external_data=True)
    weights = weighted.other_weights(model)
    onward.apply_weights(file, {"embedding.weight": weights["embedding.weight"]}, file)
    state = {**model.state_dict(), **dict.fromkeys(("embedding.weight", "out.weight"), weights["embedding.weight"])}
    assert_same(run(file, [x]), [weighted.answer(model, state, x)])


def test_a_proto_bytes_and_a_program() -> None:
    model, x, _ = weighted.models()["convolutional"]
    program = onward.export(model, x, do_constant_folding=False)
    weights, proto = weighted.other_weights(model), program.proto()
    changed = onward.apply_weights(proto, weights)
    assert isinstance(changed, onnx.ModelProto)
    assert torch.equal(weighted.initializers(changed)["conv.weight"], weights["conv.weight"])
    assert torch.equal(weighted.initializers(proto)["conv.weight"], model.state_dict()["conv.weight"])
    assert isinstance(onward.apply_weights(proto.SerializeToString(), weights), bytes)
    assert onward.apply_weights(program, weights) is program
    assert_same([program(x)], [weighted.answer(model, weights, x)])


def test_a_weight_that_is_not_there_as_it_is(tmp_path: Path) -> None:
    model, x, _ = weighted.models()["convolutional"]
    onward.export(model, x, tmp_path / "m.onnx")
    content = (tmp_path / "m.onnx").read_bytes()
    with pytest.raises(onward.InputError) as caught:
        onward.apply_weights(
            tmp_path / "m.onnx", {"conv.weight": model.conv.weight, "norm.running_mean": torch.zeros(12)}
        )
    assert str(caught.value) == (
        "the model has no place for 2 of 2 weights\n"
        "  'conv.weight' was folded into 'conv.weight.folded'\n"
        "  'norm.running_mean' is nowhere in it: the graph does not read it, or it was folded into something else\n"
        "  export with do_constant_folding=False, which keeps weights as the state dict has them, or call "
        "apply_weights on the program that export returned, which folds anew; leave out weights that are not read"
    )
    assert (tmp_path / "m.onnx").read_bytes() == content


def test_what_does_not_fit_a_file(tmp_path: Path) -> None:
    model, x, _ = weighted.models()["convolutional"]
    onward.export(model, x, tmp_path / "m.onnx", do_constant_folding=False)
    wrong = {"norm.bias": torch.zeros(3), "norm.weight": torch.zeros(12, dtype=torch.int64), "conv.weight": "w"}
    with pytest.raises(onward.InputError) as caught:
        onward.apply_weights(tmp_path / "m.onnx", wrong)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "the state dict does not fit the model\n  'norm.bias' has the shape [3], and the file's has [12]\n"
        "  'norm.weight' is INT64, and the file's is FLOAT\n  'conv.weight' is of type str, not a tensor"
    )


def test_a_file_whose_weights_are_inputs(tmp_path: Path) -> None:
    model, x, _ = weighted.models()["convolutional"]
    onward.export(model, x, tmp_path / "m.onnx", export_params=False)
    with pytest.raises(onward.InputError, match="'norm.bias' is an input of the model: feed it"):
        onward.apply_weights(tmp_path / "m.onnx", {"norm.bias": torch.zeros(12)})
