"""Quantized models in the hands of other machinery: compilers, inference mode, checkpointing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import onward
from onward.errors import QuantizationError
from onward.quant import Activations, QuantConfig, Rule

from .harness import quantized, through_onnxruntime

X = torch.randn(4, 12, generator=torch.Generator().manual_seed(0))
LEARNED = QuantConfig(activations=Activations(learned=True))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 12))
        self.scale = nn.Parameter(torch.ones(12))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x) * self.scale + x
        return result


def train(model: nn.Module, steps: int = 2) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        model(X).square().mean().backward()
        optimizer.step()
    model.eval()


def compiled_inside(model: nn.Module) -> nn.Module:
    model.layers.compile(backend="eager")
    return model


COMPILED: dict[str, Callable[[nn.Module], Any]] = {
    "a model": lambda model: torch.compile(model, backend="eager"),
    "one of torch's": lambda model: torch.compile(nn.Sequential(model), backend="eager"),
    "a part": compiled_inside,
}


@pytest.mark.parametrize("what", COMPILED)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_model_runs_as_it_is(what: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Net(), lambda: X)
    plain = copy.deepcopy(model)
    with pytest.warns(onward.QuantizationWarning, match="^torch.compile leaves a quantized model as it is"):
        compiled = COMPILED[what](model)
        train(compiled)
    train(plain)
    assert torch.equal(compiled(X), plain(X))
    assert through_onnxruntime(model, X, tmp_path).equal == 1


def test_what_is_compiled_goes_on_behind_a_model_also_after_an_error() -> None:
    seen: list[int] = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.append(len(graph.graph.nodes))
        return graph.forward

    model = quantized(Net(), lambda: X)

    @torch.compile(backend=backend)
    def run(x: Tensor) -> Tensor:
        y = model(x * 2)
        return torch.sin(y) + 1

    with pytest.warns(onward.QuantizationWarning, match="torch.compile"):
        assert torch.equal(run(X), torch.sin(model(X * 2)) + 1)
    assert len(seen) == 2  # before it and behind it, and nothing of it
    fresh = onward.quant.initialise(Net()).eval()
    with pytest.raises(onward.QuantizationError, match="has no range yet"), pytest.warns(onward.QuantizationWarning):
        torch.compile(fresh, backend=backend)(X)
    again = torch.compile(lambda x: torch.cos(x) * 3, backend=backend)
    again(X)
    assert len(seen) == 3


def test_torch_export_says_what_to_do_instead() -> None:
    model = quantized(Net(), lambda: X)
    with pytest.raises(
        onward.QuantizationError, match="torch.export cannot look into a quantized model\n.*onward.export"
    ):
        torch.export.export(model, (X,))


@pytest.mark.parametrize("config", [None, LEARNED], ids=["followed", "learned"])
def test_ranges_that_were_found_in_inference_mode_are_trained_and_loaded(
    config: QuantConfig | None, tmp_path: Path
) -> None:
    model = onward.quant.initialise(Net(), config)
    with torch.inference_mode(), onward.calibration(model):
        model(X)
    train(model)
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    assert through_onnxruntime(model, X, tmp_path).equal == 1


def test_a_model_is_not_exported_while_it_is_calibrated() -> None:
    model = onward.quant.initialise(Net())
    with (
        pytest.raises(onward.QuantizationError, match="^the model is being calibrated.*\n  export it behind the block"),
        onward.calibration(model),
    ):
        model(X)
        onward.export(nn.Sequential(model), (X,))


def test_a_part_of_another_type_is_named() -> None:
    model = quantized(Net(), lambda: X)
    model.layers[2].half()
    with pytest.raises(onward.InputError, match="^export: layers.2 has parameters of torch.float16"):
        onward.export(model, (X,))
    with pytest.raises(onward.InputError, match=r"^calibration: layers.2 has .*\n  call model.float\(\) first"):
        onward.calibration(model).__enter__()


def test_a_part_that_is_in_training_mode_is_named() -> None:
    model = quantized(nn.Sequential(nn.Linear(12, 4), nn.BatchNorm1d(4)), lambda: X)
    model[1].train()
    with pytest.raises(onward.QuantizationError, match=r"^1 \(batch_norm_0\) is in training mode, and .*\n.*eval\(\)"):
        model(X)
    with pytest.raises(onward.QuantizationError, match="exported in evaluation mode, and 1 is in training mode"):
        onward.export(model, (X,), training=onward.TrainingMode.PRESERVE)
    onward.export(model, (X,))  # in evaluation mode


class TakesAnything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 4)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        result: Tensor = self.layer(args[0]["x"])
        return result


def test_a_batch_that_ends_with_a_dict_is_an_argument() -> None:
    model = TakesAnything()
    program = onward.quantize(model, [({"x": X},)])
    assert torch.equal(program({"x": X}, {}), model({"x": X}))


def test_the_part_that_is_quantized_is_named() -> None:
    model = nn.Sequential(onward.quant.initialise(Net()))
    with pytest.raises(onward.InputError, match="its submodule 0 is\n.*give that submodule to calibration"):
        onward.calibration(model).__enter__()


class RMSNorm(nn.Module):
    """One function from grid to grid: see modules.py."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class InParts(nn.Module):
    """`run` calls a part of it with its arguments."""

    def __init__(self, form: str, run: Callable[..., Tensor]) -> None:
        super().__init__()
        self.form, self.run = form, run
        self.first, self.last = nn.Linear(12, 12), nn.Linear(12, 4)
        self.middle = nn.Sequential(nn.Linear(12, 12), nn.ReLU(), RMSNorm())

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        if self.form == "a module":
            y = self.run(self.middle, torch.relu(y))
        elif self.form == "of what waits":
            y = y + self.run(self.middle, y)
        else:
            y = self.run(lambda x: torch.tanh(self.middle(x) + x * 0.5) @ self.first.weight, y)
        result: Tensor = self.last(y)
        return result


def gradients(form: str, run: Callable[..., Tensor], config: QuantConfig | None, whole: bool = False) -> list[Tensor]:
    torch.manual_seed(0)
    model = quantized(InParts(form, run), lambda: X, config).train()
    names = list(model.state_dict())
    (checkpoint(model, X, use_reentrant=False) if whole else model(X)).square().mean().backward()
    assert list(model.state_dict()) == names
    return [each.grad for each in model.parameters() if each.grad is not None]


@pytest.mark.parametrize("config", [None, LEARNED], ids=["followed", "learned"])
@pytest.mark.parametrize("form", ["a module", "of what waits", "a function", "all of it"])
def test_checkpointing_changes_no_gradient(form: str, config: QuantConfig | None) -> None:
    with pytest.warns(onward.QuantizationWarning, match="^torch.utils.checkpoint saves no memory"):
        found = gradients(form, lambda f, *args: checkpoint(f, *args, use_reentrant=False), config, form == "all of it")
    wanted = gradients(form, lambda f, *args: f(*args), config)
    assert len(found) == len(wanted) >= 6
    assert all(map(torch.equal, found, wanted))


def test_the_older_checkpointing_is_refused() -> None:
    with pytest.raises(
        onward.QuantizationError, match="runs again while gradients are computed[^\n]*\n.*use_reentrant=False"
    ):
        gradients("of what waits", lambda f, *args: checkpoint(f, *args, use_reentrant=True), None)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(12, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.lstm(x.unsqueeze(0))[0])
        return y


class CastsItself(Net):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = super().forward(x)
        return y.float()


OFF, WEIGHT_ONLY = QuantConfig(rules=[Rule(type=nn.Linear, off=True)]), QuantConfig(weight_only=True)


@pytest.mark.parametrize(
    ("make", "config"),
    [(Recurrent, None), (Net, OFF), (Net, WEIGHT_ONLY), (CastsItself, OFF), (CastsItself, WEIGHT_ONLY)],
    ids=["recurrent", "off", "weights", "off, by itself", "weights, by itself"],
)
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shorter", [torch.bfloat16, torch.float16])
def test_evaluation_under_autocast_is_evaluation(
    make: Callable[[], nn.Module], config: QuantConfig | None, given: torch.dtype, shorter: torch.dtype
) -> None:
    torch.manual_seed(0)
    model, x = make(), X.to(given)
    wanted = quantized(model, lambda: X, config)(x.float())
    with torch.autocast("cpu", shorter):
        assert torch.equal(model(x), wanted) and torch.is_autocast_enabled("cpu")
        with pytest.raises(RuntimeError):
            model(x[:, :3])
        assert torch.is_autocast_enabled("cpu")
        found = onward.export(model, (x,))(x)
    assert float((found - wanted).detach().abs().max()) < 1e-6
    model.__class__ = Net if isinstance(model, Net) else Recurrent
    assert torch.equal(model(x.float()), wanted)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
@pytest.mark.parametrize("config", [None, LEARNED, WEIGHT_ONLY], ids=["following", "learned", "weights"])
def test_a_part_that_is_cast_is_named_in_training(config: QuantConfig | None, dtype: torch.dtype) -> None:
    model = quantized(Net(), lambda: X, config)
    model.layers[2].to(dtype)
    for run in (model, model.layers):
        with pytest.raises(QuantizationError, match=rf"^layers.2 has parameters of {dtype}.*\n  call model.float\(\)"):
            run.train()(X)


def test_another_error_of_a_model_is_its_own() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied") as caught:
        quantized(Net(), lambda: X).train()(X[:, :3])
    assert not isinstance(caught.value, onward.ExportError)


LOOKED_INTO: dict[str, tuple[Callable[[nn.Module], Any], str]] = {
    "script": (torch.jit.script, "torch.jit.script cannot look into a quantized model\n  give the model itself to"),
    "script of a part": (lambda model: torch.jit.script(nn.Sequential(model)), "torch.jit.script cannot look into"),
    "grad": (lambda model: torch.func.grad(lambda x: model(x).sum())(X), "torch.func cannot look into a quantized"),
    "vmap": (
        lambda model: torch.func.vmap(model)(X),
        "torch.func cannot look into a quantized model.*\n  take gradients",
    ),
}


@pytest.mark.parametrize("how", LOOKED_INTO)
def test_what_cannot_look_into_a_quantized_model(how: str) -> None:
    look, said = LOOKED_INTO[how]
    model = quantized(Net(), lambda: X).train()
    with pytest.raises(QuantizationError, match=said):
        look(model)
    assert torch.equal(copy.deepcopy(model).eval()(X), model.eval()(X))


def test_a_calibration_that_is_used_twice() -> None:
    model = onward.init(Net())
    calibration = onward.calibration(model)
    for factor in (1, 3):
        with calibration:
            model(X * factor)
        assert float(model.layers[0].quant_linear_0_input[1]) == pytest.approx(factor * float(X.max()))
    with calibration:
        model(X)
        with pytest.raises(QuantizationError, match="being calibrated already"), calibration:
            pass
