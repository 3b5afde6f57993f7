"""Words of onward's own are explained in the glossary of docs/design.md, and other pages that use one link to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .blocks import PAGES, ROOT, name_of

GLOSSARY = "design.md#glossary"
# Words that mean something else elsewhere: what is searched for, and the entry that explains it.
OWN = {
    r"prob(e|es|ed|ing)\b": "probe",
    r"fingerprints?\b": "fingerprint",
    r"(freez(e|es|ing)|frozen)\b": "freeze",
    r"thaw(s|ed|ing)?\b": "thaw",
    r"journals?\b": "journal",
    r"stand-ins?\b": "stand-in",
    r"twins?\b": "twin",
    r"grids?\b": "grid",
    r"fences?\b": "region",
}
# `grid` is an ordinary word where a page is about something else.
ORDINARY = {("grid", "docs/operators.md"), ("grid", "docs/known-defects.md")}


def prose(text: str) -> str:
    """A page without code."""
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`", "", text)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "design.md"], ids=name_of)
def test_a_page_that_uses_a_word_links_to_the_glossary(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    used = {
        entry
        for pattern, entry in OWN.items()
        if re.search(rf"\b{pattern}", prose(text), re.IGNORECASE) and (entry, name_of(page)) not in ORDINARY
    }
    assert not used or GLOSSARY in text, f"{name_of(page)} uses {used} without a link to {GLOSSARY}"


def test_the_glossary_has_every_word() -> None:
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    entries = re.findall(r"^\| \*\*(.+?)\*\* \|", text, re.MULTILINE)
    assert {*OWN.values()} <= {*entries} and len(entries) == len({*entries})


def test_code_is_not_prose() -> None:
    assert "probe" not in prose("a `probe` b\n\n```text\nprobe\n```\n") and "probe" in prose("a probe")
