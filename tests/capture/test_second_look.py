"""What a run takes from Python and a file keeps is said, with its line."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import onward

from ..own_files import own_file

MODELS = """
    import collections
    import datetime
    import itertools
    import logging
    import os
    import random
    import secrets
    import time
    import types
    import uuid
    from dataclasses import dataclass
    from datetime import datetime as date_and_time
    from time import perf_counter as now

    import numpy
    import torch

    RNG = numpy.random.default_rng(0)
    CALLS, STATISTICS = 0, {"calls": 0}
    IDS, LOG, LAST = itertools.count(1), [], None


    @dataclass
    class State:
        step: int = 0

        def advance(self):
            self.step += 1  # here
            return self.step


    @dataclass(slots=True)
    class Slots:
        step: int = 0


    STATE = State()


    class Base(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.n, self.first, self.height, self.own = 0, True, 0, random.Random(3)
            self.counts, self.numbers = {"calls": 0}, [0]
            self.state, self.slots, self.space = State(), Slots(), types.SimpleNamespace(step=0)
            self.nested, self.log, self.table, self.seen = {"state": [State()]}, [], {}, set()
            self.window, self.tally, self.array = collections.deque(maxlen=3), collections.Counter(), numpy.zeros(2)
            self.ids, self.some = itertools.count(1), iter(range(1, 90))
            self.generated, self.cycle = (each for each in range(1, 90)), itertools.cycle([1, 2, 3])
            self.last, self.kept = None, ()
            self.weight, self.linear = torch.nn.Parameter(torch.ones(3)), torch.nn.Linear(3, 3)


    class Counts(Base):
        def forward(self, x):
            self.n += 1  # here
            return x * self.n


    class CountsFromItsClass(Base):
        calls = 0

        def forward(self, x):
            self.calls += 1  # here
            return x * self.calls


    class CountsInOneLine(Base):
        def forward(self, x): self.n += 1; return x * self.n  # here


    class EveryTenth(Base):
        def forward(self, x):
            self.n += 1  # here
            return x * 2 if self.n % 10 == 0 else x


    class OnlyTheFirst(Base):
        def forward(self, x):
            if self.first:
                self.first = False  # here
                return x * 2
            return x


    class CountsInADict(Base):
        def forward(self, x):
            self.counts["calls"] += 1  # here
            return x * self.counts["calls"]


    class CountsInAList(Base):
        def forward(self, x):
            self.numbers[0] += 1  # here
            return x * self.numbers[0]


    class CountsInItsFile(Base):
        def forward(self, x):
            global CALLS
            CALLS += 1  # here
            return x * CALLS


    class CountsInADictOfItsFile(Base):
        def forward(self, x):
            STATISTICS["calls"] += 1  # here
            return x * STATISTICS["calls"]


    class CountsForItsClass(Base):
        calls = 0

        def forward(self, x):
            CountsForItsClass.calls += 1  # here
            return x * self.calls


    class CountsForItsBase(Base):
        def forward(self, x):
            type(self).total = getattr(type(self), "total", 0) + 1  # here
            return x * self.total


    class EveryTenthOfItsClass(Base):
        calls = 0

        def forward(self, x):
            EveryTenthOfItsClass.calls += 1  # here
            return x * 2 if self.calls % 10 == 0 else x


    class EveryTenthOfItsFile(Base):
        def forward(self, x):
            global CALLS
            CALLS += 1  # here
            return x * 2 if CALLS % 10 == 0 else x


    class CountsInAnObject(Base):
        def forward(self, x):
            self.state.step += 1  # here
            return x * self.state.step


    class CountsInAMethodOfAnObject(Base):
        def forward(self, x):
            return x * self.state.advance()


    class CountsInANestedObject(Base):
        def forward(self, x):
            self.nested["state"][0].step += 1  # here
            return x * self.nested["state"][0].step


    class CountsInANamespace(Base):
        def forward(self, x):
            self.space.step += 1  # here
            return x * self.space.step


    class CountsInSlots(Base):
        def forward(self, x):
            self.slots.step += 1  # here
            return x * self.slots.step


    class CountsInAnObjectOfItsFile(Base):
        def forward(self, x):
            STATE.step += 1  # here
            return x * STATE.step


    class CountsInAClosure(Base):
        def make():
            n, made = 0, []

            def forward(self, x):
                nonlocal n
                n += 1  # here
                return x * n
            return forward

        forward = make()


    class CountsInADefault(Base):
        def forward(self, x, calls=[]):
            calls.append(1)  # here
            return x * len(calls)


    class Appends(Base):
        def forward(self, x):
            self.log.append(1)  # here
            return x * len(self.log)


    class AppendsToItsFile(Base):
        def forward(self, x):
            LOG.append(1)  # here
            return x * len(LOG)


    class AppendsTensors(Base):
        def forward(self, x):
            self.log.append(x)  # here
            return sum(self.log)


    class PutsIntoADict(Base):
        def forward(self, x):
            self.table[len(self.table)] = 1  # here
            return x * len(self.table)


    class PutsIntoASet(Base):
        def forward(self, x):
            self.seen.add(len(self.seen))  # here
            return x * len(self.seen)


    class PutsIntoADeque(Base):
        def forward(self, x):
            self.window.append(x)  # here
            return sum(self.window)


    class CountsInACounter(Base):
        def forward(self, x):
            self.tally["calls"] += 1  # here
            return x * self.tally["calls"]


    class CountsInAnArray(Base):
        def forward(self, x):
            self.array[0] += 1  # here
            return x * float(self.array[0])


    class TakesTheNext(Base):
        def forward(self, x):
            return x * next(self.ids)  # here


    class TakesTheNextOfItsFile(Base):
        def forward(self, x):
            return x * next(IDS)  # here


    class TakesTheNextOfARange(Base):
        def forward(self, x):
            return x * next(self.some)  # here


    class TakesTheNextOfAGenerator(Base):
        def forward(self, x):
            return x * next(self.generated)  # here


    class TakesTheNextOfACycle(Base):
        def forward(self, x):
            return x * next(self.cycle)  # here


    class KeepsATensor(Base):
        def forward(self, x):
            x = x if self.last is None else x + self.last
            self.last = x * 2  # here
            return x


    class KeepsATensorInItsFile(Base):
        def forward(self, x):
            global LAST
            x = x if LAST is None else x + LAST
            LAST = x * 2  # here
            return x


    class KeepsATuple(Base):
        def forward(self, x):
            self.kept = (*self.kept, 1)  # here
            return x * len(self.kept)


    class Draws(Base):
        def forward(self, x):
            x = x + 1
            return x * random.random()  # here


    class DrawsInALibrary(Base):
        def forward(self, x):
            order = list(range(3))
            random.shuffle(order)  # here
            return x[:, order]


    class DrawsArrays(Base):
        def forward(self, x):
            return x * float(numpy.random.rand())  # here


    class DrawsFromItsOwn(Base):
        def forward(self, x):
            return x * float(RNG.random())  # here


    class DrawsFromAnAttribute(Base):
        def forward(self, x):
            return x * self.own.uniform(0, 1)  # here


    class AsksForTheTime(Base):
        def forward(self, x):
            return x * time.time()  # here


    class AsksByAName(Base):
        def forward(self, x):
            return x * now()  # here


    class AsksForNanoseconds(Base):
        def forward(self, x):
            return x * (time.monotonic_ns() % 1000)  # here


    class AsksForTheYear(Base):
        def forward(self, x):
            return x * time.localtime().tm_year  # here


    class AsksForADate(Base):
        def forward(self, x):
            return x * date_and_time.now().microsecond  # here


    class AsksForADateOfTheModule(Base):
        def forward(self, x):
            return x * float(datetime.datetime.now().timestamp() % 100)  # here


    class AsksTheSystem(Base):
        def forward(self, x):
            return x * int.from_bytes(os.urandom(3), "big")  # here


    class DrawsAnIdentity(Base):
        def forward(self, x):
            return x * (uuid.uuid4().int % 10**6)  # here


    class DrawsASecret(Base):
        def forward(self, x):
            return x * secrets.randbelow(10**6)  # here


    class DrawsWithoutASeed(Base):
        def forward(self, x):
            return x * random.Random().random()  # here


    class DrawsArraysWithoutASeed(Base):
        def forward(self, x):
            return x * float(numpy.random.default_rng().random())  # here


    class WritesToData(Base):
        def forward(self, x):
            self.linear.weight.data.mul_(2)  # here
            return self.linear(x)


    class WritesToParameter(Base):
        def forward(self, x):
            with torch.no_grad():
                self.weight.add_(1)  # here
            return x * self.weight


    class CountsForNobody(Base):
        def forward(self, x):
            self.n += 1
            return x * 2


    class CountsInItsFileForNobody(Base):
        def forward(self, x):
            STATISTICS["calls"] += 1
            self.counts["calls"] += 1
            return x * 2


    class WritesTheSameAgain(Base):
        def forward(self, x):
            self.weight.data.clamp_(max=0.5)
            self.n += 1
            return x * self.weight


    class LogsForNobody(Base):
        def forward(self, x):
            self.log.append(1)
            LOG.append(float(x.shape[0]))
            return x * 2


    class KeepsForOthers(Base):
        def forward(self, x):
            self.last = x * 2
            self.state.step += 1
            return self.last + 1


    class KeepsATable(Base):
        def forward(self, x):
            if "table" not in self.table:
                self.table["table"] = torch.arange(3)
            return x * self.table["table"]


    class MeasuresItself(Base):
        def forward(self, x):
            start, began = now(), date_and_time.now()
            y = x * 2
            self.space.step = now() - start
            self.space.name = f"{date_and_time.now() - began} {uuid.uuid4()}"
            logging.getLogger("models").warning("a call") if self.first is None else None
            return y


    class Logs(Base):
        def forward(self, x):
            logging.getLogger("models_with_state").error("a call")
            return x * 2


    class NamesForNobody(Base):
        def forward(self, x):
            self.name = f"call {next(self.ids)}"
            return x * 2


    class HasIterators(Base):
        def forward(self, x):
            return x * 2


    class NotesASize(Base):
        def forward(self, x):
            self.height = int(x.shape[0])
            return x * self.height


    class Plain(Base):
        def forward(self, x):
            return self.linear(x) * self.n
"""
X = torch.ones(2, 3)


@pytest.fixture
def models(tmp_path: Path) -> Iterator[ModuleType]:
    with own_file(tmp_path, "models_with_state", MODELS) as module:
        yield module


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Counts", "the model changes its attribute 'n' from run to run"),
        ("CountsFromItsClass", "the model changes its attribute 'calls' from run to run"),
        ("CountsInOneLine", "the model changes its attribute 'n' from run to run"),
        ("EveryTenth", "the model changes its attribute 'n' from run to run"),
        ("OnlyTheFirst", "the model changes its attribute 'first' from run to run"),
        ("CountsForItsClass", "the model changes its class attribute 'calls' from run to run"),
        ("CountsForItsBase", "the model changes its class attribute 'total' from run to run"),
        ("EveryTenthOfItsClass", "the model changes its class attribute 'calls' from run to run"),
        ("EveryTenthOfItsFile", "the model changes its global 'CALLS' from run to run"),
        ("CountsInAnObject", "the model changes its attribute 'step' of a State that it keeps from run to run"),
        ("CountsInAMethodOfAnObject", "the model changes its attribute 'step' of a State that it keeps"),
        ("CountsInANestedObject", "the model changes its attribute 'step' of a State that it keeps from run to run"),
        ("CountsInANamespace", "the model changes its attribute 'step' of a SimpleNamespace that it keeps"),
        ("CountsInSlots", "the model changes its attribute 'step' of a Slots that it keeps from run to run"),
        ("CountsInAnObjectOfItsFile", "the model changes its attribute 'step' of a State that it keeps"),
        ("CountsInAClosure", "the model changes its variable 'n' from run to run"),
        ("CountsInADefault", "the model changes its list that it keeps from run to run"),
        ("Appends", "the model changes its list 'log' from run to run"),
        ("AppendsToItsFile", "the model changes its list 'LOG' from run to run"),
        ("AppendsTensors", "the model changes its list 'log' from run to run"),
        ("PutsIntoADict", "the model changes its dict 'table' from run to run"),
        ("PutsIntoASet", "the model changes its set 'seen' from run to run"),
        ("PutsIntoADeque", "the model changes its deque 'window' from run to run"),
        ("CountsInACounter", "the model changes its Counter 'tally' from run to run"),
        ("CountsInAnArray", "the model changes its ndarray 'array' from run to run"),
        ("TakesTheNext", "the model changes its count 'ids' from run to run"),
        ("TakesTheNextOfItsFile", "the model changes its count 'IDS' from run to run"),
        ("TakesTheNextOfARange", "the model changes its range iterator 'some' from run to run"),
        ("TakesTheNextOfAGenerator", "the model changes its generator 'generated' from run to run"),
        ("TakesTheNextOfACycle", "the model changes its cycle 'cycle' from run to run"),
        ("KeepsATensor", "the model changes its attribute 'last' from run to run"),
        ("KeepsATensorInItsFile", "the model changes its global 'LAST' from run to run"),
        ("KeepsATuple", "the model changes its attribute 'kept' from run to run"),
        ("CountsInADict", "the model changes its entry 'calls' of a dict that it keeps from run to run"),
        ("CountsInAList", "the model changes its entry 0 of a list that it keeps from run to run"),
        ("CountsInItsFile", "the model changes its global 'CALLS' from run to run"),
        ("CountsInADictOfItsFile", "the model changes its entry 'calls' of a dict that it keeps from run to run"),
        ("Draws", "a random number was drawn in Python (random)"),
        ("DrawsInALibrary", "a random number was drawn in Python (random)"),
        ("DrawsArrays", "a random number was drawn in Python (numpy.random)"),
        ("DrawsFromItsOwn", "a random number was drawn in Python (Generator)"),
        ("DrawsFromAnAttribute", "a random number was drawn in Python (Random)"),
        ("AsksForTheTime", "the model asks for the time (time.time)"),
        ("AsksByAName", "the model asks for the time (time.perf_counter)"),
        ("AsksForNanoseconds", "the model asks for the time (time.monotonic_ns)"),
        ("AsksForTheYear", "the model asks for the time (time.localtime)"),
        ("AsksForADate", "the model asks for the time (datetime.now)"),
        ("AsksForADateOfTheModule", "the model asks for the time (datetime.now)"),
        ("AsksTheSystem", "a random number was drawn in Python (os.urandom)"),
        ("DrawsAnIdentity", "a random number was drawn in Python (os.urandom)"),
        ("DrawsASecret", "a random number was drawn in Python (os.urandom)"),
        ("DrawsWithoutASeed", "a random number was drawn in Python (random.Random())"),
        ("DrawsArraysWithoutASeed", "a random number was drawn in Python (os.urandom)"),
        ("WritesToData", "the model writes to its parameter 'linear.weight'"),
        ("WritesToParameter", "the model writes to its parameter 'weight'"),
    ],
)
def test_what_python_keeps_is_warned_about_at_its_line(name: str, text: str, models: ModuleType) -> None:
    model = getattr(models, name)()
    with pytest.warns(onward.CaptureWarning) as caught:
        program = onward.export(model, (X,))
    assert len(caught) == 1 and program.warnings == (str(caught[0].message),)
    code = type(model).forward.__code__
    assert (model.state.step, model.slots.step, model.space.step) == (0, 0, 0)
    lines = Path(code.co_filename).read_text().splitlines()
    assert (caught[0].filename, lines[caught[0].lineno - 1].endswith("# here")) == (code.co_filename, True)
    assert program.warnings[0].startswith(f"{code.co_filename}:{caught[0].lineno}: {text}")
    assert "calls" not in vars(model)
    assert (model.n, model.first, model.own.getstate()) == (0, True, random.Random(3).getstate())
    assert torch.equal(model.weight, torch.ones(3)) and (model.counts, model.numbers) == ({"calls": 0}, [0])


QUIET = {  # how often PyTorch, and not the tracer, has to run them to be sure
    "CountsForNobody": 2, "CountsInItsFileForNobody": 2, "WritesTheSameAgain": 2, "KeepsATable": 2,
    "NamesForNobody": 2, "KeepsForOthers": 2, "LogsForNobody": 0, "NotesASize": 2, "HasIterators": 0, "Plain": 0,
    "MeasuresItself": 3, "Logs": 0,
}  # fmt: skip


@pytest.mark.parametrize("name", QUIET)
def test_what_does_not_matter_is_not_mentioned(name: str, models: ModuleType) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(getattr(models, name)(), (X,), verify=True)
    assert program.warnings == ()


@pytest.mark.parametrize("name", QUIET)
def test_a_model_is_called_again_only_if_something_has_moved(name: str, models: ModuleType) -> None:
    model, calls = getattr(models, name)(), []
    model.register_forward_pre_hook(lambda *_: calls.append(onward.is_in_onnx_export()))
    onward.export(model, (X,))
    assert calls.count(False) == QUIET[name]
