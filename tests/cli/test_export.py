"""`onward export`: every kind of target, and every mistake in a sentence."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from tests.cli import nets
from tests.cli.running import ROOT, invoke, onward

NETS = ROOT / "tests" / "cli" / "nets.py"
X = "x:f32[2,8]"
INSTALLED = {name for name in ("timm", "transformers") if importlib.util.find_spec(name) is not None}


def run(path: Path, **inputs: np.ndarray[Any, Any]) -> Any:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, inputs)[0]


def test_a_module_of_the_folder_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "nets_here.py").write_text(NETS.read_text())
    torch.manual_seed(3)
    given = nets.Net(depth=3)
    torch.save(given.state_dict(), tmp_path / "w.pt")
    done = invoke(
        "export", "nets_here:build", "--arg", "depth=3", "-i", X, "--dynamic", "x:0=batch", "--weights", "w.pt",
        "-o", "m.onnx", "--opset", "17",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "inputs   x: float32[batch, 8]" in done.stdout
    assert "verified: 5 runs agree, largest error" in done.stdout
    assert done.stderr == ""  # no terminal, no progress
    x = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    with torch.no_grad():
        assert np.allclose(run(tmp_path / "m.onnx", x=x), given(torch.from_numpy(x)), atol=1e-5)
    assert onnx.load(tmp_path / "m.onnx").opset_import[0].version == 17


def test_json_is_all_there_is_on_stdout(tmp_path: Path) -> None:
    done = onward("export", f"{NETS}:Net", "-i", "x:f32[batch=2,8]", "-o", "m.onnx", "--json", "--report", cwd=tmp_path)
    told = json.loads(done.stdout)  # although the builder prints
    assert done.stderr == "the builder prints this\n"
    assert told["ok"] and told["file"] == "m.onnx" and told["bytes"] == (tmp_path / "m.onnx").stat().st_size
    assert told["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 8]}]
    assert told["verified"]["ok"] and told["verified"]["runs"] == [
        "example",
        "fresh values",
        "batch=1",
        "batch=3",
        "batch=8",
    ]
    assert "<h1>Net</h1>" in (tmp_path / "m.html").read_text()


def test_errors_as_json_and_with_a_traceback() -> None:
    done = onward("export", f"{NETS}:broken", "-i", X, "-o", "never.onnx", "--json", "--debug")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert not told["ok"] and told["error"]["type"] == "InputError" and "KeyError" in told["error"]["what"]
    assert "Traceback" in done.stderr and done.stderr.splitlines()[-1] == "  --debug shows the traceback"


def exported(target: str, tmp_path: Path, *more: str) -> dict[str, Any]:
    done = invoke("export", target, "-o", tmp_path / "m.onnx", "--json", "--force", *more)
    assert done.exit_code == 0, done.stderr
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("target", "more", "inputs"),
    [
        ("tests.cli.nets:Sub.small", ["-i", X], ["x"]),
        ("tests.cli.nets:ready", ["-i", "f32[1,4]"], ["input"]),
        ("tests.cli.nets:ready", ["-i", "data:f32[1,4]", "--dynamic", "data:0=n"], ["data"]),
        ("tests.cli.nets:LoopedRows", ["-i", X, "--dynamic", "x:0=n"], ["x"]),
        ("tests.cli.nets:with_example", [], ["x"]),
        ("tests.cli.nets:double", ["--function", "-i", "x:i64[3]=0..9"], ["x"]),
        ("tests.cli.nets:Net", ["-i", "mask:bool[2,8]", "-i", X], ["x", "mask"]),
        ("tests.cli.nets:Net", ["-i", f"{X}; scale=3.0", "--training", "--no-verify"], ["x"]),
    ],
)
def test_python_targets(target: str, more: list[str], inputs: list[str], tmp_path: Path) -> None:
    told = exported(target, tmp_path, *more)
    assert [each["name"] for each in told["inputs"]] == inputs
    assert (told["verified"] is None) == ("--no-verify" in more)


def test_values_that_are_no_tensors_are_baked_in(tmp_path: Path) -> None:
    x = np.ones((2, 8), dtype=np.float32)
    exported("tests.cli.nets:Net", tmp_path, "-i", X)
    once = run(tmp_path / "m.onnx", x=x)
    exported("tests.cli.nets:Net", tmp_path, "-i", f"{X};scale=3.0")  # the same seed, so the same weights
    assert np.allclose(run(tmp_path / "m.onnx", x=x), once * 3, atol=1e-5)
    exported("tests.cli.nets:Net", tmp_path, "-i", X, "--seed", "1")
    assert not np.allclose(run(tmp_path / "m.onnx", x=x), once, atol=1e-2)


def test_axes_with_bounds(tmp_path: Path) -> None:
    more = ["-i", "x:f32[batch=3,8]; mask:bool[batch=3,8]", "--dynamic", "x:0=batch[2..9]"]
    told = exported("tests.cli.nets:Net", tmp_path, *more)
    assert told["inputs"][0]["shape"] == told["inputs"][1]["shape"] == ["batch", 8]
    assert told["inputs"][0]["bounds"] == {"batch": [2, 9]}
    assert told["verified"]["runs"] == ["example", "fresh values", "batch=2", "batch=4", "batch=9"]
    metadata = {each.key: each.value for each in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert metadata["onward.axis.batch"] == "2..9"
    more = ["-i", "x:f32[batch=6,8]", "--dynamic", "x:0=batch[5..6]"]
    exported("tests.cli.nets:Net", tmp_path, *more)  # what is made up for the file later keeps to the bounds as well
    done = invoke("verify", tmp_path / "m.onnx", "--against", "tests.cli.nets:Net", "--json")
    assert json.loads(done.stdout)["runs"] == ["example", "fresh values", "batch=6"], done.stdout
    for more, code, message in [
        (
            ["-i", X, "--dynamic", "x:0=batch[3..9]"],
            2,
            "error: --dynamic: axis 0 of 'x' is 2 in the example, and 'batch' is 3 to 9\n  x:0=batch[3..9]\n    ^\n",
        ),
        (
            ["-i", "x:f32[n=9,8];mask:bool[n=9,8]", "--dynamic", "mask:0=n[..4]"],
            2,
            "is 9 in the example, and 'n' is at most",
        ),
        (["-i", X, "--dynamic", "x:0=n,7=h"], 2, "'x' has no axis 7: it has 2 axes, 0 to 1\n  x:0=n,7=h\n        ^\n"),
        (["-i", X, "--dynamic", "x:0=n,-2=k"], 2, "axis -2 of 'x' is axis 0, which is 'n' already\n"),
        (["-i", "x:f32[n=2,8]", "--dynamic", "x:0=m"], 2, "axis 0 of 'x' is 'n' in --input and 'm' in --dynamic"),
        (["-i", X, "--dynamic", "x:0=batch[9..3]"], 2, "  x:0=batch[9..3]\n            ^\n"),
    ]:
        done = invoke("export", "tests.cli.nets:Net", "-o", tmp_path / "never.onnx", *more)
        assert done.exit_code == code and message in done.stderr, done.stderr


def test_archives(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    example = (torch.randn(2, 4),)
    torch.jit.save(torch.jit.trace(net, example), tmp_path / "traced.pt")
    torch.export.save(torch.export.export(net, example), tmp_path / "program.pt2")
    np.save(tmp_path / "x.npy", example[0].numpy())
    for told in (
        exported(f"{tmp_path}/traced.pt", tmp_path, "-i", f"{tmp_path}/x.npy"),
        exported(f"{tmp_path}/program.pt2", tmp_path),
    ):
        assert told["verified"]["ok"] and told["outputs"][0]["shape"] == [2, 3]


class Touch:
    """A pickle that runs code when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_program_with_a_pickle_in_it_runs_nothing(tmp_path: Path) -> None:
    """torch.export.load itself goes back to loading any pickle."""
    torch.export.save(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)), tmp_path / "good.pt2")
    pickled = io.BytesIO()
    torch.save(Touch(tmp_path / "ran"), pickled)
    with zipfile.ZipFile(tmp_path / "good.pt2") as good, zipfile.ZipFile(tmp_path / "bad.pt2", "w") as bad:
        replaced = [name for name in good.namelist() if name.endswith(".pt")]
        for name in good.namelist():
            bad.writestr(name, pickled.getvalue() if name in replaced else good.read(name))
    assert replaced
    done = invoke("export", tmp_path / "bad.pt2", "-o", tmp_path / "m.onnx")
    assert done.exit_code == 1 and "is no program of torch.export.save" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif("transformers" not in INSTALLED, reason="transformers is not installed")
def test_a_model_of_transformers(tmp_path: Path) -> None:  # timm is in test_executable.py
    small = {"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 16, "num_hidden_layers": 1,
             "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 50}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(small))
    told = exported(f"hf:{tmp_path}/config.json", tmp_path, "--arg", "vocab_size=60", "-i", "input_ids:i64[1,6]=0..59")
    assert told["outputs"][0]["shape"] == [1, 6, 60] and told["verified"]["ok"]


def test_weights(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    net = nets.Net(width=8)
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    torch.save({"epoch": 3, "state_dict": {f"module.{k}": v for k, v in net.state_dict().items()}}, tmp_path / "c.pth")
    x = np.ones((2, 8), dtype=np.float32)
    wanted = net(torch.from_numpy(x)).detach().numpy()
    for file, remarks in [
        ("w.safetensors", []),
        ("c.pth", ["the weights are what 'c.pth' has under 'state_dict'", "'module.' was taken off every name"]),
    ]:
        told = exported("tests.cli.nets:Net", tmp_path, "-i", X, "--weights", f"{tmp_path}/{file}")
        assert told["remarks"] == remarks
        assert np.allclose(run(tmp_path / "m.onnx", x=x), wanted, atol=1e-5)
    told = exported("tests.cli.nets:build", tmp_path, "--arg", "depth=3", "-i", X, "--no-strict",
                    "--weights", f"{tmp_path}/w.safetensors")  # fmt: skip
    assert told["remarks"] == ["missing: layers.2.weight, layers.2.bias"]


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    torch.save(nets.Net(width=4).state_dict(), tmp_path / "narrow.pt")
    torch.save(nets.Net(depth=1).state_dict(), tmp_path / "short.pt")
    torch.save(nets.Net(), tmp_path / "pickled.pt")
    (tmp_path / "text.safetensors").write_text("no weights")
    (tmp_path / "text.pt").write_text("no weights")
    torch.save([1, 2], tmp_path / "list.pt")
    for file, *messages in [
        ("narrow.pt", "does not fit the model", "of another shape: layers.0.weight is [4, 4], the model has [8, 8]"),
        ("short.pt", "missing: layers.1.weight, layers.1.bias", "--no-strict loads what fits and leaves the rest"),
        ("pickled.pt", "cannot be read as weights: it holds an object of tests.cli.nets.Net", "they could run code"),
        ("text.pt", "cannot be read as weights: it is no checkpoint of torch.save"),
        ("text.safetensors", "cannot be read as weights"),
        ("list.pt", "is no state dict"),
        ("absent.pt", "there is no file"),
    ]:
        done = invoke("export", "tests.cli.nets:Net", "-i", X, "-o", tmp_path / "m.onnx", "--weights", tmp_path / file)
        assert done.exit_code == 1
        assert all(message in done.stderr for message in messages), done.stderr
        assert "weights_only" not in done.stderr  # PyTorch's advice is to run what is in the file
        assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "messages"),
    [
        (["tests.cli.nest:Net"], 1, ["there is no module 'tests.cli.nest'", "did you mean 'tests.cli.nets'?"]),
        (["no_such_package_at_all:Net"], 1, ["there is no module 'no_such_package_at_all'", "is it installed"]),
        (["tests.cli.nets:Nett"], 1, ["'tests.cli.nets' has no 'Nett'", "did you mean 'Net'?"]),
        (["missing.py:Net"], 1, ["there is no file 'missing.py'"]),
        ([str(NETS)], 2, ["is a file of Python; say what in it"]),
        (["what is this"], 2, ["'what is this' is no target", "write pkg.module:attribute"]),
        (["missing.pt"], 1, ["there is no file 'missing.pt'"]),
        ([str(ROOT / "README.md")], 1, ["is no archive of torch.jit.save"]),
        (["tests.cli.nets:broken", "-i", X], 1, ["raised KeyError: 'no such depth'", f"at {NETS}:"]),
        (["tests.cli.nets:number", "-i", X], 1, ["returned int, not a model"]),
        (["tests.cli.nets:constant", "-i", X], 1, ["is of type int, neither a model nor a builder of one"]),
        (
            ["tests.cli.nets:build", "-i", X, "--arg", "dept=3"],
            1,
            ["unexpected keyword", "did you mean --arg depth=3?"],
        ),
        (["tests.cli.nets:ready", "--arg", "depth=3"], 2, ["'tests.cli.nets:ready' is one already"]),
        (["tests.cli.nets:Net"], 1, ["are not known; it takes (x, mask, scale)", '--input "x:f32[1,3,224,224]"']),
        (["tests.cli.nets:Net", "-i", f"{X};masc:bool[2,8]"], 1, ["no parameter 'masc'", "did you mean 'mask'?"]),
        (["tests.cli.nets:Net", "-i", "x:f32[2,7]"], 1, ["Net raised RuntimeError in forward", "nets.py:"]),
        (["tests.cli.nets:Net", "-i", "x:f32[2;8]"], 2, ["  x:f32[2;8]\n         ^\n"]),
        (["tests.cli.nets:Net", "-i", X, "--opset", "3"], 2, ["error: --opset 3 is out of range\n"]),
        (
            ["tests.cli.nets:Net", "-i", X, "--dynamic", "z:0=n"],
            2,
            ["'z' is neither an input (x) nor an output (output)\n  z:0=n\n  ^\n"],
        ),
        (
            ["tests.cli.nets:Net", "-i", X, "--dynamic", "z:0=n[1..4]"],
            2,
            ["error: --dynamic: 'z' is no input (x)\n  z:0=n[1..4]\n  ^\n", "inputs are named by --input"],
        ),
        (
            ["tests.cli.nets:Net", "-i", X, "--dynamic", "mask:0=n[1..4]"],
            2,
            ["error: --dynamic: 'mask' is left at its default in the example\n  mask:0=n[1..4]\n  ^\n"],
        ),
        (
            ["tests.cli.nets:Net", "-i", "mask:bool[2,8]"],
            1,
            ["takes (x, mask=None, scale=1.0): missing a required", "one --input"],
        ),
        (
            ["tests.cli.nets:Rows", "-i", X, "--dynamic", "x:0=n"],
            1,
            [
                "but not at other sizes of 'n'",
                "nets.py:",
                "name the axis in neither --dynamic nor --input if it cannot vary",
            ],
        ),
        (
            ["tests.cli.nets:Digits", "-i", X, "--dynamic", "x:0=n"],
            1,
            ["name the axis in neither --dynamic nor --input, or pass --allow-static-axes to write it as fixed"],
        ),
        (["tests.cli.nets:dilated", "--function", "-i", X, "--opset", "9"], 1, ["  try --opset 10, or register one"]),
        (["tests.cli.nets:Net", "--what"], 2, ["No such option: --what"]),
    ],
)
def test_mistakes(arguments: list[str], code: int, messages: list[str], tmp_path: Path) -> None:
    done = invoke("export", *arguments, "-o", tmp_path / "m.onnx")
    assert done.exit_code == code, done.stderr
    assert all(message in done.stderr for message in messages), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_warnings_are_in_words_of_the_command_line(tmp_path: Path) -> None:
    asked = ["--function", "-i", X, "--outputs", "y", "--dynamic", "y:1=n", "--json"]
    done = invoke("export", "tests.cli.nets:three", *asked, "-o", tmp_path / "m.onnx")
    what = "--dynamic: axis 1 of 'y' is 'n', but the model always gives 3 there."
    assert f"warning: {what} The file says 3. To avoid this, leave that axis out of --dynamic." in done.stderr
    assert what in json.loads(done.stdout)["warnings"][0]


@pytest.mark.skipif(not {"timm", "transformers"} <= INSTALLED, reason="timm or transformers is not installed")
@pytest.mark.parametrize(
    ("target", "messages"),
    [
        ("timm:resnet81", ["timm has no model 'resnet81'", "did you mean 'resnet"]),
        ("hf:brt", ["transformers has no configuration 'brt'", "did you mean 'bert'?"]),
        ("hf:bert:BertForMaskedML", ["transformers has no model 'BertForMaskedML'", "did you mean 'BertForMaskedLM'?"]),
        ("hf:missing.json", ["there is no file 'missing.json'"]),
        ("hf:deit", ["are not known; it takes (pixel_values"]),
    ],
)
def test_mistakes_with_collections(target: str, messages: list[str], tmp_path: Path) -> None:
    small = ["--arg", "hidden_size=12", "--arg", "num_hidden_layers=1"] if target.startswith("hf:") else []
    done = invoke("export", target, *small, "-o", tmp_path / "m.onnx")
    assert done.exit_code == 1 and all(message in done.stderr for message in messages), done.stderr


def test_where_to_write(tmp_path: Path) -> None:
    done = invoke("export", "tests.cli.nets:ready", "-i", "f32[1,4]", "-o", tmp_path / "no" / "m.onnx")
    assert done.exit_code == 1 and "no' does not exist" in done.stderr
    done = invoke("export", "tests.cli.nets:ready", "-i", "f32[1,4]", "-o", tmp_path)
    assert done.exit_code == 1 and "it is a directory" in done.stderr
    (tmp_path / "m.onnx").write_text("mine")
    done = invoke("export", "tests.cli.nets:ready", "-i", "f32[1,4]", "-o", tmp_path / "m.onnx")
    assert done.exit_code == 1 and "already exists\n  pass --force to overwrite it" in done.stderr
    assert (tmp_path / "m.onnx").read_text() == "mine"
    exported("tests.cli.nets:ready", tmp_path, "-i", "f32[1,4]", "--external-data")
    assert (tmp_path / "m.onnx").read_bytes() != b"mine"


QUANTISED = """
import onward, torch

def build():
    model = onward.init(torch.nn.Sequential(torch.nn.Linear(8, 4)))
    with onward.calibration(model):
        model(torch.randn(2, 8))
    return model
"""


def test_what_leaves_a_quantised_model_is_at_no_line_of_the_commands_own(tmp_path: Path) -> None:
    """It is rounded when the forward of the model is over, with none of the user's code around it."""
    (tmp_path / "quantised.py").write_text(QUANTISED)
    done = onward("export", "quantised.py:build", "-i", X, "-o", "m.onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    nodes = onnx.load(tmp_path / "m.onnx").graph.node
    found = [each.value for node in nodes for each in node.metadata_props if each.key == "onward.source"]
    assert found == []
