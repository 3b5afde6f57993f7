"""What Python does with a traced tensor beside computing: texts, copies, pickles, gradients, regions of a compiler."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import _assert

import onward

X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
OTHER = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
BATCH = {"x": {0: "batch"}}
Tensor = torch.Tensor


def _agrees(model: Callable[[Tensor], Tensor]) -> onward.Program:
    program = onward.export(model, (X,), input_names=["x"], dynamic_axes=BATCH, verify=True)
    for each in (X, OTHER):
        torch.testing.assert_close(program(each), model(each.clone()))
    return program


def _silent(model: Callable[[Tensor], Tensor]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        _agrees(model)


def _refused(model: Callable[[Tensor], Tensor], line: int, what: str) -> None:
    with pytest.raises(onward.CaptureError, match=what) as caught:
        onward.export(model, (X,), input_names=["x"], dynamic_axes=BATCH)
    assert caught.value.source == f"{__file__}:{model.__code__.co_firstlineno + line}"


# --- texts -----------------------------------------------------------------------------------------------------------
def test_a_tensor_is_printed_as_without_the_export(capsys: pytest.CaptureFixture[str]) -> None:
    def model(x: Tensor) -> Tensor:
        print(f"{x.mean():.3f}", x, f"{x.shape[0]}")
        return x * 2

    model(X.clone())
    wanted = capsys.readouterr().out
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        onward.export(model, (X,), input_names=["x"])
    assert capsys.readouterr().out == wanted
    _silent(model)


@pytest.mark.parametrize("write", [str, repr, "{}".format, lambda x: f"{x.sum():.3f}"])
def test_a_text_that_may_decide_something_is_warned_of(write: Callable[[Tensor], str]) -> None:
    def model(x: Tensor) -> Tensor:
        text = write(x)
        return x * len(text)

    with pytest.warns(onward.CaptureWarning, match="a tensor was written into a text") as caught:
        program = onward.export(model, (X,), input_names=["x"])
    torch.testing.assert_close(program(X), model(X))
    assert any("written into a text" in str(each.message) and each.filename == __file__ for each in caught)


def test_the_text_of_a_size_is_its_number() -> None:
    def decided(x: Tensor) -> Tensor:
        return x * 2 if str(x.shape[0]) == "2" else x

    _silent(lambda x: x * int(str(x.shape[0])))
    with pytest.raises(onward.FrozenAxisError):
        onward.export(decided, (X,), input_names=["x"], dynamic_axes=BATCH)
    torch.testing.assert_close(onward.export(decided, (X,), input_names=["x"])(X), X * 2)


class Experts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = torch.nn.ModuleDict({f"e{number}": torch.nn.Linear(3, 3) for number in range(7)})

    def forward(self, x: Tensor) -> Tensor:
        return self.experts[f"e{(x > 0).sum().item():d}"](x)


def test_an_expert_that_data_names_is_the_examples_and_warned_of() -> None:
    model = Experts().eval()
    with pytest.warns(onward.CaptureWarning, match="a value was read out of a tensor"):
        program = onward.export(model, (X,))
    torch.testing.assert_close(program(X), model(X))


@pytest.mark.parametrize("kind", [Tensor, torch.FloatTensor, torch.nn.Parameter, lambda x: x.new(x)])
def test_a_class_of_tensors_called_on_a_tensor_gives_its_memory(kind: Callable[[Tensor], Tensor]) -> None:
    def model(x: Tensor) -> Tensor:
        hidden = x * 2
        kind(hidden).add_(1)
        return hidden

    with torch.no_grad():
        _agrees(model)


# --- copies ----------------------------------------------------------------------------------------------------------
def test_copies_are_copies() -> None:
    def deep(x: Tensor) -> Tensor:
        hidden = x * 2
        other = copy.deepcopy({"a": [hidden, hidden]})["a"]
        other[0].mul_(3)
        return hidden + other[1]

    def shallow(x: Tensor) -> Tensor:
        hidden = x * 2
        copy.copy(hidden).add_(1)
        return hidden

    _silent(deep)
    _silent(shallow)


def test_copies_of_views_are_refused() -> None:
    def model(x: Tensor) -> Tensor:
        return copy.deepcopy([x, x.t()])[0] * 2

    _refused(model, 1, "several tensors that share memory")


def test_pickles_are_refused() -> None:
    def dumped(x: Tensor) -> Tensor:
        return pickle.loads(pickle.dumps(x)) * 2

    def saved(x: Tensor) -> Tensor:
        torch.save(x, io.BytesIO())
        return x

    for model in (dumped, saved):
        _refused(model, 1, "pickled or saved")


def test_versions_are_counted() -> None:
    def model(x: Tensor) -> Tensor:
        y = x.clone()
        y.add_(1)
        return y * (y._version + 1)

    _silent(model)


# --- gradients -------------------------------------------------------------------------------------------------------
def test_gradients_inside_the_model_are_refused_with_the_line() -> None:
    def asked(x: Tensor) -> Tensor:
        with torch.enable_grad():
            z = x.detach().requires_grad_()
            return torch.autograd.grad((z**2).sum(), z)[0]

    def backwards(x: Tensor) -> Tensor:
        with torch.enable_grad():
            z = x.detach().clone().requires_grad_()
            (z**2).sum().backward()
        return z.grad  # type: ignore[return-value]

    def jacobian(x: Tensor) -> Tensor:
        return torch.autograd.functional.jacobian(lambda z: z.sum(1), x)  # type: ignore[no-any-return, no-untyped-call]

    _refused(asked, 3, "torch.autograd.grad asks for gradients")
    _refused(backwards, 3, r"backward\(\) asks for gradients")
    _refused(jacobian, 1, "requires_grad asks for gradients")


@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp"])
def test_products_with_derivatives_are_refused_in_a_model_that_runs_without_gradients(name: str) -> None:
    product = getattr(torch.autograd.functional, name)

    def model(x: Tensor) -> Tensor:
        return product(lambda z: (z**2).sum(), x, torch.ones(()) if name == "vjp" else torch.ones_like(x))[1]

    _refused(model, 1, "requires_grad asks for gradients")


def test_derivatives_of_torch_func_are_traced() -> None:
    _silent(lambda x: torch.func.grad(lambda z: (z**2).sum())(x))
    _silent(lambda x: torch.func.jacrev(torch.sin)(x[0]))

    def pulled_back(x: Tensor) -> Tensor:
        value, pull = torch.func.vjp(torch.sin, x)
        return pull(value)[0]

    _silent(pulled_back)


def test_what_only_concerns_gradients_changes_nothing() -> None:
    layer = torch.nn.Linear(3, 3)

    def model(x: Tensor) -> Tensor:
        y = layer(x.requires_grad_())
        if y.requires_grad:
            y.register_hook(lambda gradient: gradient)
        return y

    class Hooked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            y = self.layer(x)
            y.register_hook(lambda gradient: gradient)
            y.retain_grad()
            return y

    _silent(model)
    program = onward.export(Hooked(), (X,))
    torch.testing.assert_close(program(X), layer(X))


# --- regions ---------------------------------------------------------------------------------------------------------
def test_nested_compile_regions_are_called() -> None:
    @torch.compiler.nested_compile_region
    def region(x: Tensor, factor: float) -> Tensor:
        return x.sin() * factor

    _silent(lambda x: region(x, 2.0) + region(x, 3.0))


def test_the_text_of_a_librarys_error_freezes_nothing() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.nn.functional.pad(x, (1, 1), mode="reflect").unflatten(0, (2, -1)).flatten(0, 1).movedim(0, 7)

    with pytest.raises(onward.CaptureError, match="Dimension out of range") as caught:
        onward.export(model, (X,), input_names=["x"], dynamic_axes=BATCH)
    assert not isinstance(caught.value, onward.FrozenAxisError)


def test_the_text_of_ones_own_error_freezes_nothing() -> None:
    def model(x: Tensor) -> Tensor:
        if x.dim() == 2:
            raise ValueError(f"{x.shape} and {x.shape[0]:3d} rows")
        return x

    with pytest.raises(onward.CaptureError, match=r"ValueError in forward: torch.Size\(\[2, 3\]\) and   2 rows"):
        onward.export(model, (X,), input_names=["x"], dynamic_axes=BATCH)


def test_the_message_of_a_check_freezes_no_size() -> None:
    def model(x: Tensor) -> Tensor:
        rows = x.shape[0]
        _assert(rows > 0, f"there are {rows} rows")
        torch._check(rows > 0, lambda: f"there are {rows} rows")
        return x * 2

    program = onward.export(model, (X,), dynamic_axes={"x": {0: "rows"}})
    assert program.outputs[0].shape[0] == "rows" and program.warnings == ()
