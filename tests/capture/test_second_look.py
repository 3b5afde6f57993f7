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
    import random

    import numpy
    import torch

    RNG = numpy.random.default_rng(0)
    CALLS, STATISTICS = 0, {"calls": 0}


    class Base(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.n, self.first, self.height, self.own = 0, True, 0, random.Random(3)
            self.counts, self.numbers = {"calls": 0}, [0]
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
        ("CountsInADict", "the model changes its entry 'calls' of a dict that it keeps from run to run"),
        ("CountsInAList", "the model changes its entry 0 of a list that it keeps from run to run"),
        ("CountsInItsFile", "the model changes its global 'CALLS' from run to run"),
        ("CountsInADictOfItsFile", "the model changes its entry 'calls' of a dict that it keeps from run to run"),
        ("Draws", "a random number was drawn in Python (random)"),
        ("DrawsInALibrary", "a random number was drawn in Python (random)"),
        ("DrawsArrays", "a random number was drawn in Python (numpy.random)"),
        ("DrawsFromItsOwn", "a random number was drawn in Python (Generator)"),
        ("DrawsFromAnAttribute", "a random number was drawn in Python (Random)"),
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
    lines = Path(code.co_filename).read_text().splitlines()
    assert (caught[0].filename, lines[caught[0].lineno - 1].endswith("# here")) == (code.co_filename, True)
    assert program.warnings[0].startswith(f"{code.co_filename}:{caught[0].lineno}: {text}")
    assert "calls" not in vars(model)
    assert (model.n, model.first, model.own.getstate()) == (0, True, random.Random(3).getstate())
    assert torch.equal(model.weight, torch.ones(3)) and (model.counts, model.numbers) == ({"calls": 0}, [0])


@pytest.mark.parametrize(
    "name", ["CountsForNobody", "CountsInItsFileForNobody", "WritesTheSameAgain", "NotesASize", "Plain"]
)
def test_what_does_not_matter_is_not_mentioned(name: str, models: ModuleType) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(getattr(models, name)(), (X,), verify=True)
    assert program.warnings == ()
