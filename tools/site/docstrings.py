"""An extension of griffe, which reads the package for the API reference: tables in docstrings, as Markdown.

Docstrings are written for a terminal, with a name, two spaces or more, and what it means:

    model      the graph
    warnings   what was decided while the model was followed,
               once and for all

On a page such lines would run together. They become a table of Markdown; everything else is Markdown already.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

from onward.parameters import described

_ROW = re.compile(r"^(\*{0,2}[a-zA-Z_]\w*(?:, ?\*{0,2}[a-zA-Z_]\w*)*)(  +)(\S.*)$")
_NAMES = re.compile(r"[a-z_]+(, [a-z_]+)+")  # on a line of their own
_PAGE = re.compile(r"docs/([a-z-]+)\.md")


def as_markdown(text: str) -> str:
    """The docstring with its tables of names as tables of Markdown."""
    lines, found, rows = text.split("\n"), [], []

    def close() -> None:
        if rows:
            table = [f"| `{name}` | {meaning.replace('|', chr(92) + '|')} |" for name, meaning in rows]
            found.extend(["| | |", "|---|---|", *table])
            rows.clear()

    column = 0
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        row = _ROW.match(line)
        if row:
            rows.append((row[1], row[3]))
            column = len(row[1]) + len(row[2])
        elif rows and line.startswith(" " * column) and line.strip():
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}".strip())
        elif rows and _NAMES.fullmatch(line) and after.startswith(" ") and after.strip():  # their meaning comes below
            rows.append((line, ""))
            column = len(after) - len(after.lstrip())
        else:
            close()
            found.append(line)
    close()
    return _PAGE.sub(r"[\1](\1.md)", "\n".join(found))


class Tables(griffe.Extension):
    """Applied to every docstring that a page shows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            text = obj.docstring.value
            if obj.path == "onward.api.export":  # griffe reads source text, and does not see what is added to it
                text = f"{text}\n\n{described()}"
            obj.docstring.value = as_markdown(text)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """`from .files import optimize` is the function of that name, where griffe sees the module that has it."""
        for module in (pkg, *pkg.modules.values()):
            for name, member in module.members.items():
                if isinstance(member, griffe.Alias) and not member.wildcard:
                    found = _at(pkg, member.target_path)
                    if isinstance(found, griffe.Module) and name in found.members and found.name == name:
                        member.target = found.members[name]


def _at(pkg: griffe.Module, path: str) -> griffe.Object | griffe.Alias | None:
    """What is at a path inside of the package."""
    found: griffe.Object | griffe.Alias | None = pkg
    for part in path.split(".")[1:]:
        found = found.members.get(part) if isinstance(found, griffe.Module) else None
    return found if path.split(".")[0] == pkg.name else None
