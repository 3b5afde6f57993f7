"""Temporary files of processes that were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest
import torch

from onward.write import stale_temporaries, write_model
from onward.write.staging import publish
from tests.write.small_models import constants_model

MODEL = constants_model({"a": torch.arange(300.0)})
# Each stands still with something half written, and is killed there.
_WRITES = """
    import sys, time
    from onward.write.files import Replacement
    path = sys.argv[1]
    with Replacement(path) as model, Replacement(path + ".data") as data:
        model.file.write(b"half"); data.file.write(b"half")
        print("written", flush=True); time.sleep(600)
"""
_STAGES = """
    import sys, time
    from onward.write.staging import publish
    with publish(sys.argv[1]) as staged:
        open(staged, "w").write("half")
        print("written", flush=True); time.sleep(600)
"""
_BACKS_UP = """
    import sys, time
    from onward.write.files import Replacement
    open(sys.argv[1] + ".data", "w").write("old")
    with Replacement(sys.argv[1] + ".data") as data:
        data.commit(keep_old=True)
        print("written", flush=True); time.sleep(600)
"""


def _started(source: str, path) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source), str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "written\n"
    return process


def _killed(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def _hidden(folder) -> set[str]:
    return {each.name for each in folder.iterdir() if each.name.startswith(".")}


@pytest.mark.parametrize("source", [_WRITES, _STAGES, _BACKS_UP])
def test_what_a_killed_process_left_goes_with_the_next_write_and_not_before_it_is_gone(tmp_path, source) -> None:
    path = tmp_path / "m.onnx"
    process = _started(source, path)
    try:
        left = _hidden(tmp_path)
        assert left
        write_model(MODEL, str(tmp_path / "m.onnx"))
        assert _hidden(tmp_path) == left, "its owner is alive"
    finally:
        _killed(process)
    write_model(MODEL, str(tmp_path / "other.onnx"))
    assert _hidden(tmp_path) == left, "another name"
    with publish(path) as staged:
        write_model(MODEL, staged)
    assert not _hidden(tmp_path)


def test_the_number_of_a_process_may_belong_to_another_by_now(tmp_path) -> None:
    mine = stale_temporaries.temporary_name("m.onnx")
    _, process, began = mine.split(".")[3].split("-")
    earlier = mine.replace(f"-{process}-{began}.", f"-{process}-{int(began) - 1}.")
    for name in (mine, earlier):
        (tmp_path / name).touch()
    stale_temporaries.remove_leftovers(str(tmp_path / "m.onnx"))
    assert _hidden(tmp_path) == ({mine} if int(began) else {mine, earlier})


def test_files_of_other_machines_and_of_other_programs_stay(tmp_path) -> None:
    mine = stale_temporaries.temporary_name("m.onnx")
    machine = mine.split(".")[3].split("-")[0]
    gone = mine.replace(f"-{os.getpid()}-", "-999999999-")
    kept = {
        gone.replace(machine, "00000000" if machine != "00000000" else "00000001"),
        ".m.onnx.5d1f6a0b93e2.tmp",
        ".m.onnx.tmp",
        ".m.onnx.swp",
        gone.replace("m.onnx", "n.onnx"),
    }
    for name in (gone, *kept):
        (tmp_path / name).touch()
    stale_temporaries.remove_leftovers(str(tmp_path / "m.onnx"), backups=True)
    assert _hidden(tmp_path) == kept


def test_a_long_name_still_fits(tmp_path) -> None:
    path = tmp_path / ("m" * 250 + ".onnx")
    with publish(path) as staged:
        write_model(MODEL, staged)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
