"""Files that CONTRIBUTING.md and the design name are there: whoever moves one hears of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .blocks import PAGES as EVERY_PAGE
from .blocks import ROOT, name_of

PAGES = ("CONTRIBUTING.md", "docs/design.md", "docs/capabilities.md", "tests/contract/README.md")
PLACES = ("", "src/onward", "src/onward/capture", "tests/contract", "tests/lower/ops")
_NAMED = re.compile(r"`([\w.*-]+(?:/[\w.*-]+)*(?:\.(?:py|md|toml|txt|json)|/))`")


def _exists(name: str) -> bool:
    return any(list((ROOT / place).glob(name.rstrip("/"))) for place in PLACES)


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page: str) -> None:
    text = re.sub(r"^( *)```.*?^\1```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    named = {name for name in _NAMED.findall(text) if not re.search(r"FAMILY|NAME|COMMAND", name)}
    assert named, "the pattern finds nothing"
    made = {"mynet.py"}  # in examples of comments
    assert {name for name in named - made if not _exists(name)} == set()


def test_a_file_that_is_not_there_is_seen() -> None:
    assert _exists("lower/ops/") and _exists("tests/contract/test_h*.py") and _exists("options.py")
    assert not _exists("lower/ops/no_such.py") and not _exists(str(Path("no_such") / "options.py"))


@pytest.mark.parametrize("page", EVERY_PAGE, ids=name_of)
def test_pictures_exist_and_are_small(page: Path) -> None:
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        assert 1000 < (page.parent / picture).stat().st_size < 300_000, f"{name_of(page)} shows {picture}"
