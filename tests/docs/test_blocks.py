"""Every code block of the documentation is run, and shows what it prints."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

import onward

from .blocks import LANGUAGES, PAGES, ROOT, Block, blocks, links, matches, name_of
from .running import run_page


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    torch.manual_seed(0)
    try:
        run_page(page)
    finally:
        onward.restore()
        for name, module in list(sys.modules.items()):  # the next page has a module of that name too
            if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
                del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_has_a_language_or_a_reason(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        where = f"{name_of(page)}:{block.line}"
        assert block.language, f"{where} is indented: fence it, so that it has a language"
        assert block.language in LANGUAGES, f"{where}: {block.language!r} is none of {LANGUAGES}"
        assert len(block.said.get("not run", "a reason")) > 5, f"{where} needs a reason for not being run"


def test_the_chinese_quick_start_has_the_same_code() -> None:
    english, chinese = (
        [(block.language, block.text, block.said) for block in blocks(page.read_text(encoding="utf-8"))]
        for page in PAGES
        if page.name == "quick-start.md"
    )
    assert english == chinese


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "examples" / "README.md"], ids=name_of)
def test_links_name_files(page: Path) -> None:
    """As a repository browser follows them; the strict build of the site looks at the places in them."""
    for link in links(page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:|#", link):
            assert (page.parent / link.partition("#")[0]).exists(), f"{name_of(page)} has a link to {link}"


def test_what_a_page_shows_is_compared() -> None:
    assert matches("a\nb\n", "a\nb  \n")
    assert matches("a\n...\nd\n", "a\nb\nc\nd\n") and matches("a\n...\nd\n", "a\nd\n")
    assert matches("error ... of scale\n", "error 1e-7 of scale\n")
    assert not matches("a\n", "a\nb\n") and not matches("a\n...\nd\n", "a\nb\n") and not matches("a...\n", "a\nb\n")
    assert not matches("a.c\n", "abc\n")


def test_comments_belong_to_the_block_behind_them() -> None:
    page = (
        "<!-- file: a.py -->\n<!-- raises: InputError -->\n```python\nx\n```\n\ntext\n\n```sh\nonward\n```\n\n    old\n"
    )
    assert blocks(page) == [
        Block("python", "x\n", 3, {"file": "a.py", "raises": "InputError"}),
        Block("sh", "onward\n", 9),
        Block("", "old\n", 13),
    ]
    assert links("a [b](c.md#d) `[e](f)`\n\n| [g](h) |\n|---|\n") == ["c.md#d", "h"]
    assert blocks("<!-- not run: why -->\n\ntext\n\n```sh\nls\n```\n")[0].said == {}
