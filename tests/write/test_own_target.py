"""A storage of the caller's own: a dict, which gets both files or none, whatever fails."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import onward
from onward.errors import InputError, VerifyError, WriteError
from onward.target import Target
from onward.write import model_bytes, write_model
from onward.write.files import Sink
from tests.write.small_models import constants_model

MODEL = constants_model({"a": torch.arange(300_000.0), "b": torch.ones(500), "c": torch.ones(300_000).neg()})
BEFORE = {"model.onnx": b"the old model", "model.onnx.data": b"the old weights"}


class Bucket:
    """A storage whose files are the entries of a dict."""

    name = "model.onnx"
    data_name: str | None = "model.onnx.data"

    def __init__(self, kept: dict[str, bytes]) -> None:
        self.kept = kept
        self.opened: dict[str, io.BytesIO] = {}
        self.calls: list[str] = []

    def open(self, name: str) -> io.BytesIO:
        self.calls.append(f"open {name}")
        self.opened[name] = io.BytesIO()
        return self.opened[name]

    def commit(self) -> None:
        self.calls.append("commit")
        self.kept.update({name: file.getvalue() for name, file in self.opened.items()})

    def abort(self) -> None:
        self.calls.append("abort")
        self.opened.clear()


def test_one_file_has_the_bytes_of_every_other_target() -> None:
    bucket = Bucket({})
    written = write_model(MODEL, bucket)
    assert isinstance(bucket, Target)
    assert bucket.kept == {"model.onnx": model_bytes(MODEL)}
    assert bucket.calls == ["open model.onnx", "commit"]
    assert (written.path, written.data_path, written.bytes) == (None, None, len(bucket.kept["model.onnx"]))


def test_both_files_are_those_that_a_folder_gets(tmp_path: Path) -> None:
    bucket = Bucket(dict(BEFORE))
    written = write_model(MODEL, bucket, external_data=True)
    write_model(MODEL, tmp_path / "model.onnx", external_data=True)
    assert bucket.kept == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written.bytes == sum(map(len, bucket.kept.values())) and len(bucket.kept) == 2
    assert bucket.calls == ["open model.onnx.data", "open model.onnx", "commit"]


def test_export_writes_to_it_and_verifies_before() -> None:
    bucket = Bucket({})
    onward.export(torch.nn.Linear(64, 64), torch.ones(2, 64), bucket, external_data=True, verify=True)
    assert set(bucket.kept) == {"model.onnx", "model.onnx.data"}
    model = onnx.load_model_from_string(bucket.kept["model.onnx"])
    places = {entry.key: entry.value for each in model.graph.initializer for entry in each.external_data}
    assert places["location"] == "model.onnx.data"


def test_a_file_that_is_wrong_never_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise VerifyError("the outputs differ")

    monkeypatch.setattr(onward.Program, "verify", refuse)
    bucket = Bucket(dict(BEFORE))
    with pytest.raises(VerifyError):
        onward.export(torch.nn.Linear(2, 2), torch.ones(1, 2), bucket, verify=True)
    assert (bucket.kept, bucket.calls) == (BEFORE, [])


class Unplugged(Bucket):
    """It fails at one of its calls."""

    def __init__(self, kept: dict[str, bytes], at: str, error: BaseException) -> None:
        super().__init__(kept)
        self.at, self.error = at, error

    def open(self, name: str) -> io.BytesIO:
        file = super().open(name)
        if self.at == f"open {name}":
            raise self.error
        return file

    def commit(self) -> None:
        if self.at == "commit":
            self.calls.append("commit")
            raise self.error
        super().commit()


@pytest.mark.parametrize("at", ["open model.onnx.data", "open model.onnx", "commit"])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), RuntimeError("no such bucket"), ConnectionError("gone")], ids=repr
)
def test_a_failure_of_the_storage_aborts_and_leaves_what_was_there(at: str, error: BaseException) -> None:
    bucket = Unplugged(dict(BEFORE), at, error)
    with pytest.raises((type(error), WriteError)) as caught:
        write_model(MODEL, bucket, external_data=True)
    assert caught.value is error or caught.value.__cause__ is error
    assert bucket.calls[-2:] == [at, "abort"]
    assert bucket.kept == BEFORE and not bucket.opened


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("after", [0, 1_500_000])
def test_an_interrupt_in_the_middle_aborts(external: bool, after: int) -> None:
    def progress(done: int, total: int) -> None:
        if done > after:
            raise KeyboardInterrupt

    bucket = Bucket(dict(BEFORE))
    with pytest.raises(KeyboardInterrupt):
        write_model(MODEL, bucket, external_data=external, progress=progress)
    assert bucket.calls[-1] == "abort" and "commit" not in bucket.calls
    assert bucket.kept == BEFORE and not bucket.opened


def test_an_error_of_the_system_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Sink, "_write_through", full)
    bucket = Bucket({})
    with pytest.raises(WriteError) as caught:
        write_model(MODEL, bucket)
    text = "cannot write 'model.onnx' (2.3 MiB): No space left on device\n  nothing was committed to the storage"
    assert str(caught.value) == text
    assert (bucket.kept, bucket.calls) == ({}, ["open model.onnx", "abort"])


def test_a_storage_of_one_file() -> None:
    bucket = Bucket({})
    bucket.data_name = None
    write_model(MODEL, bucket)
    assert set(bucket.kept) == {"model.onnx"}
    with pytest.raises(WriteError, match="has no place for a data file"):
        write_model(MODEL, bucket, external_data=True)


@pytest.mark.parametrize(
    ("name", "data_name", "text"),
    [
        ("", None, "Bucket.name must be the name of a file, not ''"),
        (3, None, "Bucket.name must be the name of a file, not 3"),
        ("m.onnx", "", "Bucket.data_name must be the name of a file, or None, not ''"),
        ("m", "m", "Bucket gives the model and its weights one name, 'm'\n  name the file for weights 'm.data'"),
    ],
)
def test_names_that_are_none_are_refused_before_any_work(name: Any, data_name: Any, text: str) -> None:
    bucket = Bucket({})
    bucket.name, bucket.data_name = name, data_name
    with pytest.raises(InputError) as caught:
        onward.export(torch.nn.Linear(2, 2), torch.ones(1, 2), bucket)
    assert str(caught.value) == text and bucket.calls == []
