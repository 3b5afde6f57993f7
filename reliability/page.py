"""`docs/reliability.md`: one section per command, rewritten by the command that measured it."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reliability.md"


def record(name: str, lines: list[str], page: Path = PAGE) -> None:
    """Replace what stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->` by these lines of Markdown."""
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"{page.name} has no section between {begin!r} and {end!r}")
    section = "\n".join([begin, *lines, end])
    page.write_text(pattern.sub(lambda match: section, text), encoding="utf-8")
