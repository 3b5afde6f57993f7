"""What `initialise` changes about a model, and what it leaves alone."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onward.errors import InputError, QuantizationError
from onward.quant import Activations, QuantConfig, QuantizationWarning, Weights, calibration, initialise

from .test_exact import Residual


def trained(model: nn.Module, steps: int = 3) -> nn.Module:
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(model(torch.randn(4, 3, 16, 16)), torch.zeros(4, 64, 10)).backward()
        optimizer.step()
    return model.eval()


def evaluated(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        result: Tensor = model(x)
    return result


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return Residual()


def test_parameters_and_names_stay(model: nn.Module) -> None:
    before = {name: id(tensor) for name, tensor in model.named_parameters()}
    kinds = [type(module) for module in model.modules()]
    assert initialise(model) is model
    assert {name: id(tensor) for name, tensor in model.named_parameters()} == before
    assert [type(module) for module in model.modules()] == kinds


def test_every_parameter_gets_a_gradient(model: nn.Module) -> None:
    trained(initialise(model), 1)
    assert [name for name, each in model.named_parameters() if each.grad is None] == []


def test_a_float_checkpoint_loads_strictly_before_and_after_training(model: nn.Module) -> None:
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    initialise(model).load_state_dict(state)
    trained(model)
    ranges = {name: tensor.clone() for name, tensor in model.state_dict().items() if "quant_" in name}
    model.load_state_dict(state)
    now = model.state_dict()
    assert all(torch.equal(now[name], tensor) for name, tensor in {**state, **ranges}.items())


def test_a_quantized_checkpoint_loads_strictly_into_a_fresh_model(model: nn.Module) -> None:
    trained(initialise(model))
    fresh = initialise(Residual())
    fresh.load_state_dict(model.state_dict())
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(evaluated(fresh.eval(), x), evaluated(model, x))


@pytest.mark.parametrize("learned", [False, True])
def test_ranges_of_a_checkpoint_in_half_precision_are_float32(model: nn.Module, learned: bool) -> None:
    trained(initialise(model))
    half = {name: each.half() if each.is_floating_point() else each for name, each in model.state_dict().items()}
    fresh = initialise(Residual(), QuantConfig(activations=Activations(learned=learned)))
    fresh.load_state_dict(half)
    assert {tensor.dtype for name, tensor in fresh.state_dict().items() if "quant_" in name} == {torch.float32}
    trained(fresh)


@pytest.mark.parametrize("shape", [(3,), ()])
def test_a_range_of_another_shape_is_refused(model: nn.Module, shape: tuple[int, ...]) -> None:
    state = {**initialise(model).state_dict(), "stem.quant_conv_0_input": torch.zeros(shape)}
    with pytest.raises(RuntimeError, match="size mismatch for stem.quant_conv_0_input"):
        model.load_state_dict(state)


def test_a_checkpoint_of_something_else_is_still_refused(model: nn.Module) -> None:
    initialise(model)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        model.load_state_dict({**model.state_dict(), "other": torch.zeros(1)})


@pytest.mark.parametrize("copied", ["deepcopy", "pickle"])
def test_copies_are_models_of_their_own(model: nn.Module, copied: str) -> None:
    trained(initialise(model))
    if copied == "deepcopy":
        other = copy.deepcopy(model)
    else:
        stream = io.BytesIO()
        torch.save(model, stream)
        stream.seek(0)
        other = torch.load(stream, weights_only=False)
    x = torch.randn(2, 3, 16, 16)
    before = evaluated(model, x)
    assert torch.equal(evaluated(other, x), before)
    trained(other)
    assert torch.equal(evaluated(model, x), before)


def test_inputs_carry_nothing_from_one_model_to_the_next(model: nn.Module) -> None:
    x = torch.randn(2, 3, 16, 16)
    trained(initialise(model))
    first = evaluated(model, x)
    other = trained(initialise(Residual()))
    assert torch.equal(evaluated(other, x), evaluated(other, x.clone()))
    assert torch.equal(evaluated(model, x), first)


def test_a_part_may_be_called_alone(model: nn.Module) -> None:
    """Its input has no grid then, so it has to have seen one."""
    initialise(model)
    part = model.blocks[0]  # type: ignore[index, union-attr]
    with pytest.warns(QuantizationWarning, match="has not reached stem"), calibration(model):
        part(torch.rand(2, 16, 8, 8))
    y = evaluated(part.eval(), torch.rand(2, 16, 8, 8))
    assert len(y.unique()) <= 256


def test_an_error_inside_leaves_the_model_usable(model: nn.Module) -> None:
    trained(initialise(model))
    x = torch.randn(2, 3, 16, 16)
    before = evaluated(model, x)
    with pytest.raises(RuntimeError):
        model(torch.randn(2, 4, 16, 16))
    assert torch.equal(evaluated(model, x), before)


def test_evaluating_without_ranges(model: nn.Module) -> None:
    initialise(model).eval()
    with pytest.raises(QuantizationError, match=r"stem \(conv_0_input\) has no range yet") as raised:
        model(torch.randn(2, 3, 16, 16))
    assert "with onward.calibration(model):" in str(raised.value)


def test_twice(model: nn.Module) -> None:
    initialise(model)
    with pytest.raises(InputError, match="the model is quantization-aware already"):
        initialise(model)
    with pytest.raises(InputError, match=r"the submodule 0 is quantization-aware already"):
        initialise(nn.Sequential(model))


def test_a_part_of_a_quantized_model_is_known_as_one(model: nn.Module) -> None:
    part = initialise(model).blocks[0]  # type: ignore[index, union-attr]
    with pytest.raises(InputError, match="^the model is part of a model that is quantization-aware .*, as blocks.0"):
        initialise(part)
    with pytest.raises(InputError, match="^the submodule 1 is part of a model .*\n.*Rule\\('blocks.0', ...\\)"):
        initialise(nn.Sequential(nn.ReLU(), part))
    with pytest.raises(InputError, match="is part of a quantization-aware model, as blocks.0\n  give the whole"):
        calibration(part).__enter__()


def test_one_activation_serves_several_models() -> None:
    shared, x = nn.SiLU(), torch.randn(300, 2)
    for _ in range(2):
        model = initialise(nn.Sequential(nn.Linear(2, 2), shared))
        with calibration(model):
            model(x)
        assert len(evaluated(model.eval(), x).unique()) <= 256


def test_calibration_without_a_batch(model: nn.Module) -> None:
    initialise(model)
    with pytest.raises(QuantizationError, match="nothing was seen inside"), calibration(model):
        pass


def test_calibration_of_a_float_model(model: nn.Module) -> None:
    with pytest.raises(InputError, match=r"Residual is not quantization-aware"), calibration(model):
        pass


def test_calibration_with_nan_names_the_place(model: nn.Module) -> None:
    initialise(model)
    with pytest.raises(QuantizationError, match=r"stem \(conv_0_input\)"), calibration(model):
        model(torch.full((1, 3, 16, 16), torch.nan))


def test_calibration_with_zeros_warns(model: nn.Module) -> None:
    initialise(model)
    with (
        pytest.warns(QuantizationWarning, match=r"stem \(conv_0_input\) has seen nothing but zeros"),
        calibration(model),
    ):
        model(torch.zeros(1, 3, 16, 16))


def test_calibration_that_cuts_off_all_but_zeros_says_so() -> None:
    model = initialise(nn.Sequential(nn.Linear(6, 4)), QuantConfig(activations=Activations(range="topk", top_k=3)))
    said = r"^0 \(linear_0_input\) has a range of zero, .* cut off by range='topk': try 'minmax'"
    with pytest.warns(QuantizationWarning, match=said), calibration(model):
        model(torch.tensor([[0.0, 0.0, 0.0, 0.0, 5.0, 0.0]]))


def test_calibration_with_empty_batches(model: nn.Module) -> None:
    initialise(model)
    with pytest.raises(QuantizationError, match="no value was seen\n  its batches were empty"), calibration(model):
        model(torch.zeros(0, 3, 16, 16))


def test_weights_alone_need_not_be_reached() -> None:
    """They have no range to miss."""
    config = QuantConfig(weights=Weights(bits=4, block_size=16), weight_only=True)
    with warnings.catch_warnings(), calibration(initialise(nn.Sequential(nn.Linear(16, 2)), config)):
        warnings.simplefilter("error")


def test_many_that_saw_zeros_are_one_warning() -> None:
    model = initialise(nn.Sequential(*[nn.Linear(2, 2, bias=False) for _ in range(10)]))
    with pytest.warns(QuantizationWarning) as seen, calibration(model):
        model(torch.zeros(1, 2))
    (said,) = [str(each.message) for each in seen]
    assert seen[0].filename == __file__
    assert said.startswith("0 (linear_0_input), 0 (linear_0_output), 1 (linear_0_output), ")
    assert said.endswith(" and 3 more have seen nothing but zeros")


def test_a_module_that_shares_the_weight_of_another_has_been_reached() -> None:
    model = nn.ModuleDict({"used": nn.Linear(2, 2), "tied": nn.Linear(2, 2)})
    model["tied"].weight = model["used"].weight
    with warnings.catch_warnings(), calibration(initialise(model)):
        warnings.simplefilter("error")
        model["used"](torch.randn(3, 2))


def test_a_module_whose_weight_is_read_without_calling_it_has_been_reached() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.symbols, self.hidden, self.head = nn.Embedding(5, 4), nn.Linear(4, 4), nn.Linear(4, 2)
            self.norm, self.unused = nn.LayerNorm(4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            y = self.norm.forward(self.hidden.forward(self.symbols.forward(x)))
            return F.linear(y, self.head.weight, bias=self.head.bias)

    with pytest.warns(QuantizationWarning) as said, calibration(initialise(model := Net())):
        model(torch.tensor([[0, 3]]))
    told = "calibration has not reached unused: evaluation and export raise an error if they do"
    assert [str(each.message) for each in said] == [told]


def test_calibration_keeps_modes_and_statistics(model: nn.Module) -> None:
    initialise(model).train()
    before = model.norm.running_mean.clone()  # type: ignore[union-attr, operator]
    with calibration(model):
        model(torch.randn(2, 3, 16, 16))
    assert model.training
    assert torch.equal(model.norm.running_mean, before)  # type: ignore[union-attr, arg-type]


def test_a_parameter_that_entered_a_grid_is_pickled_without_it() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.shift = nn.Linear(4, 4), nn.Parameter(torch.randn(4))

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x) + self.shift  # type: ignore[no-any-return]

    model = initialise(Shifted())
    with calibration(model):
        model(torch.randn(3, 4))
    with torch.no_grad():
        model.eval()(torch.randn(3, 4))
    pickle.dumps(dict(model.named_parameters()))
