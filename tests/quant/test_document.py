"""The configuration part of docs/quantization.md is run as it stands, and its tables have every field."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

import onward
from onward.quant.grids.ranges import calibrate_methods

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "quantization.md").read_text(encoding="utf-8")
PART = re.split(r"\n## ", PAGE)[1]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 1)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.layer1, self.norm, self.head = (
            nn.Conv2d(3, 4, 1), nn.Sequential(Block(), Block()), nn.LayerNorm(4), nn.Linear(4, 2),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x


def test_the_part_is_the_one_that_is_meant() -> None:
    assert PART.startswith("Configuration\n")


def test_its_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"onward": onward, "nn": nn, "Net": Net, "model": Net()}
    blocks = re.findall(r"```python\n(.*?)```", PART, flags=re.S)
    assert len(blocks) == 4
    try:
        for block in blocks:
            exec(compile(block, "docs/quantization.md", "exec"), scope)
    finally:
        onward.restore()
    assert onward.load_config("quant.yaml") == onward.load_config("again.yaml")


def test_its_file_is_read(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PART, flags=re.S)
    (tmp_path / "quant.yaml").write_text(text)
    assert onward.load_config(tmp_path / "quant.yaml") == onward.QuantConfig(
        weights=onward.Weights(bits=4),
        rules=[onward.Rule("stem", weights={"bits": 8}), onward.Rule(type="LayerNorm", off=True)],
    )


@pytest.mark.parametrize(
    ("heading", "kind", "besides"),
    [
        ("Weights", onward.Weights, ()),
        ("Activations", onward.Activations, ()),
        ("The model as a whole", onward.QuantConfig, ("weights", "activations", "rules")),
    ],
)
def test_its_tables_have_every_field_and_its_default(heading: str, kind: type, besides: tuple[str, ...]) -> None:
    section = PART.split(f"### {heading}\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]*) \|", section, flags=re.M)
    told = {name: default.strip("` ") for names, default in rows for name in re.findall(r"`(\w+)`", names)}
    wanted = {}
    for field in fields(kind):
        default = field.default
        shown = "Clamp()" if default == onward.Clamp() else f'"{default}"' if isinstance(default, str) else str(default)
        wanted[field.name] = shown
    assert told == {name: default for name, default in wanted.items() if name not in besides}


def test_its_table_of_methods_is_complete() -> None:
    section = PART.split("### Ranges\n")[1].split("\n### ")[0]
    assert tuple(re.findall(r'^\| `"(\w+)"`', section, flags=re.M)) == calibrate_methods()
