"""What we run in place of a model is a copy: other threads that use the model lose nothing that they write to it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import onward
from onward.capture.frontends.exported import as_module
from onward.capture.frontends.twins import on_copies, one_copy

X = torch.ones(2, 3)


class Shared(torch.nn.Module):
    """Whenever PyTorch runs it, and not the tracer, another thread writes to a buffer of the model."""

    def __init__(self, held: Any = None) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("served", torch.zeros(()))
        self.held, self.writes = held, [self._write]
        self.calls: list[int] = []

    def _write(self) -> None:
        if not onward.is_in_onnx_export():
            thread = threading.Thread(target=SERVE)
            thread.start()
            thread.join()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for write in self.writes:
            write()
        self.steps += 1
        return x * self.steps


SERVED: list[Shared] = []


def SERVE() -> None:
    SERVED[0].served.add_(1)
    SERVED[0].calls.append(1)


@pytest.fixture(params=["plain", "lock", "generator", "list of locks"])
def model(request: pytest.FixtureRequest) -> Shared:
    held = {
        "plain": None,
        "lock": threading.Lock(),
        "generator": (each for each in range(9)),
        "list of locks": {"locks": [threading.RLock(), (threading.Lock(), torch.ones(2))]},
    }
    SERVED[:] = [Shared(held[request.param])]
    return SERVED[0]


@pytest.mark.parametrize(
    "options",
    [{"verify": True}, {"mutable_buffers": True}, {"mutable_buffers": True, "verify": True}],
    ids=["verify", "mutable", "both"],
)
@pytest.mark.filterwarnings("ignore::onward.CaptureWarning")
def test_what_another_thread_writes_meanwhile_is_not_lost(options: dict[str, Any], model: Shared) -> None:
    onward.export(model, (X,), **options)
    assert model.calls and model.served == len(model.calls)
    assert model.steps == 0


def test_a_copy_shares_what_cannot_be_copied_and_nothing_that_is_written(model: Shared) -> None:
    model.itself, model.linear, model.tied = [model], torch.nn.Linear(3, 3), None  # type: ignore[assignment]
    model.tied = model.linear
    with on_copies(model) as twin:
        copied = twin.model
        assert copied is not model and twin.of(model) is copied and copied.itself[0] is copied
        assert copied.linear is copied.tied and copied.linear.weight.data_ptr() == model.linear.weight.data_ptr()
        assert copied.steps is not model.steps and copied.writes[0].__self__ is copied
        assert copied.calls is not model.calls and twin.of(model.calls) is copied.calls


def test_a_method_of_a_model_runs_on_the_copy(model: Shared) -> None:
    with on_copies(model.forward) as twin:
        assert twin.model.__self__ is not model
        twin.model(X)
    assert model.steps == 0


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.steps.add_(1)


KINDS: dict[str, Callable[[torch.nn.Module], Any]] = {
    "plain": lambda module: module,
    "script": torch.jit.script,
    "graph": lambda module: torch.export.export(module, (X,)).module(),
    "program": lambda module: as_module(torch.export.export(module, (X,))),
    "many": lambda module: torch.nn.Sequential(*(torch.nn.Identity() for _ in range(2100)), module),
}


@contextlib.contextmanager
def another_thread() -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_models_that_are_slow_to_copy_are_copied_while_other_threads_run(kind: str) -> None:
    model = KINDS[kind](Counts())
    key = next(iter(model.state_dict()))
    with another_thread(), on_copies(model) as twin:
        assert twin.model is not model
        assert [float(twin.model(X)[0, 0]) for _ in range(3)] == [1, 2, 3]
        assert [float(each) for each in model.buffers()] == [0]
    with another_thread(), on_copies(model, {key: torch.tensor(6.0)}) as twin:
        assert float(twin.model(X)[0, 0]) == 7
    with on_copies(model, {key: torch.tensor(7.0)}) as twin:
        assert float(twin.model(X)[0, 0]) == 8
    assert [float(each) for each in model.buffers()] == [0]


@pytest.mark.parametrize("kind", ["plain", "graph", "program", "many"])
@pytest.mark.filterwarnings("ignore")
def test_a_copy_has_the_hooks_of_the_model(kind: str) -> None:
    model = KINDS[kind](Counts())
    model.register_forward_hook(lambda module, args, result: result * 3)
    with another_thread(), on_copies(model) as twin:
        assert float(twin.model(X)[0, 0]) == 3


@pytest.mark.parametrize("kind", ["plain", "script", "graph", "many"])
@pytest.mark.filterwarnings("ignore")
def test_mutable_buffers_while_another_thread_runs(kind: str) -> None:
    with another_thread():
        program = onward.export(KINDS[kind](Counts()), (X,), mutable_buffers=True, verify=True)
    assert [float(program(X)[0, 0]) for _ in range(3)] == [1, 2, 3]


def test_one_copy_serves_for_all_calls_that_try_sizes() -> None:
    model = Counts()
    with another_thread(), one_copy():
        with on_copies(model, often=True) as first:
            assert first.model is not model and float(first.model(X)[0, 0]) == 1
        with on_copies(model, {"steps": torch.tensor(4.0)}, often=True) as second:
            assert second.model is first.model and float(second.model(X)[0, 0]) == 5
        with on_copies(model, often=True) as third:
            assert float(third.model(X)[0, 0]) == 1
    assert model.steps == 0


def test_an_error_of_a_copy_names_the_module() -> None:
    class Fails(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise LookupError("no such token")

    with another_thread(), pytest.raises(onward.CaptureError) as caught:
        onward.export(torch.nn.Sequential(torch.nn.Identity(), Fails()), (X,))
    assert caught.value.module == "1"
