"""What a run leaves behind: nothing on the tensors of the caller, nothing of PyTorch switched over; and what was
written through another form of a result is there."""

from __future__ import annotations

import gc
import io
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onward.errors import QuantizationError
from onward.quant import Activations, QuantConfig, calibration, initialise

from .harness import through_onnxruntime

LEARNED = QuantConfig(activations=Activations(learned=True))


class Between(nn.Module):
    """Something between two linear layers."""

    def __init__(self, between: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.a, self.b, self.between = nn.Linear(16, 16), nn.Linear(16, 16), between

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.b(self.between(self.a(x), x))
        return y


def made(between: Callable[[Tensor, Tensor], Tensor], config: QuantConfig | None = None) -> tuple[Between, Between]:
    """A model in float and the same quantized, with its ranges."""
    torch.manual_seed(1)
    model = Between(between).eval()
    other = Between(between)
    other.load_state_dict(model.state_dict())
    other = initialise(other, config).eval()
    with calibration(other):
        other(torch.randn(64, 16, generator=torch.Generator().manual_seed(0)))
    return model, other


def through_a_view(write: Callable[[Tensor, Tensor], object]) -> Callable[[Tensor, Tensor], Tensor]:
    def between(h: Tensor, x: Tensor) -> Tensor:
        write(h, x)
        return h

    return between


def into(h: Tensor, x: Tensor) -> Tensor:
    y = h + x
    if torch.is_grad_enabled():  # autograd does not know `out`
        return h * 2
    torch.mul(h, 2, out=y)
    return y


def in_place_sum(h: Tensor, x: Tensor) -> None:
    view = h.view(-1, 4, 4)
    view += x.view(-1, 4, 4) * 2


def set_a_part(h: Tensor, x: Tensor) -> None:
    h.view(-1, 4, 4)[:, 0] = 0.0


def to_what_has_views(*writes: Callable[[Tensor], object]) -> Callable[[Tensor, Tensor], Tensor]:
    """What is read is a view, taken before the writes."""

    def between(h: Tensor, x: Tensor) -> Tensor:
        view = h.view(-1, 4, 4)
        for write in writes:
            write(h)
        return view.view(-1, 16)

    return between


def one_view_through_another(h: Tensor, x: Tensor) -> Tensor:
    view, other = h.view(-1, 4, 4), h.unsqueeze(0)
    view.relu_()
    return other.squeeze(0)


def twice(h: Tensor, x: Tensor, by_turns: bool = False) -> Tensor:
    h = torch.sigmoid(h) - 0.5
    view = h.view(-1, 4, 4)
    (view if by_turns else h).relu_()
    h.mul_(2.0)
    return view.view(-1, 16)


def into_what_has_a_view(h: Tensor, x: Tensor) -> Tensor:
    view, twice = h.view(-1, 4, 4), h * 2
    if torch.is_grad_enabled():  # autograd does not know `out`
        h.copy_(twice)
    else:
        torch.add(h.clone(), h.clone(), out=h)
    return view.view(-1, 16)


WRITES = {
    "relu_": through_a_view(lambda h, x: h.view(-1, 4, 4).relu_()),
    "mul_": through_a_view(lambda h, x: h.view(-1, 4, 4).mul_(-3.0)),
    "+=": through_a_view(in_place_sum),
    "a part": through_a_view(set_a_part),
    "fill_": through_a_view(lambda h, x: h.view(-1, 4, 4).fill_(1.0)),
    "unsqueeze": through_a_view(lambda h, x: h.unsqueeze(0).relu_()),
    "chained": through_a_view(lambda h, x: h.view(-1, 4, 4).unsqueeze(0).flatten(1).relu_()),
    "out=": into,
    "under a view": to_what_has_views(lambda h: h.fill_(0.3)),
    "twice under a view": to_what_has_views(lambda h: h.relu_(), lambda h: h.mul_(-2.0)),
    "parts under a view": to_what_has_views(lambda h: h[0].fill_(1.0), lambda h: h[1].fill_(-1.0)),
    "under a view that was read": to_what_has_views(lambda h: h.clone(), lambda h: h.add_(1.0)),
    "one view through another": one_view_through_another,
    "by turns": lambda h, x: twice(h, x, by_turns=True),
    "twice, on a grid": twice,
    "out= under a view": into_what_has_a_view,
}


@pytest.mark.parametrize("between", WRITES.values(), ids=WRITES)
def test_what_is_written_through_another_form(between: Callable[[Tensor, Tensor], Tensor], tmp_path: Path) -> None:
    model, quantized = made(between)
    x = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = model(x)
        evaluated = quantized(x)
    trained = quantized.train()(x).detach()
    for found in (evaluated, trained):
        assert float((found - wanted).norm() / wanted.norm()) < 0.03
    assert through_onnxruntime(quantized.eval(), x, tmp_path).equal == 1


SAME: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "* 1": lambda h, x: (h * 1.0).add_(x) * h,
    "a sum": lambda h, x: sum([h.sigmoid()]).mul_(-2.0) + h,  # type: ignore[union-attr]
    "a view of it": lambda h, x: (h.sigmoid() / 1).view(-1, 4, 4).relu_().mul_(-2.0).view(-1, 16) + h.sigmoid(),
    "another form": lambda h, x: (h.view(-1, 4, 4) + 0).mul_(-2.0).view(-1, 16) * h,
    "the original": lambda h, x: torch.stack([h * 1.0, h.mul_(-2.0)]).sum(0),
    "an input": lambda h, x: (x - 0).mul_(-2.0) + x + h,
}


@pytest.mark.parametrize("between", SAME.values(), ids=SAME)
def test_what_changes_nothing_gives_another_tensor(between: Callable[[Tensor, Tensor], Tensor], tmp_path: Path) -> None:
    """That may be written to, while the other stays."""
    model, quantized = made(between)
    x = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    before = x.clone()
    with torch.no_grad():
        wanted = model(x)
        evaluated = quantized(x)
    trained = quantized.train()(x).detach()
    for found in (evaluated, trained):
        assert float((found - wanted).norm() / wanted.norm()) < 0.03
    assert torch.equal(x, before)
    assert through_onnxruntime(quantized.eval(), x, tmp_path).equal == 1


def test_tensors_of_the_caller_have_nothing_on_them() -> None:
    _, model = made(lambda h, x: h.relu())
    x = torch.randn(4, 16)
    for mode in (False, True):
        model.train(mode)
        y = model(x)
        for each in (x, y.detach(), y, *model.parameters(), *model.buffers()):
            assert not vars(each)
            file = io.BytesIO()
            torch.save(each, file)
            file.seek(0)
            assert torch.equal(torch.load(file), each)


@pytest.mark.parametrize("config", [None, LEARNED], ids=["following", "learned"])
@pytest.mark.parametrize("inplace", ["relu", "sum"])
def test_writes_in_place_leave_nothing_behind(inplace: str, config: QuantConfig | None) -> None:
    seen: list[weakref.ref[Tensor]] = []

    def between(h: Tensor, x: Tensor) -> Tensor:
        seen.append(weakref.ref(h))
        if inplace == "relu":
            return F.relu(h, inplace=True)
        h += x
        return h

    _, model = made(between, config)
    seen.clear()
    model.train()(torch.randn(4, 16))
    gc.collect()
    assert len(seen) == 1 and seen[0]() is None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_nothing_is_kept_that_is_not_needed_any_more(mode: Callable[[], Any]) -> None:
    """Not in training mode either: ranges and batch norms may follow batches alone."""
    seen: list[weakref.ref[Tensor]] = []
    alive: list[int] = []

    def look(module: nn.Module, args: tuple[Tensor]) -> None:
        seen.append(weakref.ref(args[0]))
        alive.append(sum(each() is not None for each in seen))

    model = nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(8)])
    model = initialise(model)
    for each in model:
        each.register_forward_pre_hook(look)
    with mode():
        model.train()(torch.randn(4, 16))
    assert len(alive) == 8 and max(alive) <= 2


def test_what_is_computed_without_gradients_and_put_on_a_learned_grid_with_them_is_not_kept() -> None:
    seen: list[weakref.ref[Tensor]] = []

    class Frozen(Between):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                h = self.a(x)
            seen.append(weakref.ref(h))
            y: Tensor = self.b(h)
            return y

    model = initialise(Frozen(lambda h, x: h), LEARNED)
    with calibration(model):
        model(torch.randn(4, 16))
    seen.clear()
    model.train()(torch.randn(4, 16))
    gc.collect()
    assert len(seen) == 1 and seen[0]() is None


def test_a_mask_that_calibration_has_not_seen_spoils_no_learned_range() -> None:
    _, model = made(lambda h, x: torch.sigmoid(h + x), LEARNED)
    x = torch.randn(8, 16)
    x[0, 0] = -1e37
    model.train()(x).sum().backward()
    grads = [each.grad for each in model.parameters() if each.grad is not None]
    assert len(grads) > 4 and all(bool(each.isfinite().all()) for each in grads)


class MyRMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def test_after_an_error_at_the_very_end_pytorch_is_as_it_was() -> None:
    model = initialise(MyRMSNorm()).eval()
    with pytest.raises(QuantizationError, match="has no range yet"):
        model(torch.randn(2, 8))
    assert (torch.ones(2) + 1).tolist() == [2, 2]
    with calibration(model):
        model(torch.randn(2, 8))
    assert bool(model(torch.randn(2, 8)).isfinite().all())
