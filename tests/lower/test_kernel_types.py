"""The table of what onnxruntime runs is the one of the installed onnxruntime."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from onward.lower import _kernel_types

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_is_what_the_installed_onnxruntime_says() -> None:
    found = re.search(r"onnxruntime (\S+) runs", _kernel_types.__doc__ or "")
    assert found is not None
    if found[1] != version("onnxruntime"):
        pytest.skip(f"the table is of onnxruntime {found[1]}, and {version('onnxruntime')} is installed")
    command = [sys.executable, "tools/kernel_types.py", "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "up to date\n"), checked.stdout + checked.stderr
