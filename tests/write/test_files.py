"""Where it is written: streams, replaced files, interrupted and impossible writes, memory, and the 2 GiB limit."""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import subprocess
import sys
import textwrap
import threading

import onnx
import onnx_ir as ir
import pytest
import torch

from onward.errors import InputError, WriteError
from onward.write import files, framing, model_bytes, write_model, writer
from tests.write.small_models import constants_model

MODEL = constants_model({"a": torch.arange(300_000.0), "b": torch.ones(500), "c": torch.ones(300_000).neg()})


def listing(directory) -> set[str]:
    return {path.name for path in directory.iterdir()}


# Streams --------------------------------------------------------------------------------------------------------------


class Trickle(io.RawIOBase):
    """An unbuffered file that takes at most a few bytes at a time."""

    def __init__(self) -> None:
        self.received = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        part = bytes(data[:70_001])
        self.received += part
        return len(part)


class Keeper:
    """Not a file at all: it has `write`, returns nothing, and keeps what it gets."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.parts.append(data)


def test_streams_of_every_kind_receive_the_same_bytes(tmp_path) -> None:
    expected = model_bytes(MODEL)
    trickle, keeper = Trickle(), Keeper()
    assert write_model(MODEL, trickle).bytes == len(expected)
    assert bytes(trickle.received) == expected
    write_model(MODEL, keeper)
    assert b"".join(keeper.parts) == expected and all(type(part) is bytes for part in keeper.parts)
    for opener, name in ((open, "plain"), (gzip.open, "packed")):
        with opener(tmp_path / name, "wb") as file:
            file.write(b"before")
            written = write_model(MODEL, file)
            file.write(b"after")
        assert written.paths == ()
    assert (tmp_path / "plain").read_bytes() == b"before" + expected + b"after"
    assert gzip.decompress((tmp_path / "packed").read_bytes()) == b"before" + expected + b"after"


def test_stream_errors_are_clear(tmp_path) -> None:
    with pytest.raises(InputError, match=r"cannot write a model to 3 of type int\n.*a path or a file"):
        write_model(MODEL, 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"opened in text mode\n.*'wb'"):
        write_model(MODEL, io.StringIO())  # type: ignore[arg-type]
    with pytest.raises(WriteError, match="a stream has no place for a data file"):
        write_model(MODEL, io.BytesIO(), external_data=True)
    with open(tmp_path / "f", "xb") as file:
        pass
    with open(tmp_path / "f", "rb") as file, pytest.raises(WriteError, match="cannot write '.*/f'"):
        write_model(MODEL, file)


def test_a_stream_on_a_full_disk() -> None:
    class Full(Trickle):
        def write(self, data) -> int:
            if len(self.received) > 200_000:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    with pytest.raises(WriteError, match=r"cannot write 'Full' \(2.3 MiB\): No space left on device") as caught:
        write_model(MODEL, Full())
    assert caught.value.errno == errno.ENOSPC and isinstance(caught.value.__cause__, OSError)


def test_a_pipe_is_written_to_and_not_replaced(tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_model(MODEL, pipe)
    reader.join()
    assert received == [model_bytes(MODEL)] and stat.S_ISFIFO(pipe.stat().st_mode)


# Whole or not at all --------------------------------------------------------------------------------------------------


def interrupt(after: int, error: BaseException):
    def progress(done: int, total: int) -> None:
        if done > after:
            raise error

    return progress


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("from the callback")], ids=["interrupt", "error"])
def test_an_interrupted_write_leaves_the_old_files(tmp_path, external: bool, error: BaseException) -> None:
    path = tmp_path / "model.onnx"
    for after in (0, 1_500_000):
        with pytest.raises(type(error)):
            write_model(MODEL, path, external_data=external, progress=interrupt(after, error))
        assert listing(tmp_path) == set()
    write_model(constants_model({"old": torch.ones(600)}), path, external_data=True)
    before = {name: (tmp_path / name).read_bytes() for name in listing(tmp_path)}
    for after in (0, 1_500_000):
        with pytest.raises(type(error)):
            write_model(MODEL, path, external_data=external, progress=interrupt(after, error))
        assert before == {name: (tmp_path / name).read_bytes() for name in listing(tmp_path)}
    assert set(before) == {"model.onnx", "model.onnx.data"}


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
@pytest.mark.parametrize("old_there", [True, False], ids=["old pair", "nothing before"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_failure_between_the_two_renames_keeps_a_consistent_pair(
    tmp_path, monkeypatch, old_there: bool, links: bool, moment: str
) -> None:
    path = tmp_path / "model.onnx"
    if old_there:
        write_model(constants_model({"old": torch.ones(600)}), path, external_data=True)
    before = {name: (tmp_path / name).read_bytes() for name in listing(tmp_path)}
    rename = os.replace

    def failing(source, target) -> None:
        last = os.fspath(target).endswith("model.onnx")
        if last and moment == "before":
            raise KeyboardInterrupt
        rename(source, target)
        if last:
            raise KeyboardInterrupt

    def no_links(*_) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "replace", failing)
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(KeyboardInterrupt):
        write_model(MODEL, path, external_data=True)
    if moment == "before":
        assert before == {name: (tmp_path / name).read_bytes() for name in listing(tmp_path)}
    else:
        assert listing(tmp_path) == {"model.onnx", "model.onnx.data"}
        assert len(onnx.load(path).graph.initializer) == 3


def test_progress_reaches_the_total(tmp_path) -> None:
    for external in (False, True):
        seen: list[tuple[int, int]] = []
        written = write_model(
            MODEL,
            tmp_path / "m.onnx",
            external_data=external,
            progress=lambda done, total, seen=seen: seen.append((done, total)),
            durable=True,
        )
        assert seen[-1] == (written.bytes, written.bytes)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen) and len(seen) > 2


def test_mode_is_that_of_an_ordinary_file(tmp_path) -> None:
    path = tmp_path / "m.onnx"
    previous = os.umask(0o027)
    try:
        write_model(MODEL, path, external_data=True)
    finally:
        os.umask(previous)
    assert {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in listing(tmp_path)} == {0o640}
    path.chmod(0o604)
    write_model(MODEL, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_symbolic_link_is_followed(tmp_path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "real.onnx").write_bytes(b"old")
    (tmp_path / "link.onnx").symlink_to(tmp_path / "store" / "real.onnx")
    write_model(MODEL, tmp_path / "link.onnx")
    assert (tmp_path / "link.onnx").is_symlink()
    assert (tmp_path / "store" / "real.onnx").read_bytes() == model_bytes(MODEL)


def test_a_long_file_name_leaves_room_for_the_temporary_one(tmp_path) -> None:
    name = "x" * 240 + ".onnx"
    write_model(MODEL, tmp_path / name)
    assert listing(tmp_path) == {name}


# Impossible targets ---------------------------------------------------------------------------------------------------


def test_bad_paths_are_told_before_any_work(tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"kept")
    with pytest.raises(WriteError, match=r"cannot write '.*': it is a directory\n.*the name of a file"):
        write_model(MODEL, tmp_path)
    with pytest.raises(WriteError, match=r"the directory '.*/missing' does not exist\n.*create it first") as caught:
        write_model(MODEL, tmp_path / "missing" / "m.onnx")
    assert caught.value.errno == errno.ENOENT and isinstance(caught.value, OSError)
    with pytest.raises(WriteError, match=r"'.*/file' is not a directory"):
        write_model(MODEL, tmp_path / "file" / "m.onnx")
    (tmp_path / "m.onnx.data").mkdir()
    with pytest.raises(WriteError, match=r"cannot write '.*m.onnx.data': it is a directory"):
        write_model(MODEL, tmp_path / "m.onnx", external_data=True)
    with pytest.raises(InputError, match="size_threshold_bytes is -1"):
        write_model(MODEL, tmp_path / "m.onnx", size_threshold_bytes=-1)
    assert listing(tmp_path) == {"file", "m.onnx.data"}


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc, where nobody may create files")
def test_a_directory_nobody_can_write_to() -> None:
    with pytest.raises(WriteError, match=r"cannot write '/proc/m.onnx' \(2.3 MiB\): .+\n.*choose") as caught:
        write_model(MODEL, "/proc/m.onnx")
    assert caught.value.errno in (errno.EACCES, errno.EPERM, errno.ENOENT)


def test_permission_denied_says_what_to_do(tmp_path, monkeypatch) -> None:
    def refused(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files, "open", refused, raising=False)
    with pytest.raises(WriteError, match=r"Permission denied\n.*directory that you may write to"):
        write_model(MODEL, tmp_path / "m.onnx")


@pytest.mark.parametrize("external", [False, True])
def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch, external: bool) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")
    write_through = files.Sink._write_through
    calls = []

    def full(self, view) -> None:
        calls.append(len(view))
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_through(self, view)

    monkeypatch.setattr(files.Sink, "_write_through", full)
    message = r"cannot write '.*m.onnx' \(2.3 MiB\): No space left on device \(.* free\)\n.*free some space.*untouched"
    with pytest.raises(WriteError, match=message) as caught:
        write_model(MODEL, path, external_data=external)
    assert caught.value.errno == errno.ENOSPC
    assert listing(tmp_path) == {"m.onnx"} and path.read_bytes() == b"old"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, a device that is always full")
def test_a_device_that_is_full() -> None:
    with pytest.raises(WriteError, match=r"cannot write '/dev/full' .*No space left"):
        write_model(MODEL, "/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


# Size -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length, single", [(0, True), (1, False)])
def test_the_limit_counts_every_byte(tmp_path, monkeypatch, length: int, single: bool) -> None:
    monkeypatch.setattr(writer, "LIMIT", len(model_bytes(MODEL)) - length)
    written = write_model(MODEL, tmp_path / "m.onnx")
    assert (written.data_path is None) == single
    assert len(onnx.load(tmp_path / "m.onnx").graph.initializer) == 3


def huge_model(gibibytes: float) -> ir.Model:
    """Logically huge, in memory a single number."""
    rows = int(gibibytes * 2**30) // (4 * 1024)
    return constants_model({"huge": torch.tensor([[1.5]]).expand(rows, 1024), "small": torch.ones(2)})


def test_beyond_two_gibibytes_the_weights_go_to_a_data_file(tmp_path) -> None:
    assert framing.LIMIT == 2**31 - 1
    model, path = huge_model(2.2), tmp_path / "huge.onnx"
    for stream in (io.BytesIO(), Keeper()):
        with pytest.raises(WriteError, match=r"2.2 GiB in one file, and ONNX files end at 2 GiB.*\n.*give a path"):
            write_model(model, stream)
    with pytest.raises(WriteError, match=r"2.2 GiB in one file.*\n.*leave external_data at None"):
        write_model(model, path, external_data=False)
    with pytest.raises(WriteError, match=r"2.2 GiB in one file.*\n.*lower size_threshold_bytes"):
        write_model(model, path, external_data=True, size_threshold_bytes=2**40)
    assert listing(tmp_path) == set()
    try:
        written = write_model(model, path)
        assert written.data_path == f"{path}.data" and written.bytes > 2**31
        onnx.checker.check_model(str(path))
        with open(written.data_path, "rb") as file:
            file.seek(-4, os.SEEK_END)
            assert file.read() == torch.tensor(1.5).numpy().tobytes()
    finally:
        for name in listing(tmp_path):
            (tmp_path / name).unlink()


PEAK = """
import resource, sys, torch
from onward.write import write_model
from tests.write.small_models import constants_model

def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

torch.set_num_threads(1)
weights = {f"w{i}": torch.ones(5 << 20, 4) for i in range(3)}  # 80 MiB each
weights["transposed"] = torch.ones(4, 5 << 20).t()
model = constants_model(weights)
write_model(constants_model({"warm": torch.ones(9, 9).t()}), sys.argv[1] + ".warm")
before = peak()
written = write_model(model, sys.argv[1], external_data=sys.argv[2] == "external")
print(peak() - before, written.bytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from the kernel's own count")
@pytest.mark.parametrize("mode", ["single", "external"])
def test_no_second_copy_of_the_weights(tmp_path, mode: str) -> None:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.join(root, "src"), root])}
    command = [sys.executable, "-c", textwrap.dedent(PEAK), str(tmp_path / "big.onnx"), mode]
    ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    growth, written = map(int, ran.stdout.split())
    assert written > 320 << 20
    assert growth < 24 << 20, f"writing {written >> 20} MiB took {growth >> 20} MiB of memory"
    for name in listing(tmp_path):
        (tmp_path / name).unlink()
