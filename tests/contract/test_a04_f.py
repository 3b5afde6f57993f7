"""A4: a path, a `PathLike`, any binary file-like object, or nothing. All receive the same bytes."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import onward

from .running import assert_same, load, run

X = torch.randn(2, 3)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


MODEL = Model()


@pytest.fixture(scope="module")
def expected() -> bytes:
    buffer = io.BytesIO()
    onward.export(MODEL, X, buffer)
    return buffer.getvalue()


class Somewhere:
    """A path of another make."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


@pytest.mark.parametrize("make", [str, Path, Somewhere], ids=["str", "pathlib", "PathLike"])
@pytest.mark.parametrize("name", ["model.onnx", "ein Modell für später", "模型.onnx"])
def test_a_path(make: Callable[[Path], Any], name: str, tmp_path: Path, expected: bytes) -> None:
    path = tmp_path / name
    program = onward.export(MODEL, X, make(path))
    assert isinstance(program, onward.Program)
    assert path.read_bytes() == expected
    assert [each.name for each in tmp_path.iterdir()] == [name]
    load(path)
    assert_same(run(path, [X]), [MODEL(X)])


def test_a_path_relative_to_the_working_directory(tmp_path: Path, monkeypatch, expected: bytes) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for name in ("model.onnx", "models/model.onnx"):
        onward.export(MODEL, X, name, verify=True)
        assert (tmp_path / name).read_bytes() == expected


def test_a_path_to_an_older_file_replaces_it(tmp_path: Path, expected: bytes) -> None:
    path = tmp_path / "model.onnx"
    for verify in (False, True):
        path.write_bytes(b"old, and longer than the new one" * 1000)
        onward.export(MODEL, X, path, verify=verify)
        assert path.read_bytes() == expected


class OnlyWrites:
    """No file, no `fileno`, no `seek`: `write` is all there is."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self.parts.append(bytes(data))
        return len(data)


def test_an_object_with_nothing_but_write(expected: bytes) -> None:
    target = OnlyWrites()
    onward.export(MODEL, X, target)
    assert b"".join(target.parts) == expected


def test_a_buffer_has_no_fileno_and_stays_open(expected: bytes) -> None:
    target = io.BytesIO()
    with pytest.raises(io.UnsupportedOperation):
        target.fileno()
    onward.export(MODEL, X, target, verify=True)
    assert target.getvalue() == expected and not target.closed
    assert_same(run(target.getvalue(), [X]), [MODEL(X)])


@contextlib.contextmanager
def unbuffered(path: Path) -> Iterator[Any]:
    with open(path, "wb", buffering=0) as file:
        yield file


@contextlib.contextmanager
def buffered(path: Path) -> Iterator[Any]:
    with open(path, "wb") as file:
        yield file


@contextlib.contextmanager
def temporary(path: Path) -> Iterator[Any]:
    with tempfile.NamedTemporaryFile(dir=path.parent) as file:
        yield file
        file.flush()
        path.write_bytes(Path(file.name).read_bytes())


@pytest.mark.parametrize("opened", [buffered, unbuffered, temporary])
def test_an_open_file_is_written_where_it_stands(opened: Any, tmp_path: Path, expected: bytes) -> None:
    path = tmp_path / "model.onnx"
    with opened(path) as file:
        assert file.fileno() > 0
        file.write(b"before")
        onward.export(MODEL, X, file)
        file.write(b"after")
    assert path.read_bytes() == b"before" + expected + b"after"


def test_a_compressing_file(tmp_path: Path, expected: bytes) -> None:
    with gzip.open(tmp_path / "model.onnx.gz", "wb") as file:
        onward.export(MODEL, X, file)
    with gzip.open(tmp_path / "model.onnx.gz") as file:
        assert file.read() == expected


def test_a_pipe_cannot_seek(expected: bytes) -> None:
    reader, writer = os.pipe()
    received: list[bytes] = []

    def read() -> None:
        with open(reader, "rb") as end:
            received.append(end.read())

    thread = threading.Thread(target=read)
    thread.start()
    with open(writer, "wb") as end:
        assert not end.seekable()
        onward.export(MODEL, X, end)
    thread.join()
    assert received == [expected]


@pytest.mark.parametrize("arguments", [(MODEL, X), (MODEL, X, None)], ids=["left out", "None"])
def test_nothing_returns_the_program_and_writes_no_file(
    arguments: tuple, tmp_path: Path, monkeypatch, expected
) -> None:
    monkeypatch.chdir(tmp_path)
    program = onward.export(*arguments)
    assert list(tmp_path.iterdir()) == []
    assert_same([program(X)], [MODEL(X)])
    program.save("later.onnx")
    assert Path("later.onnx").read_bytes() == expected
