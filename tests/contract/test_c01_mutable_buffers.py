"""C1: writes to inputs and buffers. The caller's tensors stay as they are; `mutable_buffers=True` carries the state."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onward
from tests.opsets import NEWEST

from .running import assert_same, load, run, shapes, tensors_in


class Cache(nn.Module):
    """A cache that is written at a position which is an input, and a counter; one buffer is only read."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("keys", torch.zeros(2, 8, 4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        self.keys[:, position] = self.linear(x)
        self.count += 1
        return self.keys.sum(1) * self.scale, self.count * 1


class Growing(nn.Module):
    """A cache that is assigned, and grows."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.register_buffer("past", torch.randn(2, 3, 4, dtype=dtype), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.past = torch.cat([self.past, x], 1)
        return self.past.mean(1) + self.past.shape[1]


class Nested(nn.Module):
    """Buffers of submodules, one of them tied, written through views."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Inner(), Inner()
        self.second.total = self.first.total

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.total[1:].add_(x.sum(0)[1:])
        self.total[0] = x.max()
        return x + self.total


class Ring(nn.Module):
    """Where to write is itself a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ring", torch.zeros(4, 3))
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.ring[self.place] = x
        self.place.add_(1).remainder_(4)
        return self.ring.sum(0)


STEP = (torch.randn(2, 1, 4), torch.tensor([2]))


def state_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in (*model.named_parameters(), *model.named_buffers())}


def assert_unchanged(model: nn.Module, before: dict[str, Tensor]) -> None:
    after = state_of(model)
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)


def steps_agree(program: onward.Program, model: nn.Module, steps: list[Any]) -> None:
    """Program and model, called in turns, go through the same states."""
    with torch.no_grad():
        for args in steps:
            args = args if isinstance(args, tuple) else (args,)
            assert_same(list(tensors_in(program(*args))), list(tensors_in(model(*args))))


# --- without it ------------------------------------------------------------------------------------------------------
def test_a_change_that_the_file_loses_is_a_warning() -> None:
    model = Cache()
    with (
        pytest.raises(onward.CaptureError, match=r"'output_1' depends on no input[\s\S]*changes the buffer 'count'"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        onward.export(model, STEP)
    with pytest.warns(onward.CaptureWarning) as caught:
        program = onward.export(model, STEP, allow_constant_outputs=True)
    texts = [str(each.message) for each in caught]
    assert texts == [
        f"the model changes its buffer {name!r}, and the file does not keep the change. Every run starts from what the "
        "buffer holds now. To avoid this, export with mutable_buffers=True, which makes an input and an output of it."
        for name in ("keys", "count")
    ]
    assert list(program.warnings) == texts
    assert program.state == {}


def test_an_assignment_is_warned_about_too() -> None:
    with pytest.warns(onward.CaptureWarning, match="changes its buffer 'past'"):
        onward.export(Growing(), torch.randn(2, 1, 4))


class Averaged(nn.Module):
    """The graph reads what is computed from the buffer, and never the buffer itself."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.register_buffer("mean", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "assigned":
            self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        elif self.kind == "copied":
            self.mean.copy_(self.mean * 0.9 + x.mean(0) * 0.1)
        elif self.kind == "without inputs":
            self.mean = self.mean + 1
        elif self.kind == "decides":
            x = x * 2 if self.mean[0] < 2 else x - 1
            self.mean = self.mean + 1
            return x
        return x - self.mean


@pytest.mark.parametrize("kind", ["assigned", "copied", "without inputs", "decides"])
def test_a_buffer_of_which_something_is_computed_is_warned_about(kind: str) -> None:
    with pytest.warns(onward.CaptureWarning, match="changes its buffer 'mean'"):
        onward.export(Averaged(kind), torch.randn(4, 3), verify=True)
    model = Averaged(kind)
    if kind != "decides":
        program = onward.export(model, torch.randn(4, 3), mutable_buffers=True, verify=True)
        steps_agree(program, model, [torch.randn(4, 3) for _ in range(3)])


def test_a_buffer_that_is_only_scratch_is_not() -> None:
    class Scratch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scratch", torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            self.scratch.copy_(x)
            return self.scratch * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        onward.export(Scratch(), torch.randn(3), verify=True)


class Plain(nn.Module):
    """What it changes are a tensor and a number that are registered as nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.total, self.calls = torch.zeros(3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x.sum(0))
        self.calls += 1
        return x + self.total


@pytest.mark.parametrize("mutable", [False, True])
def test_a_tensor_that_is_no_buffer(mutable: bool) -> None:
    model = Plain()
    with pytest.warns(
        onward.CaptureWarning, match=r"changes a tensor that is no buffer \(total\), and the file does not"
    ):
        program = onward.export(model, torch.ones(2, 3), mutable_buffers=mutable, dynamic_axes={"x": [0]}, verify=True)
    assert program(torch.ones(1, 3)).tolist() == program(torch.ones(1, 3)).tolist() == [[2, 2, 2]]
    assert (model.total.tolist(), model.calls) == ([0, 0, 0], 0)


@pytest.mark.parametrize("mutable", [False, True])
@pytest.mark.filterwarnings("ignore::onward.CaptureWarning")
def test_the_callers_tensors_stay_as_they_are(mutable: bool) -> None:
    class Greedy(nn.Module):
        """Writes to everything it can reach, by every way."""

        def __init__(self, fails: bool) -> None:
            super().__init__()
            self.fails, self.norm = fails, nn.BatchNorm1d(4)
            self.weight = nn.Parameter(torch.randn(4))
            self.register_buffer("seen", torch.randn(4))
            self.plain = torch.randn(4)

        def forward(self, x: Tensor, rest: dict[str, Tensor]) -> Tensor:
            with torch.no_grad():
                self.weight.mul_(2)
                self.weight.data = self.weight * 1.5
                torch._foreach_add_([self.weight, self.seen], 1.0)
            self.seen.view(2, 2).t()[0] = x[0, :2]
            self.plain[1:] += 1
            x.t_().unsqueeze_(0)
            x.mul_(3)
            rest["y"][0] = 0
            torch.add(rest["y"], 1, out=rest["y"])
            if self.fails:
                raise ValueError("enough")
            return self.norm(x[0].t()) * self.weight + self.seen + self.plain + rest["y"]

    x, y = torch.randn(3, 4), torch.randn(4)
    kept = x.clone(), y.clone()
    for fails in (False, True):
        model = Greedy(fails)
        before, plain = state_of(model), model.plain.clone()
        options = {"training": onward.TrainingMode.TRAINING, "mutable_buffers": mutable}
        if fails:
            with pytest.raises(onward.CaptureError, match="enough"):
                onward.export(model, (x, {"y": y}, {}), **options)
        else:
            onward.export(model, (x, {"y": y}, {}), **options)
        assert_unchanged(model, before)
        assert torch.equal(model.plain, plain)
        assert torch.equal(x, kept[0]) and x.shape == (3, 4)
        assert torch.equal(y, kept[1])


# --- with it ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("opset", [11, 13, 17, 20, NEWEST])
def test_state_goes_in_and_comes_out(opset: int, tmp_path: Path) -> None:
    model, file = Cache().eval(), tmp_path / "cache.onnx"
    before = state_of(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        onward.export(model, STEP, file, mutable_buffers=True, verify=True, opset_version=opset)
    assert_unchanged(model, before)
    graph = load(file).graph
    assert shapes(graph.input) == {"x": (2, 1, 4), "position": (1,), "keys": (2, 8, 4), "count": ()}
    assert list(shapes(graph.output)) == ["output_0", "output_1", "keys_out", "count_out"]
    keys, count = torch.randn(2, 8, 4), torch.tensor(5)
    got = run(file, [*STEP, keys, count])
    with torch.no_grad():
        model.keys.copy_(keys)
        model.count.copy_(count)
        wanted = model(*STEP)
    assert_same(got, [*wanted, model.keys, model.count])


def test_a_program_keeps_its_state_between_calls() -> None:
    model = Cache().eval()
    program = onward.export(model, STEP, mutable_buffers=True)
    twin = copy.deepcopy(model)
    steps: list[Any] = [(torch.randn(2, 1, 4), torch.tensor([i])) for i in range(4)]
    steps_agree(program, twin, steps)
    assert list(program.state) == ["keys", "count"]
    assert program.state["count"].item() == 4
    torch.testing.assert_close(program.state["keys"], twin.keys)
    program.reset_state()
    assert program.state["count"].item() == 0
    steps_agree(program, copy.deepcopy(model), steps)
    program.state = {"count": torch.tensor(40)}
    assert program(*STEP)[1].item() == 41


def test_a_state_that_is_none_is_refused() -> None:
    program = onward.export(Cache(), STEP, mutable_buffers=True)
    with pytest.raises(onward.InputError, match=r"'scale' is not part of the program's state \('keys', 'count'\)"):
        program.state = {"scale": torch.ones(4)}
    with pytest.raises(onward.InputError, match="the state 'count' is of type int, not a tensor"):
        program.state = {"count": 3}  # type: ignore[dict-item]


def test_state_with_dynamic_axes() -> None:
    model = Cache().eval()
    axes = {"x": {0: "batch", 1: "new"}, "position": {0: "new"}, "keys": {0: "batch", 1: "room"}}
    example = torch.randn(2, 3, 4), torch.tensor([2, 0, 5])
    program = onward.export(model, example, mutable_buffers=True, dynamic_axes=axes)
    assert [port.shape for port in program.outputs] == [("batch", 4), (), ("batch", "room", 4), ()]
    model.keys = torch.zeros(3, 16, 4)
    program.state = {"keys": torch.zeros(3, 16, 4)}
    steps_agree(program, model, [(torch.randn(3, 2, 4), torch.tensor([i, 15 - i])) for i in range(3)])


def test_a_buffer_that_grows_needs_a_dynamic_axis() -> None:
    model, x = Growing(), torch.randn(2, 5, 4)
    with pytest.raises(onward.CaptureError) as caught:
        onward.export(model, x, mutable_buffers=True)
    assert "the buffer 'past' changes its size: float32[2, 3, 4] becomes float32[2, 8, 4]" in str(caught.value)
    assert "dynamic_axes={'past': {1: 'past'}}" in str(caught.value)
    axes = {"x": {0: "batch", 1: "new"}, "past": {0: "batch", 1: "past"}}
    program = onward.export(model, x, mutable_buffers=True, dynamic_axes=axes)
    report = program.verify()
    assert {"example, next step", "past=1, next step"} <= {each.label for each in report.checks}
    assert program.outputs[1].shape == ("batch", "new + past", 4)
    steps_agree(program, model, [torch.randn(2, count, 4) for count in (1, 4, 2)])


def test_buffers_of_submodules() -> None:
    model = Nested()
    program = onward.export(model, torch.randn(2, 3), mutable_buffers=True, dynamic_axes={"x": {0: "n"}}, verify=True)
    assert [port.name for port in program.inputs] == ["x", "first.total"]
    assert [port.name for port in program.outputs] == ["output", "first.total_out"]
    steps_agree(program, model, [torch.randn(n, 3) for n in (1, 4, 2)])


def test_a_position_that_is_a_buffer() -> None:
    model = Ring()
    program = onward.export(model, torch.randn(3), mutable_buffers=True, verify=True)
    steps_agree(program, model, [torch.randn(3) for _ in range(6)])


@pytest.mark.parametrize("norm", [nn.BatchNorm2d(3), nn.InstanceNorm2d(3, track_running_stats=True)], ids=str)
def test_running_statistics(norm: nn.Module) -> None:
    x = torch.randn(4, 3, 5, 5)
    training = onward.TrainingMode.TRAINING
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = onward.export(norm, x, training=training, mutable_buffers=True, dynamic_axes={"input": [0]})
    norm.train()
    steps_agree(program, norm, [torch.randn(n, 3, 5, 5) + n for n in (4, 2, 7)])
    for name, tensor in program.state.items():
        torch.testing.assert_close(tensor, norm.state_dict()[name])


@pytest.mark.parametrize("front_end", [torch.jit.script, lambda model: torch.export.export(model, STEP)])
def test_other_front_ends(front_end: Any) -> None:
    model = Cache().eval()
    program = onward.export(front_end(model), STEP, mutable_buffers=True, verify=True)
    assert [port.name for port in program.inputs] == ["x", "position", "keys", "count"]
    steps_agree(program, model, [(torch.randn(2, 1, 4), torch.tensor([i])) for i in range(3)])


def test_weights_as_inputs_come_after_the_state() -> None:
    program = onward.export(Cache(), STEP, mutable_buffers=True, export_params=False, verify=True)
    names = [value.name for value in program.model.graph.inputs]
    assert names == ["x", "position", "keys", "count", "scale", "linear.weight", "linear.bias"]


def test_names_that_collide() -> None:
    class Collides(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("x", torch.zeros(2))

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            self.x += x
            return {"x_1_out": self.x * 2}

    program = onward.export(Collides(), torch.ones(2), mutable_buffers=True, verify=True)
    assert [port.name for port in program.inputs] == ["x", "x_1"]
    assert [port.name for port in program.outputs] == ["x_1_out", "x_1_out_1"]
    assert list(program.state) == ["x"]


def test_other_weights_are_another_first_state() -> None:
    model = Cache().eval()
    program = onward.export(model, STEP, mutable_buffers=True)
    other = {**model.state_dict(), "keys": torch.randn(2, 8, 4), "linear.bias": torch.randn(4)}
    program.apply_weights(other)
    model.load_state_dict(other)
    steps_agree(program, model, [(torch.randn(2, 1, 4), torch.tensor([i])) for i in range(2)])
    program.verify()


def test_a_model_without_such_buffers_is_as_always() -> None:
    program = onward.export(nn.Linear(3, 2), torch.randn(1, 3), mutable_buffers=True, verify=True)
    assert [port.name for port in program.inputs] == ["input"]


def test_a_function_has_no_buffers() -> None:
    with pytest.raises(onward.InputError, match="is a function, which has none of its own"):
        onward.export(torch.relu, torch.randn(2), mutable_buffers=True)


def test_a_buffer_in_shared_memory_is_refused() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            both = torch.zeros(2, 3)
            self.register_buffer("first", both[0])
            self.register_buffer("second", both[1])

        def forward(self, x: Tensor) -> Tensor:
            self.first += x
            return self.first + self.second

    with pytest.raises(onward.InputError) as caught:
        onward.export(Shared(), torch.randn(3), mutable_buffers=True)
    assert str(caught.value).splitlines() == [
        "the buffer 'first' cannot be an input of the graph: it shares its memory with 'second'",
        "  if one is to see what is written to the other, keep one buffer and take the part of it in forward "
        "(self.cache[1]); if not, register a copy: register_buffer('first', tensor.clone())",
    ]


def test_a_flag_is_a_flag() -> None:
    with pytest.raises(onward.InputError, match="mutable_buffers must be True or False, not 'yes'"):
        onward.export(Cache(), STEP, mutable_buffers="yes")  # type: ignore[arg-type]
