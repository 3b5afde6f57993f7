"""`onward diff`: what two files have in common, and what not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console.command import FAILED, MISUSED, Answer, Debug, Force, Json, check_free, plain, working

if TYPE_CHECKING:  # it needs PyTorch, and --help and completion do not
    from ..files.compare_files import Change

EPILOG = """Examples:
  onward diff a.onnx b.onnx
  onward diff a.onnx b.onnx --html diff.html
  onward diff a.onnx b.onnx --json

Exit codes, those of diff: 0 the files do not differ, 1 they do, 2 they could not be compared.
"""


def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help="An ONNX file.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another ONNX file.")],
    html: Annotated[Path | None, typer.Option(metavar="PAGE", help="Also write a page with the differences.")] = None,
    most: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many changes of each kind to show; the page has all of them.")
    ] = 40,
    tolerance: Annotated[
        float, typer.Option(metavar="NUMBER", min=0.0, help="Weights that differ by no more than this are equal.")
    ] = 0.0,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> Answer:
    """Show what differs between two ONNX files: inputs and outputs, structure, weights, size."""
    from ..files.compare_files import compare_files
    from ..files.file_inputs import open_file

    if html is not None:
        check_free(html, force)
    a, b = open_file(first), open_file(second)
    with working(f"comparing {first} with {second}"):
        changes = compare_files(a, b, tolerance)
    if html is not None:
        from onward.report import write_page

        write_page(html, _page(str(first), str(second), changes))
    data = {
        "ok": not changes,
        "same": not changes,
        "a": str(first),
        "b": str(second),
        "changes": [{"part": each.part, "kind": each.kind, "name": each.name, "text": each.text} for each in changes],
        "html": str(html) if html is not None else None,
    }
    return Answer(data, lambda: _show(data, changes, most), FAILED if changes else 0)


TROUBLE = MISUSED
_MARKS = {"removed": "-", "added": "+", "changed": "~", "renamed": ">"}


def _parts(changes: list[Change]) -> dict[str, list[Change]]:
    parts: dict[str, list[Change]] = {}
    for each in changes:
        parts.setdefault(each.part, []).append(each)
    return parts


def _show(data: dict[str, Any], changes: list[Change], most: int) -> None:
    if not changes:
        print(f"{data['a']} and {data['b']} do not differ")
        return
    print(f"- {data['a']}\n+ {data['b']}")
    for part, found in _parts(changes).items():
        print(f"\n{part}")
        for each in found[:most]:
            print(f"  {_MARKS[each.kind]} {plain(each.name)}{': ' if each.text else ''}{plain(each.text)}")
        if len(found) > most:
            print(f"  and {len(found) - most} more; --most shows them")


_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; }
table { border-collapse: collapse; width: 100%; }
td { padding: .2rem .8rem .2rem 0; vertical-align: top; font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere;
     border-bottom: 1px solid #8884; }
td:first-child { width: 5rem; overflow-wrap: normal; } td:nth-child(2) { min-width: 12rem; }
@media (max-width: 600px) {  /* side by side there is no room for words: one below the other */
  table, tbody, tr, td { display: block; } tr td { width: auto; min-width: 0; border: 0; padding: 0; }
  tr { border-bottom: 1px solid #8884; padding: .3rem 0; } tr td + td { padding-left: .8rem; }
}
.removed { color: #d32f2f; } .added { color: #2e9d42; } .changed, .renamed { color: #b26a00; }
"""


def _page(first: str, second: str, changes: list[Change]) -> str:
    """One file without scripts and downloads; names are a stranger's, and escaped, unseen characters too."""
    from html import escape

    def shown(text: str) -> str:
        return escape(plain(text))

    def row(each: Change) -> str:
        return (
            f'<tr><td class="{each.kind}">{each.kind}</td><td>{shown(each.name)}</td><td>{shown(each.text)}</td></tr>'
        )

    body = "".join(
        f"<h2>{escape(part)} ({len(found)})</h2><table>{''.join(map(row, found))}</table>\n"
        for part, found in _parts(changes).items()
    )
    title = f"{shown(first)} and {shown(second)}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><title>{title}</title><style>{_STYLE}</style></head>\n'
        f"<body><h1>{title}</h1>\n{body or '<p>They do not differ.</p>'}</body></html>\n"
    )
