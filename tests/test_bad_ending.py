"""Bad ends: a target that cannot be written, a full disk, Ctrl-C, no onnxruntime, a wrong file.

Each is a clear error, and leaves everything as it was.
"""

from __future__ import annotations

import errno
import io
import os
import resource
import signal
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import onward
from onward import export_steps
from onward.verify import runtime
from onward.write import files

from .unharmed import OLD, Model, X, unharmed


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(OLD)
    return path


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    """What the first export imports would otherwise look like a change."""
    onward.export(Model(), X, verify=True)


# Where to ------------------------------------------------------------------------------------------------------------


class Untouched(torch.nn.Module):
    """Fails the test if the export got as far as running the model."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pytest.fail("the target cannot be written to, and the model was run all the same")


def misplaced(kind: type[BaseException], text: str, f: Any, folder: Path, **options: Any) -> Any:
    with unharmed(model := Untouched(), folder), pytest.raises(kind) as caught:
        onward.export(model, X, f, **options)
    assert str(caught.value) == text
    return caught.value


@pytest.mark.parametrize("verify", [False, True])
def test_a_missing_directory(verify: bool, tmp_path: Path) -> None:
    path = tmp_path / "missing" / "model.onnx"
    reason = f"the directory '{path.parent}' does not exist"
    text = f"cannot write '{path}': {reason}\n  create it first, or choose another path"
    error = misplaced(onward.WriteError, text, path, tmp_path, verify=verify)
    assert error.errno == errno.ENOENT and isinstance(error, OSError) and error.stage == "write"


@pytest.mark.parametrize("verify", [False, True])
def test_a_directory_as_target(verify: bool, tmp_path: Path) -> None:
    text = f"cannot write '{tmp_path}': it is a directory\n  give the name of a file in it"
    assert misplaced(onward.WriteError, text, tmp_path, tmp_path, verify=verify).errno == errno.EISDIR
    text = f"cannot write '{tmp_path}/new/': it names a directory\n  add the name of a file"
    misplaced(onward.WriteError, text, f"{tmp_path}/new/", tmp_path, verify=verify)


def test_a_file_where_a_directory_should_be(target: Path) -> None:
    text = (
        f"cannot write '{target}/model.onnx': '{target}' is not a directory\n  create it first, or choose another path"
    )
    misplaced(onward.WriteError, text, target / "model.onnx", target.parent)


@pytest.mark.parametrize("name", ["", "model\0.onnx"], ids=["empty", "a null byte"])
def test_what_is_no_name_of_a_file(name: str, tmp_path: Path) -> None:
    text = f"{name!r} is not the name of a file\n  give a path, such as 'model.onnx'"
    misplaced(onward.InputError, text, name, tmp_path)


def test_what_is_neither_a_path_nor_a_file(tmp_path: Path) -> None:
    text = "cannot write a model to 3 of type int\n  give a path or a file opened for binary writing"
    misplaced(onward.InputError, text, 3, tmp_path)
    text = "the target file was opened in text mode\n  open it for binary writing: open(path, 'wb')"
    misplaced(onward.InputError, text, io.StringIO(), tmp_path)


@pytest.fixture
def locked() -> Iterator[Path]:
    """A folder in which we may not write. For root there is none, so root becomes nobody for a while."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        (folder / "model.onnx").write_bytes(OLD)
        folder.chmod(0o555)
        is_root = os.geteuid() == 0
        try:
            if is_root:
                os.seteuid(65534)
            yield folder
        finally:
            if is_root:
                os.seteuid(0)
            folder.chmod(0o755)


@pytest.mark.parametrize("verify", [False, True])
def test_a_folder_without_permission(verify: bool, locked: Path) -> None:
    for path in (locked / "model.onnx", locked / "new.onnx"):
        text = (
            f"cannot write '{path}': no permission to write to '{locked}'\n  choose a directory that you may write to"
        )
        assert misplaced(onward.WriteError, text, path, locked, verify=verify).errno == errno.EACCES


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc, where nobody may create files")
@pytest.mark.parametrize("verify", [False, True])
def test_a_folder_that_takes_no_files_even_from_root(verify: bool) -> None:
    with unharmed(model := Model()), pytest.raises(onward.WriteError) as caught:
        onward.export(model, X, "/proc/model.onnx", verify=verify)
    assert str(caught.value).startswith("cannot write '/proc/model.onnx'")
    assert "\n  choose" in str(caught.value)


# A full disk ---------------------------------------------------------------------------------------------------------

NO_SPACE = "No space left on device"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, a device that is always full")
@pytest.mark.parametrize("verify", [False, True])
def test_a_device_that_is_full(verify: bool) -> None:
    with unharmed(model := Model()), pytest.raises(onward.WriteError) as caught:
        onward.export(model, X, "/dev/full", verify=verify)
    size = len(exported(model))
    assert str(caught.value) == (
        f"cannot write '/dev/full' ({size} bytes): {NO_SPACE}\n  free some space, or choose a path on another disk"
    )
    assert caught.value.errno == errno.ENOSPC and stat.S_ISCHR(os.stat("/dev/full").st_mode)


def exported(model: Any) -> bytes:
    buffer = io.BytesIO()
    onward.export(model, X, buffer)
    return buffer.getvalue()


def test_a_stream_that_runs_full() -> None:
    class Full(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, NO_SPACE)

    with unharmed(model := Model()), pytest.raises(onward.WriteError) as caught:
        onward.export(model, X, Full())
    assert str(caught.value).startswith("cannot write 'Full' (") and f"bytes): {NO_SPACE}\n" in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


class Big(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 20_000), torch.nn.Linear(20_000, 4), torch.nn.Dropout())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


@pytest.mark.parametrize("external", [False, True], ids=["one file", "external data"])
@pytest.mark.parametrize("verify", [False, True], ids=["written", "verified"])
def test_a_disk_that_runs_full(external: bool, verify: bool, target: Path, monkeypatch) -> None:
    model, write, taken = Big(), files.Sink._write_through, []

    def until_full(self: Any, view: Any) -> None:
        taken.append(len(view))
        if sum(taken) > 400_000:
            raise OSError(errno.ENOSPC, NO_SPACE)
        write(self, view)

    monkeypatch.setattr(files.Sink, "_write_through", until_full)
    with unharmed(model, target.parent), pytest.raises(onward.WriteError) as caught:
        onward.export(model, X, target, external_data=external, verify=verify)
    text = str(caught.value)
    assert text.startswith(f"cannot write '{target}' (") and f" KiB): {NO_SPACE} (" in text and " free)\n" in text
    assert text.endswith(
        "free some space, or choose a path on another disk; nothing was left behind, and a file that was there before "
        "is untouched"
    )
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("external", [False, True], ids=["one file", "external data"])
@pytest.mark.parametrize("verify", [False, True], ids=["written", "verified"])
def test_a_file_system_that_ends_a_file_early(external: bool, verify: bool, target: Path) -> None:
    """The system itself cuts the write short: nothing here is simulated."""
    model = Big()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with unharmed(model, target.parent):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
            with pytest.raises(onward.WriteError) as caught:
                onward.export(model, X, target, external_data=external, verify=verify)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(caught.value).startswith(f"cannot write '{target}' (")
    assert str(caught.value).endswith(
        " KiB): File too large\n  choose a path on a file system that takes files of this size"
    )


# Ctrl-C --------------------------------------------------------------------------------------------------------------


LEFT = [0]  # runs before Ctrl-C; the model's own numbers and lists are put back after every run


class Interrupted(Model):
    """Ctrl-C on a certain run of forward: the first is the trace, the second is verification at another size."""

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        result = super().forward(x, scale)
        LEFT[0] -= 1
        if not LEFT[0]:
            signal.raise_signal(signal.SIGINT)
        return result


@pytest.fixture
def listening() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("at", [1, 2], ids=["while tracing", "while verifying"])
@pytest.mark.parametrize("external", [False, True], ids=["one file", "external data"])
def test_ctrl_c_in_forward(at: int, external: bool, target: Path, listening: None) -> None:
    LEFT[0] = at
    with unharmed(model := Interrupted(), target.parent), pytest.raises(KeyboardInterrupt):
        onward.export(model, X, target, external_data=external, verify=True, dynamic_axes={"x": {0: "batch"}})
    assert LEFT == [0]


def interrupting(function: Any, after: int = 0) -> Any:
    """The function, until Ctrl-C comes in the middle of it."""
    calls = []

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) > after:
            raise KeyboardInterrupt
        return function(*args, **kwargs)

    return interrupted


PLACES = {
    "lowering": (export_steps, "lower_program", 0),
    "passes": (export_steps, "tidy", 0),
    "writing": (files.Sink, "_write_through", 0),
    "writing, later": (files.Sink, "_write_through", 2),
    "closing the file": (files.Replacement, "close", 0),
    "renaming": (os, "replace", 0),
    "loading into onnxruntime": (runtime.Session, "__init__", 0),
    "running in onnxruntime": (runtime.Session, "run", 0),
    "running at other sizes": (runtime.Session, "run", 1),
}


@pytest.mark.parametrize(("owner", "name", "after"), PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize("external", [False, True], ids=["one file", "external data"])
@pytest.mark.parametrize("verify", [False, True], ids=["written", "verified"])
def test_ctrl_c_after_the_trace(
    owner: Any, name: str, after: int, external: bool, verify: bool, target: Path, monkeypatch
) -> None:
    if owner is runtime.Session:
        verify = True  # it is not used otherwise
    options = {"external_data": external, "verify": verify, "dynamic_axes": {"x": {0: "batch"}}}
    with unharmed(model := Big(), target.parent), monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupting(getattr(owner, name), after))
        with pytest.raises(KeyboardInterrupt):
            onward.export(model, X, target, **options)
        patch.undo()


def test_the_next_export_works_after_an_interrupted_one(target: Path, listening: None) -> None:
    LEFT[0] = 1
    with pytest.raises(KeyboardInterrupt):
        onward.export(Interrupted(), X, target)
    onward.export(Model(), X, target, verify=True)
    assert target.read_bytes() != OLD


# onnxruntime ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def without_onnxruntime(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)


MISSING = "onnxruntime is not installed, and running a model needs it ("
INSTALL = "\n  pip install onnxruntime"


def test_verification_without_onnxruntime_is_refused_before_any_work(target: Path, without_onnxruntime: None) -> None:
    with unharmed(model := Untouched(), target.parent), pytest.raises(onward.MissingDependencyError) as caught:
        onward.export(model, X, target, verify=True)
    assert str(caught.value).startswith(MISSING) and str(caught.value).endswith(INSTALL)
    assert isinstance(caught.value, ImportError)


def test_export_itself_needs_no_onnxruntime(target: Path, without_onnxruntime: None) -> None:
    program = onward.export(Model(), X, target)
    assert target.read_bytes() != OLD
    for run in (lambda: program(X), program.verify):
        with pytest.raises(onward.MissingDependencyError) as caught:
            run()
        assert str(caught.value).startswith(MISSING) and str(caught.value).endswith(INSTALL)


# A wrong file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("external", [False, True], ids=["one file", "external data"])
def test_a_file_that_fails_verification_never_appears(external: bool, target: Path, monkeypatch) -> None:
    model, lower = Big(), export_steps.lower_program

    def wrongly(*args: Any, **kwargs: Any) -> Any:
        lowered = lower(*args, **kwargs)
        bias = lowered.graph.initializers["layers.1.bias"]
        bias.const_value = type(bias.const_value)(torch.full((4,), 5.0), name=bias.name)
        return lowered

    with unharmed(model, target.parent), monkeypatch.context() as patch:
        patch.setattr(export_steps, "lower_program", wrongly)
        with pytest.raises(
            onward.VerifyError, match=r"disagree\n  example: output 'output' differs in 8 of 8 elements"
        ):
            onward.export(model, X, target, external_data=external, verify=True)
        patch.undo()
    onward.export(model, X, target, external_data=external, verify=True)
