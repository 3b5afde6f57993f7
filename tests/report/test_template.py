"""The file itself, without a browser: is the bundle that of the sources, is it safe, what is in it without scripts."""

from __future__ import annotations

import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from onward.report.template import page
from tests.report.samples import ATTACK, Json, Sample, branching, flat, hostile, nested, target

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "web"
STATIC = ROOT / "src" / "onward" / "report" / "static"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("name", ["page.js", "page.css"])
def test_the_bundle_is_made_of_these_sources(name: str) -> None:
    """web/build.mjs writes both hashes; a change in web/ without `make web` ends here, and so does a bundle edited."""
    files = [
        "build.mjs",
        "package-lock.json",
        "package.json",
        *sorted(f"src/{f.name}" for f in (WEB / "src").iterdir()),
    ]
    sources = sha256("".join(f"{file}\n{sha256((WEB / file).read_bytes())}\n" for file in files).encode())
    text = (STATIC / name).read_text(encoding="utf-8")
    head, body = text.split("*/\n", 1)
    assert f"sources sha256 {sources}\n" in head, f"{name} is not made of what is in web/: run `make web`, and commit"
    assert f"body sha256 {sha256(body.rstrip().encode())}\n" in head, f"{name} was edited by hand: run `make web`"


def test_the_bundle_carries_the_licences_of_its_libraries() -> None:
    head = (STATIC / "page.js").read_text(encoding="utf-8").split("*/\n", 1)[0]
    lock = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    for name in ("@dagrejs/dagre", "@dagrejs/graphlib"):
        assert f"{name} {lock[f'node_modules/{name}']['version']}, MIT licence:" in head
    assert head.count("Permission is hereby granted, free of charge") == 2


def test_the_lock_file_names_no_registry() -> None:
    assert "://" not in (WEB / "package-lock.json").read_text(encoding="utf-8")


class Elements(HTMLParser):
    """The elements of a page, and its text outside of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] not in ("script", "style"):
            self.text += data


def model_of(text: str) -> Json:
    """What the script reads."""
    (data,) = re.findall(r'id="model">(.*?)</script>', text)
    return dict(json.loads(data))


def test_no_name_becomes_markup() -> None:
    text = page(hostile())
    found = Elements(text)
    assert "img" not in found.tags and found.tags.count("script") == 2
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert ATTACK in found.text
    assert model_of(text)["name"] == ATTACK
    assert model_of(text)["nodes"][1]["error"] == {"max": "nan", "scaled": "inf", "ok": False}


@pytest.mark.parametrize("code", [0x202A, 0x202E, 0x2066, 0x2069, 0x200E, 0x200F, 0x061C, 0x200B, 0x1B, 0x00, 0x9B])
def test_what_nobody_sees_is_written_out(code: int) -> None:
    """In the static part and in what the script reads: a name cannot read as another one."""
    sly, seen = f"a{chr(code)}b", f"a\\u{code:04x}b"
    text = page(told(sly, f"line\n\tof {sly}"))
    assert chr(code) not in text and sly not in json.dumps(model_of(text), ensure_ascii=False)
    assert model_of(text) == told(seen, f"line\n\tof {seen}")
    assert Elements(text).text.count(seen) >= 6


def test_a_name_has_one_line() -> None:
    data = model_of(page(nested(1) | {"name": "two\nlines", "warnings": ["two\nlines"]}))
    assert data["name"] == "two\\u000alines" and data["warnings"] == ["two\nlines"]


def told(name: str, text: str) -> Json:
    """A model that has a name in every place, and a text where texts are."""
    sample = Sample(name)
    x = sample.enter(name)
    sample.leave(sample.node(name, [x], weight=name, problems=[text], fused_into=name, code=text, source=name))
    sample.nodes[0] |= {"name": name, "attributes": [[name, name]], "scope": [[name, name]]}
    sample.values[x]["shape"] = [name]
    section = {"title": name, "html": f"<p>{name}</p>"}
    return sample.data(producer=name, opset={"": 20, name: 1}, warnings=[text], frozen=[text], sections=[section])


def test_one_file_that_asks_for_nothing() -> None:
    found = Elements(page(nested(2)))
    assert not {"link", "iframe", "img", "object", "embed", "base"} & set(found.tags)
    assert not [value for name, value in found.attributes if name in ("src", "href", "action")]
    (policy,) = [value for name, value in found.attributes if name == "content" and "default-src" in (value or "")]
    assert policy is not None and policy.startswith("default-src 'none'; script-src 'sha256-")


def test_without_scripts_the_summary_can_be_read() -> None:
    text = Elements(page(nested(2) | {"warnings": ["net.py:3 was frozen"], "frozen": ["axis 1 of x"]})).text
    for part in ("Inputs", "x", "batch, 8", "axis 0 is batch", "1..64", "checked at 1, 3", "1e-07 of the scale", "ok"):
        assert part in text
    for part in (
        "net.py:3 was frozen",
        "axis 1 of x",
        "LayerNormalization",
        "64 parameters",
        "0.009 ms in nodes in onnxruntime (0.02 ms for a whole profiled run)",
    ):
        assert part in text


def test_the_verdict_comes_first() -> None:
    good = Elements(page(nested(1) | {"warnings": ["a", "b"], "frozen": ["c"]})).text
    assert "verified: 1 of 1 checks" in good and "2 warnings" in good and "1 frozen size" in good
    row = {"sizes": "as given", "output": "y", "error": 0.5, "verdict": "off by 0.5", "ok": False, "skipped": None}
    skipped = row | {"verdict": "skipped", "error": None, "skipped": "too large"}
    assert "differs from PyTorch in 1 of 1 checks" in Elements(page(nested(1) | {"verification": [row, skipped]})).text
    problem = {"text": "no kernel", "count": 0, "nodes": []}
    both = [target(name, "itself", problems=[problem]) for name in ("onnxruntime 1.31", "TensorRT 10")]
    first = page(nested(1) | {"compatibility": both}).split("<main>")[0]
    assert "1 problem in onnxruntime 1.31" in first and "TensorRT" not in first
    assert "verified" not in Elements(page(nested(1) | {"verification": [skipped]})).text


def test_a_sentence_about_many_nodes_is_one_row() -> None:
    many = {"text": "Conv: no kernel", "count": 30, "nodes": list(range(20))}
    known = target("A", "a table", problems=[many])
    other = {"text": "fp16 is slow", "count": 0, "nodes": []}
    inside = {"text": "Loop: who knows", "count": 2, "nodes": []}
    asked = target("B", "another", unknown=[inside], conditions=[other])
    text = page(flat(20) | {"compatibility": [known, asked]})
    tab = text.split('id="compatibility"')[1].split("</section>")[0]
    first, second = (Elements(part) for part in tab.split("<h3>")[1:])
    assert first.text.count("Conv: no kernel") == 1 and first.tags.count("button") == 20
    assert "30" in first.text and "and 10 more" in first.text and "No problem known." not in first.text
    assert second.text.startswith("No problem known.not known") and "2 in bodies of others" in second.text
    assert "only under a conditionnodeswherefp16 is slowthe model" in second.text
    assert "problem in" not in text.split("<main>")[0]


def test_operators_of_bodies_are_counted() -> None:
    text = Elements(page(branching())).text
    for op in ("If", "Loop", "Mul", "Neg", "Exp"):
        assert op in text


def test_what_is_not_known_is_left_out() -> None:
    totals = {"parameters": 64, "flops": None, "peak_memory": None, "microseconds": None, "profiled_at": None}
    text = Elements(page(nested(1) | {"verification": None, "axes": [], "totals": totals})).text
    assert "FLOPs" not in text and "onnxruntime" not in text and "activations" not in text
    assert "Not verified." in text and "None: every size is fixed." in text
