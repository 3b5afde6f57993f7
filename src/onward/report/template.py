"""One file of HTML: the data, the script that draws it, and the summary as plain HTML for readers without scripts.

The page asks nobody for anything: its policy forbids every request, and lets exactly one script run, ours, by its hash.
Whatever comes from a model is escaped in the static part, and is JSON without a single `<` in the other; characters
that nobody sees are written out in both.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from onward.write.files import readable
from onward.write.type_texts import finite

from .invisible_characters import visible

Data = Mapping[str, Any]  # described in contents.py
_READ_FIRST = (("frozen", "frozen size"), ("warnings", "warning"))
_VERDICTS = (("problems", "problem"), ("unknown", "not known"), ("conditions", "only under a condition"))
_MOST_DOMAINS = 2  # beside ONNX itself, in the first line


def page(data: Data) -> str:
    """The page of a model as text."""
    data = visible(data)
    script, style = _bundled("page.js"), _bundled("page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    name = data["name"] or "model"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_text(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(name)}: onward report</title>\n<style>\n{style}</style></head>\n<body>\n"
        f'<header id="top"><h1>{_text(name)}</h1>{_badges(data)}<p class="lead">{_lead(data)}</p></header>\n'
        f"<main>\n{''.join(_tabs(data))}</main>\n"
        f'<script type="application/json" id="model">{_json(data)}</script>\n'
        f"<script>{script}</script>\n</body></html>\n"
    )


@cache
def _bundled(name: str) -> str:
    """A file that `make web` made from web/."""
    return (resources.files("onward.report") / "static" / name).read_text(encoding="utf-8")


def _json(data: Data) -> str:
    """JSON that can sit inside a script element: no name in it can end that, and numbers are numbers of JSON."""
    text = json.dumps(finite(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _text(value: object) -> str:
    return html.escape(str(value))


def _lead(data: Data) -> str:
    totals = data["totals"]
    opset = data["opset"]
    others = [f"{domain} {version}" for domain, version in opset.items() if domain]
    if len(others) > _MOST_DOMAINS:
        others = [*others[:_MOST_DOMAINS], f"{len(others) - _MOST_DOMAINS} more"]
    parts = [
        f"ONNX opset {opset.get('', '?')}" + (f" ({', '.join(others)})" if others else ""),
        f"{data['files']['nodes']:,} nodes",
        f"{readable(data['files']['bytes_of_weights'])} of weights",
        f"{totals['parameters']:,} parameters" if totals["parameters"] is not None else None,
        f"{_scaled(totals['flops'])}FLOPs" if totals["flops"] is not None else None,
        f"{readable(totals['peak_memory'])} of activations at most" if totals["peak_memory"] is not None else None,
        _time(totals),
        f"exported by {data['producer'] or 'an unknown producer'}",
    ]
    return _text(", ".join(part for part in parts if part))


def _time(totals: Data) -> str | None:
    """The sum of the nodes is not the time of a run, which has more in it; both are there, by their names."""
    if totals["microseconds"] is None:
        return None
    whole = totals.get("run_microseconds")
    run = f" ({whole / 1000:.3g} ms for a whole profiled run)" if whole is not None else ""
    return f"{totals['microseconds'] / 1000:.3g} ms in nodes in onnxruntime{run}"


def _badges(data: Data) -> str:
    """What a person who just exported wants to know first: is it right, and is there something to read."""
    found = []
    checks = data["verification"]
    if checks is not None:
        ran = [check for check in checks if check["skipped"] is None]
        wrong = [check for check in ran if not check["ok"]]
        if wrong:
            found.append(("bad", f"differs from PyTorch in {len(wrong)} of {len(ran)} checks"))
        elif ran:
            found.append(("good", f"verified: {len(ran)} of {len(ran)} checks"))
    found += [("notice", _counted(data[key], word)) for key, word in _READ_FIRST if data[key]]
    for target in data["compatibility"]:  # others than the runtime that the file is verified with have a tab
        if target["problems"] and target["target"].startswith("onnxruntime"):
            found.append(("bad", f"{_counted(target['problems'], 'problem')} in {target['target']}"))
    spans = "".join(f'<span class="badge {kind}">{_text(text)}</span>' for kind, text in found)
    return f'<p class="badges">{spans}</p>' if spans else ""


def _counted(things: Sequence[object], word: str) -> str:
    return f"{len(things)} {word if len(things) == 1 else word + 's'}"


def _scaled(number: float) -> str:
    for unit in ("", "k", "M", "G", "T"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} P"


def _tabs(data: Data) -> Iterator[str]:
    """What can be read without scripts; with them each is a tab."""
    overview = [
        "".join(f'<p class="dim">{_text(note)}</p>' for note in _notes(data)),
        _section("Inputs", _ports(data, data["inputs"])),
        _section("Outputs", _ports(data, data["outputs"])),
        _section("Dynamic axes", _axes(data["axes"])),
        _section("Verification", _verification(data["verification"])),
        _section("Frozen", _lines(data["frozen"])),
        _section("Warnings", _lines(data["warnings"])),
    ]
    yield _tab("overview", "Overview", "".join(overview))
    yield _tab("operators", "Operators", _operators(data))
    yield _tab("compatibility", "Compatibility", _compatibility(data))
    for number, section in enumerate(data["sections"]):
        yield _tab(f"more-{number}", section["title"], f'<div class="wide">{section["html"]}</div>')


def _notes(data: Data) -> Iterator[str]:
    """At which sizes things were counted, and what could not be measured."""
    totals = data["totals"]
    if totals.get("counted_at"):
        yield f"Bytes, FLOPs and memory are for {totals['counted_at']}."
    if totals.get("flops_unknown"):
        yield f"FLOPs are without {', '.join(totals['flops_unknown'])}, for which there is no count."
    if totals.get("profiled_at"):
        yield f"Times were measured in onnxruntime: {totals['profiled_at']}."
    if data.get("error_note"):
        yield data["error_note"]
    yield from data.get("notes", ())


def _tab(key: str, title: str, body: str) -> str:
    """A section; its title is hidden where it is written on a tab."""
    if not body:
        return ""
    head = f'<h2 class="title">{_text(title)}</h2>'
    return f'<section class="tab" id="{key}" data-title="{_text(title)}">{head}{body}</section>\n'


def _section(title: str, body: str) -> str:
    return f"<h3>{_text(title)}</h3>{body}\n" if body else ""


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    """Cells are HTML already."""

    def kind(column: int) -> str:
        return ' class="number"' if column in numeric else ""

    head = "".join(f'<th scope="col"{kind(i)}>{_text(heading)}</th>' for i, heading in enumerate(headings))
    body = "".join(
        "<tr>" + "".join(f"<td{kind(i)}>{cell}</td>" for i, cell in enumerate(row)) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _ports(data: Data, indices: Sequence[int]) -> str:
    rows = []
    for index in indices:
        value = data["values"][index]
        shape = value["shape"]
        axes = "unknown" if shape is None else ", ".join(map(str, shape)) or "scalar"
        named = [f"axis {axis} is {dim}" for axis, dim in enumerate(shape or ()) if isinstance(dim, str)]
        fixed = "" if shape is None else ", ".join(named) or "fixed"
        rows.append((_code(value["name"]), _code(value["type"]), _code(axes), _text(fixed)))
    return _table(("name", "type", "shape", "axes"), rows)


def _code(text: object) -> str:
    return f"<code>{_text(text)}</code>"


def _axes(axes: Sequence[Data]) -> str:
    if not axes:
        return "<p>None: every size is fixed.</p>"
    rows = [
        (_code(a["name"]), _text(a["where"]), _text(a["bounds"] or ""), _text("; ".join(a["proven"]) or "not checked"))
        for a in axes
    ]
    return _table(("axis", "where", "bounds", "how it was proven"), rows)


def _verification(checks: Sequence[Data] | None) -> str:
    if checks is None:
        return "<p>Not verified.</p>"
    rows = []
    for check in checks:
        error = check["error"]
        largest = "" if error is None else f"{error:.2g} of the scale"
        if check["skipped"] is not None:
            verdict = _text(f"skipped: {check['skipped']}")
        else:
            kind = "good" if check["ok"] else "bad"
            verdict = f'<span class="{kind}">{_text(check["verdict"])}</span>'
        rows.append((_text(check["sizes"]), _code(check["output"]), largest, verdict))
    return _table(("sizes", "output", "largest error", "onnxruntime against PyTorch"), rows)


def _lines(texts: Sequence[str]) -> str:
    return "".join(f'<p class="callout">{_text(text)}</p>' for text in texts)


def _all_nodes(nodes: Sequence[Data]) -> Iterator[Data]:
    for node in nodes:
        yield node
        for graph in node["graphs"]:
            yield from _all_nodes(graph["nodes"])


def _operators(data: Data) -> str:
    counts = Counter(
        f"{node['domain']}.{node['op']}" if node["domain"] else node["op"] for node in _all_nodes(data["nodes"])
    ).most_common()
    most = counts[0][1] if counts else 1
    rows = [
        (_code(op), str(count), f'<div class="bar" style="width: {count / most * 100:.1f}%"></div>')
        for op, count in counts
    ]
    return _table(("operator", "count", ""), rows, numeric=(1,))


def _compatibility(data: Data) -> str:
    parts = []
    for target in data["compatibility"]:
        tables = [_findings(data, word, target[key]) for key, word in _VERDICTS if target[key]]
        if not target["problems"]:
            tables.insert(0, '<p class="good">No problem known.</p>')
        source = f'<p class="dim">Source: {_text(target["source"])}</p>'
        parts.append(_section(target["target"], "".join(tables) + source))
    return "".join(parts)


def _findings(data: Data, word: str, findings: Sequence[Data]) -> str:
    """A sentence in a row, with all the nodes that it is about."""
    rows = [
        (_text(each["text"]), f"{each['count']:,}" if each["count"] else "", _where(data, each)) for each in findings
    ]
    return _table((word, "nodes", "where"), rows, numeric=(1,))


def _where(data: Data, finding: Data) -> str:
    if not finding["count"]:
        return "the model"
    shown = [_node_link(data, index) for index in finding["nodes"]]
    more = finding["count"] - len(shown)
    if more:
        shown.append(f"{'and ' if shown else ''}{more:,} {'more' if shown else 'in bodies of others'}")
    return ", ".join(shown)


def _node_link(data: Data, index: int) -> str:
    node = data["nodes"][index]
    label = _text(f"{node['op']} {node['name']}")
    return f'<button type="button" class="link" data-node="{index}">{label}</button>'
