"""The site builds without a warning, and everything public is in it."""

from __future__ import annotations

import html
import importlib.util
import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import onward.backend
from onward.parameters import PARAMETERS
from tests.report.conftest import chromium

from .blocks import ROOT

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="mkdocs-material needs Python 3.11")


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"site_{name}", ROOT / "tools" / "site" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` builds. Strict: a warning is an error."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        config = load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder))
        warned = _Warnings(logging.WARNING)
        logging.getLogger("mkdocs").addHandler(warned)
        try:
            config.plugins.on_startup(command="build", dirty=False)
            build(config)
            config.plugins.on_shutdown()
        finally:
            logging.getLogger("mkdocs").removeHandler(warned)
    assert not warned.lines
    return folder


class _Warnings(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_every_public_name_is_in_the_reference_once(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    headings = re.findall(r'<h3 id="onward\.([\w.]+)"', page)
    assert not re.findall(r'<h4 id="onward\.(\w+)\.\1"', page), "a module is shown in the place of its function"
    assert sorted(headings) == sorted([*onward.__all__, *(f"backend.{name}" for name in onward.backend.__all__)])


def test_every_method_of_a_program_is_in_the_reference(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'<h4 id="onward\.Program\.(\w+)"', page))
    assert shown == {name for name in dir(onward.Program) if not name.startswith("_")} | {"__call__"}


def test_no_table_of_names_runs_together_in_the_reference(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    wide = [text for text in re.findall(r"<p>(.*?)</p>", page, re.DOTALL) if re.search(r"\w {3,}\w", text)]
    assert not wide


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=\"?(?:https?:)?//[^>]*>")
    for page in site.rglob("*.html"):
        assert not fetched.findall(page.read_text(encoding="utf-8")), page.relative_to(site)
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet.relative_to(site)


def test_it_opens_from_a_folder(site: Path) -> None:
    chromium()
    command = [sys.executable, "-m", "tests.docs.browse", str(site)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "Quantization" in seen.pop("found"), "the search works without a server"
    assert seen == {"asked elsewhere": [], "complaints": [], "wider than a phone": []}


def test_the_pages_that_are_no_files_of_docs(site: Path) -> None:
    assert "turns a live PyTorch model into an ONNX file" in (site / "index.html").read_text(encoding="utf-8")
    for script in (ROOT / "examples").glob("*.py"):
        assert (site / "examples" / f"{script.stem}.html").exists() != script.stem.startswith("_")
    assert '<html lang="zh-Hans"' in (site / "zh/quick-start.html").read_text(encoding="utf-8")
    assert '<html lang="en"' in (site / "quick-start.html").read_text(encoding="utf-8")


def test_the_reference_says_what_every_parameter_of_export_means(site: Path) -> None:
    words = html.unescape(re.sub(r"<[^>]+>", "", (site / "api.html").read_text(encoding="utf-8")))
    assert [name for name, each in PARAMETERS.items() if f"{name}\n{each.meaning}" not in words] == []


@pytest.mark.parametrize(
    ("page", "written", "becomes"),
    [
        ("index.md", "[a](docs/files.md#shapes)", "[a](files.md#shapes)"),
        ("index.md", "[a](CHANGELOG.md) [b](LICENSE)", "[a](changelog.md) [b](license.md)"),
        ("index.md", "[a](examples/newton.py)", "[a](examples/newton.md)"),
        ("index.md", "![a](docs/pictures/report.png)", "![a](pictures/report.png)"),
        ("index.md", "[a](#use) [b](https://onnx.ai/x.md)", "[a](#use) [b](https://onnx.ai/x.md)"),
        ("contributing.md", "[a](tests/contract/README.md)", "[a](contract.md)"),
        ("files.md", "[a](../examples/newton.py) [b](design.md)", "[a](examples/newton.md) [b](design.md)"),
        ("files.md", "[a](../README.md) [b](../src/onward/api.py)", "[a](index.md) [b](../src/onward/api.py)"),
        ("zh/quick-start.md", "[a](../files.md) [b](../../README.md)", "[a](../files.md) [b](../index.md)"),
        ("examples/index.md", "[a](newton.py) [b](../docs/files.md)", "[a](newton.md) [b](../files.md)"),
        ("index.md", "```python\nf[x](docs/files.md)\n```\n", "```python\nf[x](docs/files.md)\n```\n"),
    ],
)
def test_links_between_files_lead_to_pages(page: str, written: str, becomes: str) -> None:
    assert load("pages").relink(written, page) == becomes


def test_tables_in_docstrings_become_tables() -> None:
    text = "What it does.\n\nmodel      the graph,\n           or none\na, b\n           two | more\nx  y\n\nEnd,  now."
    assert load("docstrings").as_markdown(text).splitlines() == [
        "What it does.",
        "",
        "| | |",
        "|---|---|",
        "| `model` | the graph, or none |",
        "| `a, b` | two \\| more |",
        "| `x` | y |",
        "",
        "End,  now.",
    ]
    lines = ["| | |", "|---|---|", "| `x` | y |", "words, words", "and more"]
    assert load("docstrings").as_markdown("x  y\nwords, words\nand more").splitlines() == lines
