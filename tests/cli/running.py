"""The command in a process of its own, and in this one, which is faster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from onward.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(sys.executable).with_name("onward")  # what installing the package puts beside Python
COMMAND = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "onward"]


def environment(**more: str) -> dict[str, str]:
    plain = {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore", "COLUMNS": "160", "NO_COLOR": "1"}
    return {**os.environ, **plain, **more}


def onward(*arguments: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """The real thing, with `more` in its environment; each start costs seconds."""
    command = [*COMMAND, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(**more), check=False, cwd=cwd)


def invoke(*arguments: str | Path) -> Any:
    """The same without a start; `.stdout`, `.stderr`, `.exit_code`."""
    done = CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"}).invoke(app, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.stderr
    return done
