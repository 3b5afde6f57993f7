"""A15: `is_in_onnx_export()` is true only inside, and exports from several threads do not disturb each other."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo.eval_frame as compiler
import torch.onnx

import onward
import onward.onnx
from onward.capture.python.compiling import without_compiling

from ..own_files import own_file
from ..unharmed import unharmed

HERE: list[tuple[bool, ...]] = []  # not the model's own: an export leaves those as they were
ELSEWHERE: list[tuple[bool, ...]] = []


class Asks(torch.nn.Module):
    """Notes what everybody says while forward runs, in this thread and in another."""

    def __init__(self, fail: bool = False) -> None:
        super().__init__()
        self.fail = fail

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        HERE.append(answers())
        other = threading.Thread(target=lambda: ELSEWHERE.append(answers()))
        other.start()
        other.join()
        if self.fail:
            raise ValueError("no")
        return x * 2 if onward.is_in_onnx_export() else x


def answers() -> tuple[bool, ...]:
    return (
        onward.is_in_onnx_export(),
        onward.onnx.is_in_onnx_export(),
        onward.onnx.utils.is_in_onnx_export(),
        bool(torch.onnx.is_in_onnx_export()),
        torch.compiler.is_exporting(),
    )


X = torch.randn(2, 3)


def test_true_inside_in_this_thread_only() -> None:
    model = Asks()
    program = onward.export(model, (X,))
    assert set(HERE) == {(True,) * 5}
    assert set(ELSEWHERE) == {(False,) * 5}
    assert answers() == (False,) * 5
    torch.testing.assert_close(program(X), X * 2)


def test_false_again_after_an_error() -> None:
    with pytest.raises(onward.CaptureError):
        onward.export(Asks(fail=True), (X,))
    assert answers() == (False,) * 5
    assert torch.onnx.is_in_onnx_export() is False


def test_the_compiler_compiles_again_when_the_last_of_several_threads_is_done() -> None:
    """Its stance is one for the process; exports that begin and end in turn must not hand each other's on."""
    first, second = threading.Event(), threading.Event()

    def begins_first() -> None:
        with without_compiling():
            first.set()
            second.wait(20)

    def ends_last() -> None:
        first.wait(20)
        with without_compiling():
            second.set()
            threads[0].join(20)
            seen.append(compiler._stance.stance)

    seen: list[str] = []
    threads = [threading.Thread(target=begins_first), threading.Thread(target=ends_last)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert seen == ["force_eager"]
    assert compiler._stance.stance == "default"


OWN_FILE = """
    import torch

    TABLE = {{}}


    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            layers = [torch.nn.Linear(8, 8) if i % 2 else torch.nn.LayerNorm(8) for i in range(3 + {seed})]
            self.layers = torch.nn.Sequential(*layers, torch.nn.ReLU())

        def forward(self, x):
            rows = int(x.shape[0])
            if rows not in TABLE:
                TABLE[rows] = torch.arange(rows)
            first, rest = divmod(len(x), 2)
            return self.layers(x) * max(first, 1) + TABLE[rows][:, None] + min(rest, {seed})
"""


@pytest.mark.parametrize("axes", [None, {"x": {0: "rows"}}], ids=["fixed", "dynamic"])
def test_exporting_from_several_threads(axes: Any, tmp_path: Path) -> None:
    """Models with classes of their own, in files of their own: an export reaches into these."""
    with contextlib.ExitStack() as stack:
        models = []
        for seed in range(6):
            torch.manual_seed(seed)
            file = own_file(tmp_path, f"a15_model_{seed}", OWN_FILE.format(seed=seed))
            models.append(stack.enter_context(file).Model().eval())

        def convert(model: torch.nn.Module) -> onward.Program:
            return onward.export(model, (torch.ones(2, 8),), input_names=["x"], dynamic_axes=axes, verify=True)

        expected = [convert(model).proto().SerializeToString() for model in models]
        found: dict[int, bytes] = {}
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                program = convert(models[number])
                found[number] = program.proto().SerializeToString()
                torch.testing.assert_close(program(torch.ones(2, 8)), models[number](torch.ones(2, 8)))
            except BaseException as error:
                failures.append(error)
                raise

        for model in models:
            stack.enter_context(unharmed(model))
        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(models))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert [found[number] for number in range(len(models))] == expected
