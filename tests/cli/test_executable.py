"""The command as a user starts it: the installed script, bad input, ports and browsers, completion, what README says.

What each subcommand does is tested beside it, once through the executable and otherwise in this process. Here is what a
process of its own shows best. Every start costs seconds, except those that need no PyTorch.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.models import save
from tests.cli.running import COMMAND, ROOT, SCRIPT, ended, environment, onward

NETS = ROOT / "tests" / "cli" / "nets.py"


def test_a_process_that_hangs_is_ended_with_what_it_said() -> None:
    code = "import time; print('so far', flush=True); time.sleep(60)"
    with pytest.raises(AssertionError, match=r"has not ended after 2 seconds; it said:\nso far"):
        ended([sys.executable, "-c", code], environment(), seconds=2)


@pytest.mark.skipif(not SCRIPT.exists(), reason="the package is not installed here, so there is no script to start")
def test_the_installed_script_is_what_is_started() -> None:
    assert [str(SCRIPT)] == COMMAND
    assert onward("--version").stdout == "onward 0.1.0\n"


HELP = """
import sys
from typer.testing import CliRunner
from onward.cli.app import COMMANDS, app
for name in COMMANDS:
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0 and "Examples:" in done.stdout, (name, done)
    slow = {"torch", "onnx", "onnxruntime", "numpy", "onward.api"} & {*sys.modules}
    assert not slow, (name, slow)
from onward.cli.inspect import _completed
assert _completed("o") == ["onnxruntime", "openvino", "opset-"] and "torch" not in sys.modules
"""


def test_help_comes_without_pytorch() -> None:
    """Of the command, and of every subcommand, which completion imports as well."""
    done = onward("--help", PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0 and "\n  export " in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "onward.cli.app" in imported and not imported & {"torch", "onnx", "onnxruntime", "numpy", "onward.api"}
    done = ended([sys.executable, "-c", HELP], environment())
    assert done.returncode == 0, done.stderr
    done = onward("exprot", "x")
    assert done.returncode == 2 and "No such command 'exprot'. Did you mean 'export'?" in done.stderr


def test_names_come_when_they_are_used() -> None:
    """`routing` imports `onnx` from the package while it is imported itself, and _public imports both."""
    text = (
        "import sys, onward; assert 'torch' not in sys.modules; import onward.routing; "
        "assert onward.onnx.export is onward.export and {*onward.__all__} <= {*dir(onward)}; onward.no_such_name"
    )
    done = ended([sys.executable, "-c", text], environment())
    assert done.stderr.splitlines()[-1] == "AttributeError: module 'onward' has no attribute 'no_such_name'"


def test_the_readme_is_right(tmp_path: Path) -> None:
    """Its `onward export`, word for word, in a process of its own, and what it says it prints."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    _, _, text = text.partition("## From the command line")
    net, command, shown = re.findall(r"```\w+\n(.*?)```", text, re.DOTALL)[:3]
    (tmp_path / "mynet.py").write_text(net)
    name, *arguments = command.split()
    assert name == "onward"
    done = onward(*(argument.strip('"') for argument in arguments), cwd=tmp_path)
    assert done.returncode == 0, done.stderr

    def without_numbers(said: str) -> str:
        return re.sub(r"error \S+ of|[\d.]+ KiB|(?:[\d.]+|\.\.\.) s$", "#", said, flags=re.MULTILINE)

    assert without_numbers(done.stdout) == without_numbers(shown)
    assert (tmp_path / "mynet.onnx").exists()


BAD = [
    (["inspect", "missing.onnx"], 1, "error: there is no file 'missing.onnx'\n"),
    (["run", "text.onnx"], 1, "error: 'text.onnx' is no ONNX model"),
    (["export", "no_such_package:Net", "-o", "m.onnx"], 1, "error: there is no module 'no_such_package'\n"),
    (
        ["export", f"{NETS}:Net", "-i", "x:f33[1,3]", "-o", "m.onnx"],
        2,
        "error: 'f33' is no type; did you mean 'f32'?\n  x:f33[1,3]\n    ^\n",
    ),
]


@pytest.mark.parametrize(("arguments", "code", "message"), BAD, ids=["missing", "no-model", "no-module", "grammar"])
def test_bad_input(arguments: list[str], code: int, message: str, tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("hello, I am no model")
    done = onward(*arguments, cwd=tmp_path)
    assert done.returncode == code and done.stdout == ""
    assert done.stderr.startswith(message) and "Traceback" not in done.stderr, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["text.onnx"]


@contextlib.contextmanager
def _started(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that Ctrl-C reaches (what a shell starts in the background ignores it, and so would its children), and
    that ends with the test, however that ends."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_page_without_a_browser_and_on_a_port(tmp_path: Path) -> None:
    save(tmp_path / "m.onnx")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        done = onward("report", "m.onnx", "--serve", "--port", port, cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.startswith(f"error: port {port} is in use\n  choose another")
    assert not (tmp_path / "m.html").exists()

    bare = {**environment(), "PATH": str(tmp_path)}  # no browser in it
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        bare.pop(name, None)
    command = [*COMMAND, "report", "m.onnx", "--no-profile", "--open", "--serve"]
    with _started(command, cwd=tmp_path, env=bare) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "the report is in m.html\n"
        url = process.stdout.readline().split()[3]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=20) as answer:
            assert answer.read() == (tmp_path / "m.html").read_bytes()
        for elsewhere in (url + "m.onnx", urllib.request.Request(url, headers={"Host": "evil.example"})):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(elsewhere, timeout=20)
            assert refused.value.code in (403, 404)
            refused.value.close()
        process.send_signal(signal.SIGINT)
        said, complaint = process.communicate(timeout=20)
    assert said == "" and complaint == f"error: no browser was found; open this address in one: {url}\n"
    assert process.returncode == 1


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")
def test_timm_through_the_executable(tmp_path: Path) -> None:
    """timm imports torchvision, whose compiled operators may not load."""
    done = onward("export", "timm:test_vit", "--dynamic", "x:0=batch[1..8]", "-o", "m.onnx", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["inputs"][0]["shape"][0] == "batch" and told["verified"]["ok"]
    assert told["verified"]["runs"] == ["example", "fresh values", "batch=2", "batch=4", "batch=8"]
    assert done.stderr == "" or done.stderr.startswith("warning: torchvision's compiled operators do not load")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_completion(tmp_path: Path) -> None:
    """Of commands and of options; installed into a home of its own."""

    def complete(*words: str) -> list[str]:
        line = {"COMP_WORDS": " ".join(("onward", *words)), "COMP_CWORD": str(len(words))}
        return onward(_ONWARD_COMPLETE="complete_bash", **line).stdout.split()

    assert complete("in") == ["inspect"]
    assert set(complete("")) >= {"export", "verify", "run", "report"}
    assert complete("export", "--opse") == ["--opset"]
    assert complete("inspect", "m.onnx", "--for", "o") == ["onnxruntime", "openvino", "opset-"]

    def in_bash(option: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-c", '"$@"; exit $?', "bash", *COMMAND, option]
        return ended(command, environment(HOME=str(tmp_path)))

    shown = in_bash("--show-completion")
    assert shown.returncode == 0 and "_ONWARD_COMPLETE=complete_bash" in shown.stdout, shown.stderr
    installed = in_bash("--install-completion")
    assert installed.returncode == 0 and "bash completion installed" in installed.stdout, installed.stderr
    (script,) = tmp_path.rglob("*.sh")
    assert "complete -o default -F _onward_completion onward" in script.read_text()
    assert str(script) in (tmp_path / ".bashrc").read_text()
