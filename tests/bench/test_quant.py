"""What `python -m bench.quant` measures and how it judges, without training anything."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

import onward
from bench.quant.measure import agreement, graph, has_free_batch, interleaved, run, session, step_of
from bench.quant.networks import measure_network
from bench.quant.report import figures, show
from bench.quant.tasks import TASKS, sequences


def test_agreement_counts_steps_of_the_output() -> None:
    ours = np.array([0.0, 0.5, 1.0, 1.5, 4.0], dtype=np.float32)
    found = agreement(ours, np.array([0.0, 0.5, 0.5, 3.0, 4.0], dtype=np.float32))
    assert (found.equal, found.near, found.worst) == (0.6, 0.8, 3.0)


def test_outputs_without_a_grid_have_no_step() -> None:
    assert step_of(np.linspace(0, 1, 300)) == 1.0
    assert step_of(np.zeros(4)) == 1.0
    assert step_of(np.array([0.25, 1.0, 0.5])) == 0.25


def test_labels_of_sequences_are_the_middle_of_what_is_marked() -> None:
    inputs, labels = sequences().test
    for row, label in zip(inputs[:50].tolist(), labels[:50].tolist(), strict=True):
        marked = sorted(each - 20 for each in row if each >= 20)
        assert len(marked) == 5 and marked[2] == label


def test_files_are_run_timed_and_read(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).eval(), torch.randn(10, 4)
    fixed, free = tmp_path / "fixed.onnx", tmp_path / "free.onnx"
    onward.export(model, (x[:5],), fixed)
    onward.export(model, (x[:5],), free, dynamic_axes={"input": {0: "n"}})
    assert np.allclose(run(session(fixed), x), model(x).detach().numpy(), atol=1e-6)
    assert np.allclose(run(session(free), x), run(session(fixed), x), atol=1e-6)
    assert graph(free).products == 2
    assert all(each > 0 for each in interleaved([fixed, free], x, seconds=0.01))
    assert [has_free_batch(each) for each in (fixed, free)] == [False, True]


def results(**changes: Any) -> dict[str, Any]:
    plain = {"name": "fp32", "ours": False, "bits": 8, "trained": False, "accuracy": 99.0, "ms": 1.0, "ms_of_one": 0.1}
    ours = {**plain, "name": "ours", "ours": True, "equal": 1.0, "near": 1.0, "worst": 0.0, "on_grid": True, **changes}
    rows = [{**row, "seconds": 1.0, "bytes": 1000, "left_in_float": {}} for row in (plain, ours)]
    task = {"name": "cnn", "title": "CNN", "exact": True, "batch": 32, "test": 797, "rows": rows}
    return {
        "tasks": {"cnn": task},
        "networks": [network()],
        "stacks": [{"channels": 32, "float_ms": 2.0, "int8_ms": 1.0, "faster": 2.0}],
        "steps": [{"task": "cnn", "float_ms": 10.0, "ratio": {"W8A8": 1.4}}],
    }


def network(**changes: Any) -> dict[str, Any]:
    times = {"float_ms": 3.0, "int8_ms": 1.5, "static_ms": 2.0, "faster": 2.0}
    found = {"equal": 1.0, "near": 1.0, "worst": 0.0, "left_in_float": {}, "static_error": None}
    return {"name": "resnet18", "exact": True, **times, **found, **changes}


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, []),
        ({"faster": 0.9}, ["resnet18: times faster than fp32 at a batch of one"]),
        ({"equal": 0.9995}, ["resnet18: equal elements"]),
        ({"equal": 0.9995, "exact": False}, []),
        ({"near": 0.99, "exact": False}, ["resnet18: elements within a step"]),
    ],
)
def test_figures_of_a_network(changes: dict[str, Any], missed: list[str]) -> None:
    judged = figures({**results(), "networks": [network(**changes)]})
    assert [each.name for each in judged if each.reached is False] == missed


def test_a_network_is_measured_beside_float_and_onnxruntimes_quantiser(tmp_path: Path) -> None:
    found = measure_network("shufflenet_v2_x0_5", tmp_path, seconds=0.01)
    assert found["equal"] == 1 and not found["left_in_float"] and found["static_error"] is None
    assert min(found["float_ms"], found["int8_ms"], found["static_ms"]) > 0 and not list(tmp_path.iterdir())


def test_a_peer_that_fails_is_told() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    show({**results(), "networks": [network(static_error="it broke", left_in_float={"Conv": 2})]}, console)
    assert re.search(r"resnet18 .* 2.00 .* fails .* 100.000% .* 2 Conv", console.export_text())


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, []),
        ({"equal": 0.9999}, ["cnn, ours: equal elements"]),
        ({"accuracy": 98.5}, ["cnn, ours: accuracy lost"]),
        ({"accuracy": 98.5, "bits": 4, "trained": True}, []),
        ({"accuracy": 90.0, "bits": 4}, []),  # four bits without training promise nothing
        ({"ms": 1.2}, ["cnn, ours: times faster than fp32"]),
        ({"ms_of_one": 0.2}, ["cnn, ours: times faster than fp32 at a batch of one"]),
        ({"error": "it broke"}, ["cnn, ours: works"]),
    ],
)
def test_figures(changes: dict[str, Any], missed: list[str]) -> None:
    judged = figures(results(**changes))
    assert [each.name for each in judged if each.reached is False] == missed


def test_what_was_trained_is_compared_with_float_trained_as_long() -> None:
    given = results(trained=True)
    rows = given["tasks"]["cnn"]["rows"]
    rows.append({**rows[0], "name": "fp32, trained on", "accuracy": 99.5})
    assert [each.name for each in figures(given) if each.reached is False] == ["cnn, ours: accuracy lost"]


def test_tables_tell_what_was_missed_and_what_failed() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    show(results(error="it broke"), console)
    show(results(equal=0.5), console)
    text = console.export_text()
    assert "ours: it broke" in text and "cnn, ours: equal elements: 50.00% against 100.00%" in text
    assert "Figures reached: 7 of 8" in text


def test_every_network_takes_its_task() -> None:
    for task in TASKS.values():
        inputs = sequences().test[0][:2] if "sequences" in task.title else torch.zeros(2, 1, 8, 8)
        assert task.made().eval()(inputs).shape[0] == 2
