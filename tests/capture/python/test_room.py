"""An export leaves the process alone: Python's functions, the code of the model, its file, and other threads."""

from __future__ import annotations

import builtins
import operator
import os
import random
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest
import torch

import onward
from onward.capture.python import Patch, patched
from onward.capture.state.containers import is_traced

from ...own_files import own_file
from ...unharmed import unharmed

MODELS = """
    import asyncio
    import gettext
    import random

    import numpy
    import torch

    import onward

    TABLE = {}
    NESTED = {"tables": [{}]}
    SEEN = []
    LAST = None


    class Makes(torch.nn.Module):
        '''Functions that are made while it is traced, and outlive the export.'''

        def forward(self, x, n):
            async def later(v):
                return int(v)

            self.made = [lambda v: int(v) + 1, (int(each) for each in ("1", "2")), list(map(int, "12")), later, min]
            return x[: int(n)] * float(n)


    class Installs(torch.nn.Module):
        def forward(self, x):
            gettext.install("app")
            return x * 2


    class Keeps(torch.nn.Module):
        '''Tables by size, in a file, in a module and in a class, and a last result.'''

        shared = {}

        def __init__(self):
            super().__init__()
            self.tables, self.last, self.count = {}, [], 0

        def forward(self, x):
            global LAST
            key = str(x.shape[0])
            for table in (TABLE, NESTED["tables"][0], self.tables, self.shared):
                if key not in table:
                    table[key] = torch.arange(int(x.shape[0]))
            self.count += 1
            LAST = x * 2
            SEEN.append(x)
            self.last.append(x)
            return x + TABLE[key][:, None] + self.tables[key][:, None] + self.shared[key][:, None]


    class Served(torch.nn.Module):
        def forward(self, x):
            n = x.shape[0]
            if n not in TABLE:
                TABLE[n] = torch.arange(n)
            first, second = divmod(n, 2)
            return x * int(x.sum() > 0) + TABLE[n][:, None] + min(first, second) + max(first, 1) + len(x)


    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

        def forward(self, x):
            return self.layer(x)


    class Nested(torch.nn.Module):
        def forward(self, x):
            onward.export(Served(), (torch.ones(3, 2),))
            return x * int(x.shape[0] * 0.5)


    class Draws(torch.nn.Module):
        def forward(self, x):
            return x * random.random() + numpy.random.rand() + torch.rand(2)
"""


@pytest.fixture
def models(tmp_path: Path) -> Iterator[ModuleType]:
    with own_file(tmp_path, "models_of_their_own", MODELS) as module:
        yield module


X = torch.randn(5, 3)


@pytest.mark.filterwarnings("ignore::onward.CaptureWarning")
def test_functions_made_during_an_export_go_on_working(models: ModuleType) -> None:
    model = models.Makes()
    with unharmed(model):
        onward.export(model, (X, torch.tensor(2)), verify=True)
    function, generator, mapped, later, smallest = model.made
    assert function(2.5) == 3 and list(generator) == [1, 2] and mapped == [1, 2]
    assert models.asyncio.run(later("7")) == 7
    assert smallest(3, 2) == 2 and smallest("ab") == "a"


def test_what_a_forward_installs_in_builtins_stays(models: ModuleType) -> None:
    before = dict(vars(builtins))
    try:
        onward.export(models.Installs(), (X,), verify=True)
        assert set(vars(builtins)) - set(before) == {"_"}
        assert all(vars(builtins)[name] is value for name, value in before.items())
    finally:
        vars(builtins).pop("_", None)


@pytest.mark.filterwarnings("ignore::onward.CaptureWarning")
@pytest.mark.parametrize("axes", [None, {"x": {0: "rows"}}])
def test_nothing_of_a_trace_stays_in_containers(axes: Any, models: ModuleType) -> None:
    model, theirs = models.Keeps(), torch.ones(1)
    for table in (models.TABLE, models.NESTED["tables"][0], model.tables, model.shared):
        table["theirs"] = theirs
    onward.export(model, (X,), dynamic_axes=axes, input_names=["x"])
    for table in (models.TABLE, models.NESTED["tables"][0], model.tables, model.shared):
        assert table == {"theirs": theirs}
    assert models.LAST is None and model.count == 0
    assert not is_traced([models.SEEN, model.last, vars(model)])
    torch.testing.assert_close(model(X), X + 3 * torch.arange(5)[:, None])


@pytest.mark.filterwarnings("ignore::onward.CaptureWarning")
@pytest.mark.parametrize("name", ["Makes", "Keeps", "Served", "Attention", "Nested"])
def test_the_process_is_as_it_was(name: str, models: ModuleType) -> None:
    model = getattr(models, name)()
    inputs = (torch.randn(2, 4, 8),) if name == "Attention" else (X, torch.tensor(2)) if name == "Makes" else (X,)
    models.SEEN.clear()
    with unharmed(model):
        onward.export(model, inputs, verify=True)


@pytest.mark.filterwarnings("ignore::onward.CaptureWarning")
@pytest.mark.parametrize("options", [{}, {"verify": True}, {"report": True}])
def test_no_generator_is_moved(options: dict[str, Any], models: ModuleType, tmp_path: Path) -> None:
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()  # type: ignore[index]
    onward.export(models.Draws(), (torch.ones(2),), tmp_path / "draws.onnx", artifacts_dir=tmp_path, **options)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert numpy.random.get_state()[1].tolist() == before[2]  # type: ignore[index]


# --- other threads ---------------------------------------------------------------------------------------------------
class Meanwhile:
    """Something that another thread does again and again until the `with` block ends; it must not fail."""

    def __init__(self, work: Callable[[int], None]) -> None:
        self._work, self._stop, self._errors = work, threading.Event(), []  # type: ignore[var-annotated]
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        turn = 0
        while not self._stop.is_set() or turn < 3:
            try:
                self._work(turn)
            except BaseException as error:
                self._errors.append(error)
                return
            finally:
                turn += 1
                self._started.set()

    def __enter__(self) -> None:
        self._thread.start()
        self._started.wait()

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._errors == []


@pytest.mark.filterwarnings("ignore::onward.CaptureWarning")
def test_a_thread_that_serves_the_same_class_keeps_what_it_has_put_away(models: ModuleType) -> None:
    served, put = models.Served(), []

    def serve(turn: int) -> None:
        size = 3 + turn % 5
        result = served(torch.ones(size, 2))
        assert type(result) is torch.Tensor and result.shape == (size, 2)
        models.TABLE["served", turn] = turn
        put.append(turn)
        time.sleep(0.001)  # some hundred entries are enough: every run looks at all of them
        assert torch.compiler.is_exporting() is False and torch.onnx.is_in_onnx_export() is False

    with Meanwhile(serve):
        for number in range(12):
            axes = {"x": {0: "rows"}} if number % 2 else None
            onward.export(models.Served(), (X,), dynamic_axes=axes, input_names=["x"], verify=True)
    assert all(("served", turn) in models.TABLE for turn in put)
    assert not is_traced(models.TABLE)


def test_a_thread_that_trains_keeps_its_gradients_and_its_fast_path(models: ModuleType) -> None:
    trained, enabled = models.Attention().train(), torch.backends.mha.get_fastpath_enabled()

    def train(turn: int) -> None:
        trained.zero_grad()
        trained(torch.ones(2, 4, 8)).sum().backward()
        assert all(each.grad is not None and type(each.grad) is torch.Tensor for each in trained.parameters())
        assert torch.backends.mha.get_fastpath_enabled() is enabled

    with Meanwhile(train):
        for _ in range(6):
            onward.export(models.Attention(), (torch.randn(2, 4, 8),), verify=True)


def test_a_traced_tensor_that_another_thread_finds_is_the_example(models: ModuleType) -> None:
    """A module keeps what it computed; whoever else uses the module meanwhile computes with it."""
    found: list[Any] = []

    class Keeps(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last, self.rows = x * 2, x.shape[0]
            other = threading.Thread(target=lambda: found.append((self.last + 1, self.last.shape[0], int(self.rows))))
            other.start()
            other.join()
            return self.last

    program = onward.export(Keeps(), (X,), dynamic_axes={"x": {0: "rows"}}, input_names=["x"])
    torch.testing.assert_close(found[0][0], X * 2 + 1)
    assert type(found[0][0]) is torch.Tensor and type(found[0][1]) is int and found[0][1:] == (5, 5)
    torch.testing.assert_close(program(X[:2]), X[:2] * 2)


def test_clocks_of_other_threads_are_right_while_a_model_is_looked_at_much_later() -> None:
    originals, seen = (time.time, os.urandom), []

    class Asks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            other = threading.Thread(target=lambda: seen.append(abs(time.time() - START) < 600))
            other.start()
            other.join()
            return x * time.time()

    with pytest.warns(onward.CaptureWarning, match="asks for the time"):
        onward.export(Asks(), (X,))
    assert len(seen) == 4 and all(seen)
    assert (time.time, os.urandom) == originals


START = time.time()


def test_exports_of_one_model_in_training_mode_do_not_change_each_others_mode() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5)).train()
    found: list[bytes] = []

    def work() -> None:
        found.extend(onward.export(model, (X,), verify=True).proto().SerializeToString() for _ in range(5))

    work()
    alone, found[:] = found[0], []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 20
    assert all(each.training for each in model.modules())


# --- patches ---------------------------------------------------------------------------------------------------------
class Place:
    value = 1


def test_a_place_is_patched_once_and_put_back_by_the_last() -> None:
    patch = Patch(Place, "value", lambda before: before + 10)
    with patched([patch]):
        with patched([Patch(Place, "value", lambda before: before + 100)]):
            assert Place.value == 11
        assert Place.value == 11
    assert Place.value == 1


def test_what_somebody_else_put_there_meanwhile_stays() -> None:
    with patched([Patch(Place, "value", lambda before: before + 10)]):
        Place.value = 5
    assert Place.value == 5
    Place.value = 1


def test_what_was_not_there_goes_again_also_after_an_error() -> None:
    names: dict[str, Any] = {}
    with pytest.raises(KeyboardInterrupt), patched([Patch(names, "len", lambda before: before or 7)]):
        assert names == {"len": 7}
        raise KeyboardInterrupt
    assert names == {}


def test_pythons_filters_of_warnings_are_not_touched_meanwhile(models: ModuleType) -> None:
    """They are the process's: whoever saves them now, in another thread, puts them back later."""
    before, seen = list(warnings.filters), []

    class Looks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(list(warnings.filters) == before)
            return x[: operator.index(x.shape[0] // 2)]

    onward.export(Looks(), (X,), input_names=["x"], dynamic_axes={"x": {0: "rows"}})
    assert len(seen) > 1 and all(seen)


@pytest.mark.parametrize("moment", ["installing", "removing"])
def test_an_interrupt_in_the_middle_of_it_does_no_harm(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come between any two steps; the next trace finds things as they should be."""
    put, calls = Patch.put, []

    def interrupted(self: Patch, value: Any) -> None:
        put(self, value)
        calls.append(value)
        if len(calls) == (1 if moment == "installing" else 2):
            raise KeyboardInterrupt

    patch = Patch(Place, "value", lambda before: before + 10)
    monkeypatch.setattr(Patch, "put", interrupted)
    with pytest.raises(KeyboardInterrupt), patched([patch]):
        pass
    monkeypatch.undo()
    assert Place.value == 1
    with patched([patch]):
        assert Place.value == 11
    assert Place.value == 1
