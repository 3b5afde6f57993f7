"""`onward report`: sizes, times, errors against a model, and a browser that is not there."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.cli.models import save
from tests.cli.running import invoke
from tests.report.test_data_measure import UNLOADABLE, data_of

NETS = Path(__file__).parents[1] / "cli" / "nets.py"


def test_sizes_are_those_that_are_asked_for(tmp_path: Path) -> None:
    model = save(tmp_path / "m.onnx")
    assert invoke("report", model).exit_code == 0
    made_up = data_of(tmp_path / "m.html")
    assert made_up["totals"]["counted_at"] == "x 2×4, ids 2" and "medians of" in made_up["totals"]["profiled_at"]
    done = invoke("report", model, "-f", "-i", "x:f32[7,4]; ids:i64[7]")
    assert done.exit_code == 0, done.stderr
    data = data_of(tmp_path / "m.html")
    gemm = next(node for node in data["nodes"] if node["op"] == "Gemm")
    assert gemm["flops"] == 2 * 7 * 4 * 3 and gemm["microseconds"] > 0
    assert data["totals"]["profiled_at"].startswith("x 7×4, ids 7; ")
    assert data["axes"] == [{"name": "n", "where": "x axis 0, ids axis 0", "bounds": None, "proven": []}]
    assert invoke("report", model, "-f", "--no-profile").exit_code == 0
    data = data_of(tmp_path / "m.html")
    assert data["totals"]["counted_at"] == "x 1×4, ids 1" and data["totals"]["profiled_at"] is None
    assert data["notes"] == []


def test_a_file_that_does_not_load_has_a_page_with_the_reason(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(UNLOADABLE), tmp_path / "m.onnx")
    done = invoke("report", tmp_path / "m.onnx")
    assert done.exit_code == 0 and "note: no times: onnxruntime does not load the model" in done.stderr
    data = data_of(tmp_path / "m.html")
    (note,) = data["notes"]
    assert "onnxruntime does not load the model" in note and len(data["nodes"]) == 1


def test_against_a_model(tmp_path: Path) -> None:
    done = invoke("export", f"{NETS}:Net", "-i", "x:f32[batch=2,8]", "-o", tmp_path / "m.onnx")
    assert done.exit_code == 0, done.stderr
    done = invoke("report", tmp_path / "m.onnx", "--against", f"{NETS}:Net", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["ok"] is True
    data = data_of(tmp_path / "m.html")
    assert {row["verdict"] for row in data["verification"]} == {"ok"}
    assert data["axes"][0]["proven"][0].startswith("checked at 1, ")
    assert all(node["error"]["ok"] for node in data["nodes"] if node["error"])
    assert sum(node["error"] is not None for node in data["nodes"]) >= 2
    done = invoke("report", tmp_path / "m.onnx", "-f", "--against", f"{NETS}:Net", "--seed", "7", "--no-profile")
    assert done.exit_code == 0, done.stderr
    data = data_of(tmp_path / "m.html")
    assert not data["nodes"][0]["error"]["ok"] and data["nodes"][0]["microseconds"] is None
    assert any(row["verdict"] != "ok" for row in data["verification"])


def test_options_of_a_model_need_one(tmp_path: Path) -> None:
    done = invoke("report", save(tmp_path / "m.onnx"), "--training")
    assert done.exit_code == 2 and "name it: --against" in done.stderr
    done = invoke("report", tmp_path / "m.onnx", "-i", "x:f32[7,4]")
    assert done.exit_code == 1 and "the model's input 'ids' is not given" in done.stderr
    assert not (tmp_path / "m.html").exists()


@pytest.mark.parametrize("found", [True, False, None])
def test_a_browser(found: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def browse(url: str, *args: Any) -> bool:
        seen.append(url)
        if found is None:
            raise webbrowser.Error("could not locate runnable browser")
        return found

    monkeypatch.setattr(webbrowser, "open", browse)
    page = tmp_path / "m.html"
    done = invoke("report", save(tmp_path / "m.onnx"), "--no-profile", "--open")
    assert seen == [page.as_uri()] and page.exists()
    assert done.stdout == f"the report is in {page}\n"
    assert done.exit_code == (0 if found else 1)
    assert done.stderr == ("" if found else f"error: no browser was found; open this file in one: {page}\n")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    done = invoke("report", save(tmp_path / "m.onnx"), "-o", tmp_path / "nowhere" / "m.html")
    assert done.exit_code == 1 and "nowhere' does not exist" in done.stderr
