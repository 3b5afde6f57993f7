"""The page: what the model takes and gives, how it was verified, what it consists of. No scripts, no downloads."""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import onnx_ir as ir

from onward.verify import Verification
from onward.write.files import readable

_STYLE = """
:root { color-scheme: light dark; --ink: #1b2330; --dim: #5c6675; --line: #d8dde5; --back: #fff; --good: #12743b;
        --bad: #b3261e; --bar: #4c7bd9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --dim: #9aa5b4; --line: #39414d; --back: #14181f;
        --good: #5fce8d; --bad: #ff8a80; --bar: #6d97ea; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 2rem auto;
       max-width: 66rem; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p.lead { color: var(--dim); margin-top: 0; }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--dim); white-space: nowrap; } td.number { font-variant-numeric: tabular-nums; }
code, td.code { font: 13px/1.5 ui-monospace, monospace; } .good { color: var(--good); } .bad { color: var(--bad); }
.bar { background: var(--bar); height: .7rem; border-radius: 2px; min-width: 2px; }
"""


Sections = Sequence[tuple[str, str]]  # titles, and HTML


class ShownPort(Protocol):
    """An input or an output; its text is type and shape."""

    @property
    def name(self) -> str: ...
    @property
    def axes(self) -> Mapping[int, str]: ...


class Shown(Protocol):
    """What the page shows: a program, or a file that looks like one."""

    @property
    def model(self) -> ir.Model: ...
    @property
    def opset_version(self) -> int: ...
    @property
    def inputs(self) -> Sequence[ShownPort]: ...
    @property
    def outputs(self) -> Sequence[ShownPort]: ...
    @property
    def warnings(self) -> Sequence[str]: ...


def write_report(
    program: Shown,
    path: str | os.PathLike[str],
    verification: Verification | None = None,
    more: Sections = (),
) -> None:
    """Write the page to a file; `more` are sections of others, such as `onward.analyse(...).sections()`."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(render(program, verification, more))


def render(program: Shown, verification: Verification | None = None, more: Sections = ()) -> str:
    """The page as text."""
    graph = program.model.graph
    nodes = list(graph)
    weights = sum(value.const_value.nbytes for value in graph.initializers.values() if value.const_value is not None)
    name = graph.name or "model"
    sections = [
        f"<h1>{_text(name)}</h1>",
        f'<p class="lead">ONNX opset {program.opset_version}, {len(nodes)} nodes, {readable(weights)} of weights, '
        f"exported by {_text(program.model.producer_name or 'an unknown producer')}</p>",
        _section("Inputs", _table(("name", "type", "axes"), map(_port_row, program.inputs))),
        _section("Outputs", _table(("name", "type", "axes"), map(_port_row, program.outputs))),
        _section("Verification", _verification(verification)),
        _section("Warnings", _warnings(program.warnings)),
        *(_section(title, body) for title, body in more),
        _section("Operators", _operators(nodes)),
        _section("Nodes", _table(("node", "operator", "result", "module", "line"), map(_node_row, nodes))),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(name)}: onward report</title><style>{_STYLE}</style></head>\n"
        f"<body>{''.join(sections)}</body></html>\n"
    )


def _text(value: object) -> str:
    return html.escape(str(value))


def _section(title: str, body: str) -> str:
    return f'<h2>{_text(title)}</h2><div class="wide">{body}</div>\n' if body else ""


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already."""
    head = "".join(f"<th>{_text(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f'<td class="code">{cell}</td>' for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _port_row(port: ShownPort) -> tuple[str, ...]:
    axes = ", ".join(f"axis {axis} is {name}" for axis, name in port.axes.items()) or "fixed"
    return _text(port.name), _text(port), _text(axes)


def _verification(verification: Verification | None) -> str:
    if verification is None:
        return "<p>Not verified in this run.</p>"
    rows = []
    for check in verification.checks:
        if check.skipped is not None:
            rows.append((_text(check.label), "", "", _text(f"skipped: {check.skipped}")))
        for comparison in check.comparisons:
            verdict = (
                '<span class="good">ok</span>' if comparison.ok else f'<span class="bad">{_text(comparison)}</span>'
            )
            rows.append(
                (_text(check.label), _text(comparison.name), f"{comparison.max_scaled_error:.2g} of the scale", verdict)
            )
    return _table(("sizes", "output", "largest error", "onnxruntime against PyTorch"), rows)


def _warnings(warnings: Sequence[str]) -> str:
    return "".join(f"<p><code>{_text(warning)}</code></p>" for warning in warnings)


def _operators(nodes: Sequence[ir.Node]) -> str:
    counts = Counter(node.op_type for node in nodes).most_common()
    most = counts[0][1] if counts else 1
    rows = [
        (_text(op), str(count), f'<div class="bar" style="width: {count / most * 100:.1f}%"></div>')
        for op, count in counts
    ]
    return _table(("operator", "count", ""), rows)


def _node_row(node: ir.Node) -> tuple[str, ...]:
    results = ", ".join(f"{value.dtype or '?'}{value.shape or ''}" for value in node.outputs)
    scope, source = (node.metadata_props.get(f"onward.{key}", "") for key in ("scope", "source"))
    return _text(node.name), _text(node.op_type), _text(results), _text(scope), _text(source)
