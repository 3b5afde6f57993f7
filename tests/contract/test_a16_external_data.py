"""A16: a file over 2 GiB switches to external data by itself; `use_external_data_format` / `external_data` force it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import onward

from .running import assert_same, load, run

X = torch.randn(2, 64)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.first, self.second = torch.nn.Linear(64, 64), torch.nn.Linear(64, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


MODEL = Model()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def locations(path: Path) -> dict[str, str]:
    """Which initializers are kept in which file beside the model."""
    proto = onnx.load(path, load_external_data=False)
    return {
        each.name: next(entry.value for entry in each.external_data if entry.key == "location")
        for each in proto.graph.initializer
        if each.data_location == onnx.TensorProto.EXTERNAL
    }


# Forced --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", [False, True], ids=["written", "verified"])
@pytest.mark.parametrize(
    "flags",
    [
        {"external_data": True},
        {"use_external_data_format": True},
        {"external_data": True, "use_external_data_format": True},
    ],
    ids=lambda flags: " and ".join(flags),
)
def test_weights_go_to_a_file_beside_the_model(flags: dict[str, Any], verify: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onward.export(MODEL, X, path, verify=verify, dynamic_axes={"x": {0: "batch"}}, **flags)
    assert names(tmp_path) == ["model.onnx", "model.onnx.data"]
    assert locations(path)["first.weight"] == "model.onnx.data"
    assert path.stat().st_size < 64 * 64 * 4 <= (tmp_path / "model.onnx.data").stat().st_size
    load(path)
    x = torch.randn(3, 64)
    assert_same(run(path, [x]), [MODEL(x)])


@pytest.mark.parametrize(
    "flags",
    [{}, {"external_data": None}, {"external_data": False}, {"use_external_data_format": False}],
    ids=["left out", "None", "external_data=False", "use_external_data_format=False"],
)
def test_otherwise_everything_is_in_one_file(flags: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onward.export(MODEL, X, path, **flags)
    assert names(tmp_path) == ["model.onnx"] and locations(path) == {}
    assert_same(run(path, [X]), [MODEL(X)])


def test_the_two_files_move_together(tmp_path: Path, monkeypatch) -> None:
    """The model names its data without a folder, so both may go anywhere."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    onward.export(MODEL, X, "model.onnx", external_data=True, verify=True)
    shutil.move(tmp_path / "here", tmp_path / "there")
    monkeypatch.chdir(tmp_path)
    assert_same(run(tmp_path / "there" / "model.onnx", [X]), [MODEL(X)])


def test_program_save_takes_it_too(tmp_path: Path) -> None:
    program = onward.export(MODEL, X)
    written = program.save(tmp_path / "model.onnx", external_data=True)
    assert written.data_path == str(tmp_path / "model.onnx.data")
    assert written.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert program.verify(tmp_path / "model.onnx").ok
    assert_same(run(tmp_path / "model.onnx", [X]), [MODEL(X)])


# Over 2 GiB ----------------------------------------------------------------------------------------------------------


class Huge(torch.nn.Module):
    """2.05 GiB of weights to a file, 4 KiB in memory: every row of the table is the same one."""

    def __init__(self) -> None:
        super().__init__()
        row = torch.arange(1024.0)
        self.table = torch.nn.Parameter(row.expand(int(2.05 * 2**30) // (4 * 1024), 1024), requires_grad=False)
        self.linear = torch.nn.Linear(1024, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.nn.functional.embedding(ids, self.table) / 1024)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Emptied at once: pytest would keep gigabytes for a while."""
    yield tmp_path
    for path in tmp_path.iterdir():
        path.unlink()


def test_over_two_gibibytes_the_weights_leave_the_file_by_themselves(folder: Path) -> None:
    model, path = Huge(), folder / "model.onnx"
    last = model.table.shape[0] - 1
    with pytest.raises(onward.WriteError, match=r"2\.1 GiB in one file.*end at 2 GiB.*\n.*leave external_data at None"):
        onward.export(model, torch.tensor([[0, last]]), path, external_data=False)
    assert names(folder) == []

    onward.export(model, torch.tensor([[0, last]]), path, dynamic_axes={"ids": {1: "length"}})
    assert names(folder) == ["model.onnx", "model.onnx.data"]
    assert (folder / "model.onnx.data").stat().st_size > 2**31 > path.stat().st_size
    assert locations(path)["table"] == "model.onnx.data"
    onnx.checker.check_model(str(path))
    ids = torch.tensor([[last, 1, last // 2]])
    assert_same(run(path, [ids]), [model(ids)])
