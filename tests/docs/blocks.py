"""The code blocks of a page, in order, with what the comments before them say.

    <!-- not run: needs half an hour -->   the block stays as it is, for that reason
    <!-- file: mynet.py -->                the block is this file, beside the others of the page
    <!-- raises: FrozenAxisError -->       the block ends in this error
    <!-- fails: 1 -->                      the command ends with this exit code

Pages are read by a parser of CommonMark, so a block is what a repository browser takes for one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LANGUAGES = ("python", "sh", "text", "yaml")
_COMMENT = re.compile(r"<!--\s*(not run|file|raises|fails):\s*(.+?)\s*-->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str  # "" for an indented block, which has none
    text: str
    line: int
    said: dict[str, str] = field(default_factory=dict)  # by the comments right before it


def blocks(markdown: str) -> list[Block]:
    found, said = [], {}
    for token in MarkdownIt("commonmark").parse(markdown):
        if token.type == "html_block":
            said |= dict(_COMMENT.findall(token.content))
        elif token.type in ("fence", "code_block"):
            line = (token.map or [0])[0] + 1
            found.append(Block(token.info.strip(), token.content, line, said))
            said = {}
        elif token.type.endswith("_open"):
            said = {}
    return found


def links(markdown: str) -> list[str]:
    """Where the links of a page lead."""
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    inside = [child for token in tokens for child in token.children or () if child.type == "link_open"]
    return [str(link.attrs["href"]) for link in inside]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def matches(shown: str, printed: str) -> bool:
    """Whether what a page shows is what was printed: `...` alone stands for any lines, inside a line for anything."""
    lines = []
    for line in shown.rstrip().splitlines():
        if line.strip() == "...":
            lines.append(r"(?:[^\n]*\n)*?")
        else:
            lines.append(r"[^\n]*".join(map(re.escape, line.rstrip().split("..."))) + r"[ \t]*\n")
    printed = "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines())
    return re.fullmatch("".join(lines), printed) is not None
