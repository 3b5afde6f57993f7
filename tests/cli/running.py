"""The command in a process of its own, and in this one, which is faster."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from onward.cli.app import app

_SECONDS = 300  # seconds are enough for any of them on an idle machine
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(sys.executable).with_name("onward")  # what installing the package puts beside Python
COMMAND = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "onward"]


def environment(**more: str) -> dict[str, str]:
    plain = {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore", "COLUMNS": "160", "NO_COLOR": "1"}
    return {**os.environ, **plain, **more}


def onward(*arguments: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """The real thing, with `more` in its environment; each start costs seconds."""
    return ended([*COMMAND, *arguments], environment(**more), cwd)


def ended(
    command: list[str], env: dict[str, str], cwd: Path | None = None, seconds: float = _SECONDS
) -> subprocess.CompletedProcess[str]:
    """A process that is through. One that hangs is ended, and what it has said by then is in the error."""
    try:
        return subprocess.run(command, capture_output=True, text=True, env=env, check=False, cwd=cwd, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        said = "\n".join(_text(stream) for stream in (error.stdout, error.stderr))
        raise AssertionError(f"{shlex.join(command)} has not ended after {seconds} seconds; it said:\n{said}") from None


def _text(stream: str | bytes | None) -> str:
    """What a process has said before it was ended comes as bytes, whatever was asked for."""
    return stream.decode(errors="replace") if isinstance(stream, bytes) else stream or ""


def invoke(*arguments: str | Path) -> Any:
    """The same without a start; `.stdout`, `.stderr`, `.exit_code`."""
    done = CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"}).invoke(app, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.stderr
    return done
