"""The rows of the table: a trained float model in, a file out, and a model in PyTorch that should compute the same."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

import onward
from onward.quant import Activations, QuantConfig, Weights, initialise

from .tasks import Data, Task, learn

OPSET = 21


@dataclass(frozen=True)
class Made:
    """A file, what evaluates it in PyTorch (None: the tool has nothing), and at which batch that works (None: any)."""

    path: Path
    eager: Callable[[Tensor], Tensor] | None
    batch: int | None = None


@dataclass(frozen=True)
class Method:
    """One way from a trained model to a file. `ours` has figures to reach; `bits` and `trained` say which."""

    name: str
    make: Callable[[nn.Module, Task, Path], Made]
    ours: bool = False
    bits: int = 8
    trained: bool = False


POWERS = QuantConfig(weights=Weights(power_of_two=True), activations=Activations(power_of_two=True))
FOUR = QuantConfig(weights=Weights(bits=4), activations=Activations(bits=4, range="mse", averaging=0))
LEARNED = QuantConfig(weights=Weights(bits=4), activations=Activations(bits=4, learned=True, range="mse"))
QAT_EPOCHS = 10
LONGER = "fp32, trained on"


def exported(model: nn.Module, data: Data, path: Path) -> Made:
    """The batch is dynamic."""
    example = data.test[0][:2]
    onward.export(model, (example,), path, dynamic_shapes=({0: "n"},), opset_version=OPSET)
    return Made(path, model)


def in_float(model: nn.Module, task: Task, path: Path) -> Made:
    return exported(model, task.data(), path)


def in_float_for_longer(model: nn.Module, task: Task, path: Path) -> Made:
    """The float model with as many more epochs as QAT has: what quantised training has to be compared with."""
    model = copy.deepcopy(model)
    learn(model, task.data(), QAT_EPOCHS, task.rate)
    return exported(model, task.data(), path)


def after_training(config: QuantConfig) -> Callable[[nn.Module, Task, Path], Made]:
    """PTQ: ranges from ten batches, and out."""

    def make(model: nn.Module, task: Task, path: Path) -> Made:
        return exported(calibrated(model, task.data(), config), task.data(), path)

    return make


def in_training(config: QuantConfig, epochs: int = QAT_EPOCHS) -> Callable[[nn.Module, Task, Path], Made]:
    """QAT: ranges from ten batches, some epochs with an ordinary optimizer, and out."""

    def make(model: nn.Module, task: Task, path: Path) -> Made:
        model = calibrated(model, task.data(), config)
        learn(model, task.data(), epochs, task.rate)
        return exported(model, task.data(), path)

    return make


def calibrated(model: nn.Module, data: Data, config: QuantConfig) -> nn.Module:
    return quantised(model, data.calibration(), config)


def quantised(model: nn.Module, batches: Sequence[Tensor], config: QuantConfig) -> nn.Module:
    """A copy with ranges."""
    model = initialise(copy.deepcopy(model), config)  # not onward.init: the peers need their own torch.onnx.export
    with onward.calibration(model):
        for batch in batches:
            model(batch)
    return model.eval()


def reason(error: BaseException) -> str:
    """One line of an error, for a table."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else '(no message)'}"[:300]


def ours() -> list[Method]:
    return [
        Method("fp32", in_float),
        Method(LONGER, in_float_for_longer),
        Method("onward PTQ W8A8", after_training(QuantConfig()), ours=True),
        Method("onward PTQ W8A8, 2^k scales", after_training(POWERS), ours=True),
        Method("onward QAT W8A8", in_training(QuantConfig()), ours=True, trained=True),
        Method("onward QAT W4A4", in_training(FOUR), ours=True, bits=4, trained=True),
        Method("onward QAT W4A4, learned", in_training(LEARNED), ours=True, bits=4, trained=True),
    ]
