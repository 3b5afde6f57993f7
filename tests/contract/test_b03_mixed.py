"""B3: scripts and traced models in one another, in all the forms that TorchScript has.

TorchScript reads the annotations of ignored methods as they are written: they are not postponed here.
"""

import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import onward

from .control import check, kinds

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*deprecated.*")


@torch.jit.script
def loop(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    for i in range(int(n)):
        x = x * 0.5 + i
    return x


@torch.jit.script
def fill(x: torch.Tensor, value: float) -> None:
    x[0] = value
    if bool(x.sum() > 0):
        x.add_(1)


class Writes(torch.nn.Module):
    """A scripted function that changes what it is given, a view among it, in one side of a branch."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        fill(y, 3.0)
        z = torch.zeros(5, 3)
        fill(z, 2.0)
        fill(y[1:], 5.0)
        return y, z


def test_a_script_may_write_to_its_arguments() -> None:
    others = [(torch.randn(4, 3),), (torch.full((3, 3), -9.0),), (torch.ones(2, 3),)]
    check(Writes(), (torch.ones(2, 3),), others, dynamic_axes={"x": {0: "batch"}}, allow_constant_outputs=True)


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return loop(x, n).sum() + loop(x[:, :1].t(), n + 1).mean() + loop(torch.ones(2, 2), n).sum()


def test_one_script_is_called_with_several_shapes() -> None:
    others = [(torch.randn(4, 3), torch.tensor(n)) for n in (0, 5)]
    program = check(
        Twice(), (torch.randn(2, 3), torch.tensor(2)), others, dynamic_axes={"x": {0: "batch"}}, opset_version=13
    )
    assert kinds(program).count("Loop") == 3


def test_a_traced_module_that_calls_a_script() -> None:
    def calls(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return loop(x * 2, n)

    example = torch.randn(2, 3), torch.tensor(3)
    traced = torch.jit.trace(calls, example)
    others = [(torch.randn(4, 3), torch.tensor(n)) for n in (0, 6)]
    program = check(traced, example, others, reference=calls, dynamic_axes={"x": {0: "batch"}})
    assert kinds(program) == ["Mul", "Loop"]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.conv(x))).mean([2, 3])
        if bool(x.sum() > 0):
            y = y * 2
        return self.head(y)


def test_archives_frozen_and_optimised_modules(tmp_path: Path) -> None:
    net = Net().eval()
    scripted = torch.jit.script(net)
    scripted.save(str(tmp_path / "net.pt"))
    loaded = torch.jit.load(str(tmp_path / "net.pt"), map_location="cpu")
    others = [(torch.randn(3, 3, 8, 8).abs(),), (-torch.randn(1, 3, 8, 8).abs(),)]
    for form in (loaded, torch.jit.freeze(scripted), torch.jit.optimize_for_inference(scripted)):
        program = check(form, (torch.randn(2, 3, 8, 8),), others, reference=net, dynamic_axes={"x": {0: "batch"}})
        assert kinds(program)[0] == "Conv" and "If" in kinds(program)
        assert "BatchNormalization" not in kinds(program)


class Left(torch.nn.Module):
    """One function is left to Python, which follows it like any Python."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.python(x) + 1

    @torch.jit.ignore
    def python(self, x: torch.Tensor) -> torch.Tensor:
        return x * float("".join(["2"]))


def test_a_function_that_is_left_to_python_is_traced() -> None:
    program = check(
        torch.jit.script(Left()), (torch.randn(2, 3),), [(torch.randn(4, 3),)], dynamic_axes={"x": {0: "batch"}}
    )
    assert kinds(program) == ["Mul", "Add"]


class Unusable(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.python(x) + 1

    @torch.jit.unused
    def python(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@torch.jit.script
def forks(x: torch.Tensor) -> torch.Tensor:
    return torch.jit.wait(torch.jit.fork(loop, x, torch.tensor(2)))


@torch.jit.script
def optional(x: torch.Tensor) -> torch.Tensor | None:
    best: torch.Tensor | None = None
    while bool(x.sum() < 10):
        best = x if best is None else torch.maximum(best, x)
        x = x + 1
    return best


@torch.jit.script
def grows(x: torch.Tensor) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    while bool(x.sum() < 10):
        x = x + 1
        found.append(x)
    return found


@torch.jit.script
def total(found: list[torch.Tensor]) -> torch.Tensor:
    y = torch.zeros(3)
    for each in found:
        y = y * 2 + each.sum(0)
    return y


class Iterates(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sum(each.sum() for each in grows(x))


class HandsOn(torch.nn.Module):
    """Python holds a list whose length depends on data, between two scripts."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        found = grows(x)
        return total(found) + found[0].sum(), found


@pytest.mark.parametrize("opset", (11, 13, 20))
def test_a_list_goes_from_one_script_to_another(opset: int) -> None:
    others = [(torch.zeros(4, 3),), (torch.full((1, 3), -2.0),)]
    check(HandsOn(), (torch.zeros(2, 3),), others, dynamic_axes={"x": {0: "batch"}}, opset_version=opset)


class Edges(NamedTuple):
    low: torch.Tensor
    high: tuple[torch.Tensor, int]


@torch.jit.script
def edges(x: torch.Tensor) -> tuple[list[Edges], dict[str, Edges], Edges | None]:
    found = Edges(x.amin(0), (x.amax(0), 2))
    return [found], {"all": found}, found


@torch.jit.script
def width(found: Edges) -> torch.Tensor:
    return (found.high[0] - found.low) * found.high[1]


class ReadsByName(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, named, optional = edges(x)
        return first[0].low + named["all"].high[0] + width(optional)


def test_named_tuples_of_a_script_keep_their_names() -> None:
    others, axes = [(torch.randn(5, 3),)], {"x": {0: "batch"}}
    check(ReadsByName(), (torch.randn(2, 3),), others, dynamic_axes=axes)
    program = onward.export(edges, (torch.randn(2, 3),), dynamic_axes=axes)
    names = ["output_0_0_low", "output_0_0_high_0", "output_1_all_low", "output_1_all_high_0"]
    assert [port.name for port in program.outputs] == [*names, "output_2_low", "output_2_high_0"]
    found = program(torch.arange(6.0).reshape(2, 3))[2]
    assert type(found).__name__ == "Edges" and found._fields == ("low", "high")
    assert found.high[0].tolist() == [3, 4, 5]


def _mobile(path: Path) -> Any:
    from torch.jit.mobile import _load_for_lite_interpreter

    torch.jit.script(Net().eval())._save_for_lite_interpreter(str(path / "net.ptl"))
    return _load_for_lite_interpreter(str(path / "net.ptl"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: torch.jit.script(Unusable()), ["the script raises an error", "is annotated to be ignored"]),
        (lambda path: optional, ["a script returns a value that is None or not, depending on data"]),
        (
            lambda path: Iterates(),
            ["Python asks for the length of a list", "test_b03_mixed.py:"],
        ),
        (_mobile, ["mobile interpreter", "torch.jit.load(path)"]),
    ],
    ids=["unused", "optional", "list", "mobile"],
)
def test_what_has_no_form_is_refused_with_its_line(make: Any, words: list[str], tmp_path: Path) -> None:
    model = make(tmp_path)
    with pytest.raises(onward.ExportError) as caught:
        onward.export(model, (torch.zeros(2, 3),))
    for each in words:
        assert each in str(caught.value)


def test_from_several_threads() -> None:
    found: dict[int, list[list[float]]] = {}

    def work(number: int) -> None:
        program = onward.export(Twice(), (torch.ones(2, 3) * number, torch.tensor(2)), dynamic_axes={"x": {0: "batch"}})
        found[number] = program(torch.ones(4, 3) * number, torch.tensor(number)).tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    running = [loop(torch.ones(2), torch.tensor(3)) for _ in range(20)]  # a script elsewhere is not disturbed
    for thread in threads:
        thread.join()
    expected = {number: Twice()(torch.ones(4, 3) * number, torch.tensor(number)).tolist() for number in range(3)}
    assert found == pytest.approx(expected)
    assert all(type(each) is torch.Tensor for each in running)


def test_a_fork_is_what_it_calls() -> None:
    others = [(torch.randn(5),), (torch.zeros(1),)]
    check(forks, (torch.ones(3),), others, dynamic_axes={"x": {0: "n"}})
