"""`onward report`, `bench` and `demo`, completion, and what --help says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest

from onward.cli.bench import timed
from onward.cli.flags import in_flags
from onward.parameters import PARAMETERS
from tests.cli.models import save
from tests.cli.running import invoke, onward


def test_a_report_of_a_file(tmp_path: Path) -> None:
    model = save(tmp_path / "m.onnx")
    done = invoke("report", model)
    assert done.exit_code == 0 and done.stdout == f"the report is in {tmp_path / 'm.html'}\n"
    page = (tmp_path / "m.html").read_text()
    assert "<h1>small</h1>" in page and "exported by somebody" in page and "axis 0 is n" in page
    done = invoke("report", model)
    assert done.exit_code == 1 and "is there already" in done.stderr
    proto = onnx.load(model)
    proto.graph.name = "<script>alert()"
    onnx.save(proto, model)
    assert invoke("report", model, "-o", tmp_path / "p.html").exit_code == 0
    assert "<script>alert()" not in (tmp_path / "p.html").read_text()


def test_bench(tmp_path: Path) -> None:
    a, b = save(tmp_path / "a.onnx"), save(tmp_path / "b.onnx")
    done = onward("bench", str(a), str(b), "--rounds", "3", "--threads", "1", "--json")
    told = json.loads(done.stdout)
    assert [each["file"] for each in told["files"]] == [str(a), str(b)] and told["ratio"] > 0
    assert all(0 < each["min_ms"] <= each["median_ms"] <= each["p90_ms"] for each in told["files"])
    shown = invoke("bench", a, "-i", "x:f32[7,4]; ids:i64[7]", "--rounds", "2").stdout
    assert shown.splitlines()[0].split() == ["file", "median", "ms", "min", "ms", "p90", "ms"]


def test_files_are_run_in_turns() -> None:
    seen: list[str] = []
    spent = timed([lambda: seen.append("a"), lambda: seen.append("b")], rounds=3, warmup=1)
    assert "".join(seen) == "ab" + "ab" + "ba" + "ab"
    assert [len(each) for each in spent] == [3, 3]


def test_bench_refuses_what_does_not_compare(tmp_path: Path) -> None:
    a = save(tmp_path / "a.onnx")
    text = '<ir_version: 9, opset_import: ["" : 20]> g (float[3] x) => (float[3] y) { y = Neg (x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "b.onnx")
    done = invoke("bench", a, tmp_path / "b.onnx")
    assert done.exit_code == 1 and "b.onnx' has the inputs x, and not those of" in done.stderr
    assert invoke("bench", a, "--rounds", "0").exit_code == 2


def test_demo(tmp_path: Path) -> None:
    done = onward("demo", str(tmp_path / "new" / "folder"), "--json")
    assert done.returncode == 0, done.stderr
    assert "runs agree" in done.stderr  # what it says meanwhile; without --json it is on stdout
    told = json.loads(done.stdout)
    assert told["ok"] and told["verified"]["ok"] and told["file"] == str(tmp_path / "new" / "folder" / "demo.onnx")
    assert (tmp_path / "new" / "folder" / "demo.onnx").exists()
    (tmp_path / "file").touch()
    failed = invoke("demo", tmp_path / "file")
    assert failed.exit_code == 1 and "cannot write to" in failed.stderr


COMMANDS = ["export", "verify", "run", "inspect", "optimize", "diff", "report", "bench", "ops", "demo"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_examples_and_exit_codes(command: str) -> None:
    said = invoke(command, "--help").stdout
    assert f"Examples:\n    onward {command}" in said
    assert "Exit codes" in said and ("--debug" in said or command == "ops")
    usage = said.splitlines()[0 if said.startswith("Usage") else 1].strip()
    assert re.fullmatch(rf"Usage: \S+ {command} \[OPTIONS\]( [A-Z]+| \[[A-Z]+\])+", usage), usage
    assert not re.search(r" <[a-z ]+>", said.partition("Examples:")[0])


@pytest.mark.parametrize("name", [name for name, each in PARAMETERS.items() if each.flag])
def test_help_says_of_a_flag_what_the_parameter_means(name: str) -> None:
    said = " ".join(invoke("export", "--help").stdout.split())
    flag = str(PARAMETERS[name].flag).replace("/", " / ")
    assert re.search(rf" {flag}( [A-Z:=]+)? {re.escape(PARAMETERS[name].on_command_line)}", said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("try opset_version=13, or leave it", "try --opset 13, or leave it"),
        ("verify=True runs the model", "--verify runs the model"),
        ("external_data=False", "--one-file"),
        ("pass allow_static_axes=True", "pass --allow-static-axes"),
        ("export with allow_constant_outputs=True", "add --allow-constant-outputs"),
        ("export with mutable_buffers=True", "export with mutable_buffers=True"),  # it has no flag
    ],
)
def test_messages_name_flags(text: str, said: str) -> None:
    assert in_flags(text) == said


def test_help_lists_every_command_and_completion_is_there() -> None:
    said = invoke("--help").stdout
    assert all(f"\n  {command} " in said for command in COMMANDS)
    assert "--install-completion" in said and "Exit codes: 0 it is done" in said
