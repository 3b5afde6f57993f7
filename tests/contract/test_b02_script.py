"""B2, B3: a script keeps its loops and branches, exported by itself or called from a model that is traced."""

from __future__ import annotations

import io

import pytest
import torch

import onward
from tests.opsets import NEWEST

from .control import OPSETS, check, kinds

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@torch.jit.script
def loop(x: torch.Tensor, loop_count: torch.Tensor) -> torch.Tensor:
    for i in range(int(loop_count)):
        x = x + i
    return x


class Calls(torch.nn.Module):
    def forward(self, x: torch.Tensor, loop_count: torch.Tensor) -> torch.Tensor:
        return loop(x + 0.5, loop_count) * 2


@torch.jit.script
def choose(x: torch.Tensor) -> torch.Tensor:
    if bool(x.sum() > 0):
        y = x.relu() + 1
    elif bool(x.min() < -5):
        y = x * 3
    else:
        y = x.abs()
    return y


class Mixed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = torch.nn.Linear(3, 3)
        self.scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return choose(self.scripted(self.before(x)) - 1) + x


ZEROS = torch.zeros(1, dtype=torch.int64)


@pytest.mark.parametrize("opset", OPSETS)
def test_the_documents_loop_gives_37_when_it_is_run_with_9(opset: int) -> None:
    program = onward.export(loop, (torch.ones(2, 2, dtype=torch.int64), torch.tensor(5)), opset_version=opset)
    assert kinds(program) == ["Loop"]
    result = program(torch.ones(2, 2, dtype=torch.int64), torch.tensor(9))
    assert result.tolist() == [[37, 37], [37, 37]]
    assert program(torch.ones(2, 2, dtype=torch.int64), torch.tensor(0)).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("opset", OPSETS)
def test_a_scripted_loop_inside_a_traced_model_keeps_its_loop(opset: int) -> None:
    others = [(torch.ones(4, 3), torch.tensor(count)) for count in (0, 1, 9)]
    program = check(
        Calls(), (torch.zeros(2, 3), torch.tensor(5)), others, dynamic_axes={"x": {0: "batch"}}, opset_version=opset
    )
    assert "Loop" in kinds(program)
    assert program.outputs[0].shape == ("batch", 3)
    assert program.warnings == ()


@pytest.mark.parametrize("opset", OPSETS)
def test_scripted_functions_and_submodules_keep_their_branches(opset: int) -> None:
    torch.manual_seed(0)
    others = [(torch.full((rows, 3), value),) for rows, value in ((1, 9.0), (4, -9.0), (3, 0.0))]
    program = check(Mixed().eval(), (torch.randn(2, 3),), others, dynamic_axes={"x": {0: "batch"}}, opset_version=opset)
    assert kinds(program).count("If") == 1
    assert program.outputs[0].shape == ("batch", 3)


def test_a_module_that_was_scripted_traced_or_loaded_exports_directly() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()).eval()
    scripted = torch.jit.script(model)
    archive = io.BytesIO()
    torch.jit.save(scripted, archive)
    archive.seek(0)
    axes = {"input": {0: "batch", 2: "height", 3: "width"}}
    for form in (scripted, torch.jit.trace(model, torch.randn(1, 3, 8, 8)), torch.jit.load(archive)):
        program = check(
            form, (torch.randn(2, 3, 8, 8),), [(torch.randn(1, 3, 9, 7),)], reference=model, dynamic_axes=axes
        )
        assert kinds(program) == ["Conv", "Relu"]
        assert program.model.graph.node(0).name.startswith("0.")


def test_example_outputs_is_accepted_and_not_needed() -> None:
    with pytest.warns(UserWarning, match="example_outputs has no meaning"):
        onward.export(loop, (torch.ones(2), torch.tensor(2)), example_outputs=torch.ones(2))


@torch.jit.script
def decode(start: torch.Tensor, weight: torch.Tensor, limit: int, stop: float) -> tuple[torch.Tensor, int]:
    """Greedy decoding in small: a while loop with a break, a tensor that grows, and a number that is counted."""
    tokens = start
    steps = 0
    while steps < limit:
        logits = weight[int(tokens[-1])]
        following = logits.argmax(0, keepdim=True)
        tokens = torch.cat([tokens, following])
        steps += 1
        if bool(logits.max() > stop):
            break
    return tokens, steps


@pytest.mark.parametrize("opset", (11, 13, 20, NEWEST))
def test_a_loop_with_break_and_a_tensor_that_grows(opset: int) -> None:
    generator = torch.Generator().manual_seed(1)

    def case(seed: int, scale: float) -> tuple:
        weight = torch.rand(6, 6, generator=generator) * scale
        return torch.tensor([seed]), weight, 10, 0.99

    check(decode, case(2, 1.0), [case(3, 0.5), case(1, 2.0), case(5, 1.0)], opset_version=opset)


class Dead(torch.nn.Module):
    """What must not get in the way: optionals, isinstance, len, formatting, and a raise that is never reached."""

    def forward(
        self, x: torch.Tensor, extra: torch.Tensor | None = None, sizes: list[int] | None = None
    ) -> dict[str, torch.Tensor]:
        if x.dim() != 2:
            raise ValueError(f"expected two axes and got {x.dim()}")
        assert x.size(1) == 3, "three columns"
        if extra is not None:
            x = x + extra
        count = 2
        if sizes is not None:
            count = len(sizes)
        names = ["a", "b"]
        result: dict[str, torch.Tensor] = {}
        for i, name in enumerate(names):
            result[name] = x * (i + count)
        return result


def test_known_structure_disappears() -> None:
    scripted = torch.jit.script(Dead())
    program = check(scripted, (torch.randn(2, 3),), [(torch.randn(5, 3),)], dynamic_axes={"x": {0: "batch"}})
    assert kinds(program) == ["Mul", "Mul"]
    assert [port.name for port in program.outputs] == ["a", "b"]
