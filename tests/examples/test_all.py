"""Every script in examples/ runs as it is started from a shell, and says what it should; every one is in the index."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import onward
from tests.opsets import DEFAULT

EXAMPLES = Path(__file__).parents[2] / "examples"

# A script with its arguments, and what it has to say (regular expressions).
CASES: list[tuple[str, list[str]]] = [
    ("quick_start.py", [r"x: float32\[batch, 16\]", r"onnx::Gemm", r"7 rows: off by (\S+e-0[6-9]|0\.0e\+00)"]),
    ("alexnet.py", [r"%actual_input_1 : Float\(batch, 3, 224, 224\)", r"learned_14, learned_15\n", r"differ by \S+"]),
    *[
        (f"image_classifiers.py {name}", [r"\[batch, 3, height, width\]", r"off by \S+(e-0[6-9]|e\+00) of the largest"])
        for name in ("densenet121", "inception_v3", "mobilenet_v2", "resnet18", "vgg11")
    ],
    ("dcgan.py", [r"pictures: float32\[n, 3, 64, 64\]", r"real: float32\[n\]", r"pictures \(5, 3, 64, 64\)"]),
    ("super_resolution.py", [r"opset 11: .*DepthToSpace", r"3\*height, 3\*width", r"17x40 became 51x120"]),
    *[
        (f"word_language_model.py {kind}", [r"tokens: int64\[time, batch\]", r"pieces: off by \S+(e-0[6-9]|e\+00) "])
        for kind in ("LSTM", "GRU", "RNN_TANH", "RNN_RELU")
    ],
    ("pillar_features.py", [r"voxels: float32\[pillars, 20, 4\]", r"500 pillars: off by \S+e-0[5-9]"]),
    ("text_cnn.py", [r"verified: \d+ runs agree", r"80 words: off by \S+e-0[6-9]"]),
    ("bidirectional_lstm.py", [r"'LSTM': 4", r"length 40: off by \S+e-0[6-9]"]),
    (
        "dynamic_axes.py",
        [
            r"tried at example, fresh values, batch=1, batch=3, batch=8, length=1",
            r"7 rows, one by one: off by 0\.0e\+00",
            r"refused: dynamic axis .batch. \(= 2\) is frozen",
        ],
    ),
    (
        "control_flow.py",
        [r"the loop is kept: \['Loop'\]", r"n = 9: 37, and PyTorch says 37", r"'Greater', 'If', .*'Loop'\]",
         r"  9 -> (\[0.75, 0.75, 0.75\]), and PyTorch says \1",
         r"  -5 -> (\[0.625, 0.625, 0.625\]), and PyTorch says \1",
         r"warned: .*control_flow.py:\d+: a value was read out .*which keeps loops and branches"],
    ),
    (
        "custom_operators.py",
        [r"before: shop\.discount\.default has no", r"standard nodes: \['Mul', 'Elu'\]", r"shop\.example::Discount",
         r"off by 0\.0"],
    ),
    (
        "post_training_quantisation.py",
        [r"int8 in onnxruntime: (9\d|100)\.\d% right", r"onnxruntime: 100\.000%", r"what it costs to quantize this"],
    ),
    (
        "large_models.py",
        [r"model\.onnx\.data: 1,5", r"1 time\(s\): \['embed\.weight'\]", r"other weights: off by \S+e-0[5-9]"],
    ),
    (
        "debugging_a_mismatch.py",
        [r"onnxruntime and PyTorch disagree", r"\nwrong operator: layers\.3\.linear in layers\.3\n"],
    ),
    ("migrating.py", [r"opset 11", r"4 runs agree", r"is of torch\.onnx again"]),
    ("run_on_pytorch.py", [r"4 tensors: 0\.weight", r"trained on: 2\.\d+ became 0\.0", rf"opset {DEFAULT}, 3 nodes"]),
    ("onnx_files.py", [r"'back' is \[n,2,4\]", r"parts \(3, 2, 4\)"]),
    ("report_page.py", [r"open report.Net\.html in a browser"]),
]  # fmt: skip
ELSEWHERE = {"greedy_decoding", "kv_cache", "newton", "quantisation_aware_training", "scan_rnn"}  # files of this folder


@pytest.fixture(autouse=True)
def _as_from_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The script's folder is where it imports from, and it writes to the folder one is in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    onward.restore()
    shutil.rmtree(tmp_path)  # VGG's weights are half a gigabyte, and pytest keeps the folders of three runs


@pytest.mark.filterwarnings("ignore")  # theirs to show, not this test's
@pytest.mark.parametrize(("command", "says"), CASES, ids=[command for command, _ in CASES])
def test_the_script_runs(
    command: str, says: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, *arguments = command.split()
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    said = capsys.readouterr().out
    for pattern in says:
        assert re.search(pattern, said), f"{pattern} is not in\n{said}"


def test_every_script_is_run_and_in_the_index() -> None:
    scripts = {path.stem for path in EXAMPLES.glob("*.py") if not path.name.startswith("_")}
    assert scripts == {command.split(".py")[0] for command, _ in CASES} | ELSEWHERE
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((\w+)\.py\)", index)) == sorted(scripts)
    for script in sorted(scripts):
        text = (EXAMPLES / f"{script}.py").read_text(encoding="utf-8")
        assert f"python examples/{script}.py" in text, f"{script}.py does not say how to run it"
