"""A11: a model in eval mode, in training, or as it is; and afterwards in the mode it had."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onward
from onward import TrainingMode
from tests.opsets import NEWEST

from ..models._torchvision import torchvision_models
from ..unharmed import unharmed
from .running import assert_same, load, run


class Net(nn.Module):
    """Its first output depends on the batch alone, its second on chance."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, channels, 3), nn.BatchNorm2d(channels)
        self.dropout, self.head = nn.Dropout(0.4), nn.Linear(channels, 50)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.norm(self.conv(x)).relu().mean((2, 3))
        return features, self.dropout(self.head(features) + 100)


X = torch.randn(4, 3, 6, 6)
UPDATES = "the running statistics of norm are updated by the model in training, and not by the file"


def export(model: nn.Module, training: Any, f: Any = None, x: torch.Tensor = X, **options: Any) -> onward.Program:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the running statistics", category=onward.CaptureWarning)
        return onward.export(model, x, f, training=training, **options)


def kinds(program: onward.Program) -> list[str]:
    return [node.op_type for node in program.model.graph]


@pytest.mark.parametrize("training", [TrainingMode.EVAL, torch.onnx.TrainingMode.EVAL, False, None])
def test_eval_in_every_spelling(training: Any) -> None:
    program = export(Net().train(), training)
    assert kinds(program) == ["Conv", "Relu", "ReduceMean", "Gemm", "Add"]


@pytest.mark.parametrize("training", [TrainingMode.TRAINING, torch.onnx.TrainingMode.TRAINING, True])
def test_training_in_every_spelling(training: Any) -> None:
    program = export(Net().eval(), training)
    assert kinds(program) == ["Conv", "BatchNormalization", "Relu", "ReduceMean", "Gemm", "Add", "Dropout"]


@pytest.mark.parametrize("training", [TrainingMode.PRESERVE, torch.onnx.TrainingMode.PRESERVE])
def test_preserve_keeps_each_modules_own_mode(training: Any) -> None:
    model = Net().train()
    model.norm.eval()
    nodes = {node.op_type: node for node in export(model, training).model.graph}
    assert "training_mode" not in nodes["BatchNormalization"].attributes
    assert "Dropout" in nodes
    assert kinds(export(Net().eval(), training)) == ["Conv", "Relu", "ReduceMean", "Gemm", "Add"]


@pytest.mark.parametrize("value", ["train", 2, object()])
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(onward.InputError, match="training must be a member of TrainingMode"):
        onward.export(Net(), X, training=value)


@pytest.mark.parametrize("channels", [4, 16])  # onnxruntime confuses the statistics of small ones; see norm.py
@pytest.mark.parametrize("opset", [9, 12, 13, 14, 15, 17, 20, NEWEST])
def test_batch_norm_by_the_batch(opset: int, channels: int, tmp_path: Path) -> None:
    model = Net(channels).eval()
    file = tmp_path / "m.onnx"
    export(model, True, file, opset_version=opset, dynamic_axes={"x": {0: "batch"}}, verify=True)
    nodes = {node.op_type: node for node in load(file).graph.node}
    if opset >= 14 and channels > 8:
        given = {each.name: onnx.helper.get_attribute_value(each) for each in nodes["BatchNormalization"].attribute}
        assert given["training_mode"] == 1 and given["momentum"] == pytest.approx(0.9)
    reference = Net(channels).train()
    reference.load_state_dict(model.state_dict())
    for x in (X, torch.randn(7, 3, 6, 6) * 3 + 1):
        with torch.no_grad():
            assert_same(run(file, [x])[:1], [reference(x)[0]])


@pytest.mark.parametrize("opset", [12, 13, 20, NEWEST])
def test_dropout_drops(opset: int, tmp_path: Path) -> None:
    export(Net(), True, tmp_path / "m.onnx", opset_version=opset)
    node = next(node for node in load(tmp_path / "m.onnx").graph.node if node.op_type == "Dropout")
    assert len(node.input) == 3
    first, second = (run(tmp_path / "m.onnx", [X])[1] for _ in range(2))
    assert not torch.equal(first == 0, second == 0)
    assert 0.2 < float((first == 0).float().mean()) < 0.6
    assert float(first[first != 0].min()) > 100 / 0.6 - 20  # scaled to make up for what is dropped


def test_dropout_before_opset_12_is_the_runtimes_choice(tmp_path: Path) -> None:
    export(Net(), True, tmp_path / "m.onnx", opset_version=11)
    node = next(node for node in load(tmp_path / "m.onnx").graph.node if node.op_type == "Dropout")
    assert onnx.helper.get_attribute_value(node.attribute[0]) == pytest.approx(0.4)


def test_weights_stay_apart() -> None:
    model = Net()
    stored = set(export(model, True).model.graph.initializers)
    assert {name for name, _ in model.named_parameters()} <= stored


def test_statistics_that_the_file_does_not_keep_are_named() -> None:
    with pytest.warns(onward.CaptureWarning) as caught:
        program = onward.export(Net(), X, training=True)
    assert [str(each.message) for each in caught] == [
        f"{UPDATES}. It normalises by the statistics of each batch. To avoid this, put these modules in eval mode and "
        "export with training=onward.TrainingMode.PRESERVE."
    ]
    assert program.warnings == tuple(str(each.message) for each in caught)


@pytest.mark.parametrize("training", list(TrainingMode))
@pytest.mark.parametrize("start", [True, False])
def test_nothing_of_the_model_changes(start: bool, training: TrainingMode, tmp_path: Path) -> None:
    model = Net().train(start)
    model.dropout.train(not start)
    state = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    chance = torch.random.get_rng_state()
    with unharmed(model):
        program = export(model, training, dynamic_axes={"x": {0: "batch"}}, verify=True)
        program.verify()
        program(X)
    assert state["norm.num_batches_tracked"] == 0
    assert all(torch.equal(tensor, state[key]) for key, tensor in model.state_dict().items())
    assert torch.equal(chance, torch.random.get_rng_state())


@pytest.mark.parametrize("training", list(TrainingMode))
def test_the_mode_is_restored_after_an_error(training: TrainingMode) -> None:
    class Fails(Net):
        def forward(self, x: torch.Tensor) -> Any:
            super().forward(x)
            raise ValueError("no")

    model = Fails()
    model.norm.eval()
    state = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    with unharmed(model), pytest.raises(onward.CaptureError, match="no"):
        onward.export(model, X, training=training)
    assert all(torch.equal(tensor, state[key]) for key, tensor in model.state_dict().items())


def test_verification_says_what_it_cannot_compare() -> None:
    program = export(Net(), True, dynamic_axes={"x": {0: "batch"}})
    verification = program.verify()
    assert verification.ok
    text = str(verification)
    assert "type and shape ok; values random (Dropout)" in text
    assert "; values of 'output_1' are random and were not compared" in text
    by_name = {each.name: each for check in verification.checks for each in check.comparisons}
    assert by_name["output_0"].random is None and by_name["output_0"].count > 0


def test_verification_is_in_the_mode_of_the_export() -> None:
    model = Net().train()
    program = export(model, TrainingMode.PRESERVE)
    model.eval()
    assert program.verify().ok
    assert not model.training


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torchvision_models().resnet.BasicBlock(16, 16)
        self.stem = nn.Conv2d(3, 16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(self.stem(x))


def test_a_residual_block_with_dynamic_axes() -> None:
    program = export(
        Residual(), True, dynamic_axes={"x": {0: "batch", 2: "height", 3: "width"}}, verify=True, opset_version=17
    )
    assert kinds(program).count("BatchNormalization") == 2


@pytest.mark.parametrize("opset", [9, 13, 20])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_dropout_between_recurrent_layers(kind: type[nn.Module], opset: int) -> None:
    x = torch.randn(3, 2, 4)
    program = export(
        kind(4, 5, 2, dropout=0.5), True, x=x, opset_version=opset, dynamic_axes={"input": {0: "time"}}, verify=True
    )
    assert kinds(program).count("Dropout") == 1


def test_a_transformer() -> None:
    torchvision_models()
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=99)
    model, ids = BertModel(config), torch.randint(0, 99, (2, 7))
    program = export(model, True, x=ids, dynamic_axes={"input_ids": {0: "batch", 1: "sequence"}}, verify=True)
    assert kinds(program).count("Dropout") == 1 + 2 * 3  # embeddings; attention and two projections per layer


# The context managers


@pytest.mark.parametrize("select", [onward.set_training, onward.select_model_mode_for_export])
@pytest.mark.parametrize(
    ("mode", "expected"),
    [(TrainingMode.EVAL, [False] * 2), (True, [True] * 2), (False, [False] * 2), (None, [True, False]),
     (TrainingMode.PRESERVE, [True, False]), (torch.onnx.TrainingMode.TRAINING, [True] * 2)],
)  # fmt: skip
def test_as_a_context(select: Any, mode: Any, expected: list[bool]) -> None:
    model = nn.Sequential(nn.Dropout())
    model.train()
    model[0].eval()
    with pytest.raises(ZeroDivisionError), select(model, mode):
        assert [each.training for each in model.modules()] == expected
        _ = 1 / 0
    assert [each.training for each in model.modules()] == [True, False]


def test_a_model_that_keeps_parts_in_eval_mode_may() -> None:
    class Frozen(Net):
        def train(self, mode: bool = True) -> Any:
            super().train(mode)
            self.norm.eval()
            return self

    model = Frozen()
    with onward.set_training(model, True):
        assert model.training and not model.norm.training


def test_the_same_under_torchs_names() -> None:
    assert onward.onnx.select_model_mode_for_export is onward.select_model_mode_for_export
    assert onward.onnx.utils.select_model_mode_for_export is onward.select_model_mode_for_export
    assert onward.onnx.set_training is onward.onnx.utils.set_training is onward.set_training


def test_a_mode_that_does_not_exist() -> None:
    with pytest.raises(onward.InputError, match="training must be a member"), onward.set_training(Net(), "eval"):
        pass
