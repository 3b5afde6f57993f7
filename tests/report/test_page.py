"""The page in a browser: what a reader does with it, and what it must never do."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onward.report.template import page
from tests.report.samples import ATTACK, Json, Sample, branching, cached, dense, flat, hostile, nested, target

Open = Callable[..., Any]
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a model as a page; at the end of the test nothing may have been asked for, and nothing gone wrong."""
    opened: list[Any] = []
    wrong: list[str] = []

    def show(data: Json, **options: Any) -> Any:
        file = tmp_path / f"page{len(opened)}.html"
        file.write_text(page(data), encoding="utf-8")
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | options)
        opened.append(context)
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        tab.on("console", lambda said: said.type in ("error", "warning") and wrong.append(said.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("request", lambda request: request.url != file.as_uri() and wrong.append(f"asked for {request.url}"))
        tab.goto(file.as_uri())
        return tab

    yield show
    for context in opened:
        context.close()
    assert wrong == []


def box(tab: Any, text: str) -> Any:
    """The box whose description begins so."""
    return tab.locator(f'.box[aria-label^="{text}"]').first


def test_opens_with_modules_and_a_legend(show: Open) -> None:
    tab = show(nested(3))
    assert tab.title() == "Nested: onward report"
    assert tab.locator(".box").count() > 10
    assert box(tab, "module encoder").get_attribute("aria-expanded") == "true"
    assert "matrix product" in tab.locator(".legend").inner_text()
    assert tab.evaluate("document.querySelector('.drawing').getBBox().height") > 100


def test_a_request_would_be_refused(browser: Any, tmp_path: Path) -> None:
    """The policy, not good manners: a script on the page tries, and the browser says no."""
    file = tmp_path / "page.html"
    file.write_text(page(flat(3)), encoding="utf-8")
    tab = browser.new_page()
    tab.goto(file.as_uri())
    tried = "url => fetch(url).then(() => 'came through', () => 'refused')"
    assert tab.evaluate(tried, "data:text/plain,hello") == "refused"
    tab.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.attacked = true\">')")
    tab.wait_for_timeout(100)
    assert tab.evaluate("window.attacked") is None
    tab.close()


def test_groups_open_and_close(show: Open) -> None:
    tab = show(nested(3))
    tab.get_by_label("close all groups").click()
    closed = tab.locator(".box").count()
    assert closed == 5  # input, stem, encoder, head, output
    assert "30 nodes" in tab.locator(".box.group").text_content()
    tab.locator(".toggle").first.click()
    assert tab.locator(".box").count() == closed + 3
    tab.locator(".toggle").first.click()
    assert tab.locator(".box").count() == closed
    tab.get_by_label("open to depth").select_option("2")
    assert box(tab, "LayerNormalization, norm").count() == 1 and box(tab, "Softmax").count() == 0
    tab.get_by_label("open all groups").click()
    assert tab.locator(".box.node").count() == 32


def test_closing_is_local(show: Open) -> None:
    """What was closed stays where it is on the screen, and its neighbours keep their insides."""
    tab = show(nested(2))
    tab.get_by_label("open all groups").click()
    before = box(tab, "module attention").bounding_box()
    box(tab, "module attention").locator(".toggle").first.click()
    after = box(tab, "module attention").bounding_box()
    assert abs(before["x"] - after["x"]) < 2 and abs(before["y"] - after["y"]) < 2
    assert after["height"] < before["height"]


def test_a_node_shows_what_is_known_of_it(show: Open) -> None:
    tab = show(nested(2))
    tab.get_by_label("open all groups").click()
    assert "with 8×8" in box(tab, "LayerNormalization").text_content()
    box(tab, "LayerNormalization").click()
    panel = tab.locator(".panel").inner_text()
    for part in (
        "LayerNormalization",
        "encoder (Encoder) › 0 (0) › norm (Norm)",
        "net.py:",
        "x = layernormalization(x)",
    ):
        assert part in panel
    for part in ("1.0e-7 of the scale", "1.5 µs", "128", "256 B", "64", "axis", "encoder.0.norm.weight", "float32 8×8"):
        assert part in panel
    tab.locator(".panel .ports .link", has_text="MatMul").first.click()  # where its input comes from
    assert tab.locator(".panel h2").inner_text() == "MatMul"
    assert tab.locator(".box.selected").get_attribute("aria-label") == "MatMul, stem, batch×8"


def test_unknown_is_left_out(show: Open) -> None:
    sample = Sample()
    unknown = dict.fromkeys(("flops", "memory", "microseconds", "error", "source", "code"))
    sample.leave(sample.node("Relu", [sample.enter()], **unknown))
    tab = show(sample.data())
    box(tab, "Relu").click()
    panel = tab.locator(".panel").inner_text()
    assert "FLOPs" not in panel and "time" not in panel and "memory" not in panel and "error" not in panel
    assert tab.get_by_label("colour by").locator("option").all_inner_texts() == ["operator family"]


def test_an_edge_shows_its_value(show: Open) -> None:
    tab = show(flat(5))
    tab.locator(".link .hit").first.dispatch_event("click")
    panel = tab.locator(".panel").inner_text()
    assert "x" in panel and "float32" in panel and "[batch, 8]" in panel and "Relu" in panel
    assert tab.locator(".link.touched").count() == 1


def test_search_finds_and_jumps(show: Open) -> None:
    """By operator, weight, module path, source line and module; what is in closed groups too."""
    tab = show(nested(12))
    window = tab.locator(".drawing").bounding_box()
    rows = {
        "softmax": "Softmax",
        "encoder.11.out.weight": "Gemm",
        "encoder 11 norm": "LayerNormalization",
        "net.py:1": "MatMul",
        "attention": "attention",
    }
    for words, found in rows.items():
        tab.get_by_label("close all groups").click()
        tab.locator("body").press("/")
        tab.keyboard.type(words)
        assert tab.locator("#found [role=option]").first.locator("b").inner_text() == found
        tab.keyboard.press("Enter")
        assert tab.locator(".panel h2").inner_text() == found
        chosen = tab.locator(".box.selected").bounding_box()
        assert window["x"] <= chosen["x"] and chosen["x"] + chosen["width"] <= window["x"] + window["width"]
        assert window["y"] <= chosen["y"] <= window["y"] + window["height"]
        assert tab.locator("#found").is_hidden()


def test_search_that_finds_nothing_says_so(show: Open) -> None:
    tab = show(flat(5))
    tab.locator("input[type=search]").fill("no such thing")
    assert tab.locator("#found").inner_text() == "nothing found"
    tab.keyboard.press("Escape")
    assert tab.locator("#found").is_hidden()


def focused(tab: Any) -> str:
    return str(tab.evaluate("document.activeElement.getAttribute('aria-label')"))


def test_keys_walk_along_edges(show: Open) -> None:
    tab = show(branching())
    tab.keyboard.press("ArrowDown")
    assert focused(tab).startswith("input x")
    tab.keyboard.press("ArrowDown")
    assert focused(tab).startswith("Greater")
    tab.keyboard.press("ArrowRight")
    assert focused(tab).startswith("Relu")
    tab.keyboard.press("ArrowDown")
    assert focused(tab).startswith("If")
    assert tab.locator(".panel h2").inner_text() == "If"
    tab.keyboard.press("Enter")
    assert box(tab, "If").get_attribute("aria-expanded") == "true"
    tab.keyboard.press("ArrowDown")
    assert focused(tab).startswith("module then_branch")
    tab.keyboard.press("Escape")
    assert tab.locator(".panel").is_hidden()
    tab.keyboard.press("Tab")
    assert focused(tab).startswith("module else_branch")
    assert tab.evaluate("getComputedStyle(document.activeElement.querySelector('.shape')).strokeWidth") == "3px"


def scale(tab: Any) -> float:
    return float(re.findall(r"scale\((.*)\)", tab.locator(".layer").get_attribute("transform"))[0])


def test_zoom_by_keys_buttons_and_wheel(show: Open) -> None:
    tab = show(nested(3))
    start = scale(tab)
    tab.keyboard.press("+")
    assert scale(tab) > start
    tab.get_by_label("zoom out (-)").click()
    assert scale(tab) == pytest.approx(start)
    tab.mouse.move(600, 500)
    tab.mouse.wheel(0, -300)
    tab.wait_for_function(f"!document.querySelector('.layer').getAttribute('transform').includes('scale({start})')")
    assert scale(tab) > start
    tab.keyboard.press("0")
    height = tab.locator(".layer").bounding_box()["height"]
    assert height <= tab.locator(".drawing").bounding_box()["height"]
    where = tab.locator(".layer").bounding_box()["x"]
    tab.mouse.move(100, 300)
    tab.mouse.down()
    tab.mouse.move(160, 300, steps=3)
    tab.mouse.up()
    assert tab.locator(".layer").bounding_box()["x"] == pytest.approx(where + 60, abs=1)


def test_help_lists_the_keys(show: Open) -> None:
    tab = show(flat(3))
    tab.keyboard.press("?")
    assert "search" in tab.locator("dialog").inner_text()
    tab.keyboard.press("Escape")
    assert tab.locator("dialog").is_hidden()


def test_colours_by_time_and_error(show: Open) -> None:
    data = nested(1)
    data["nodes"][0]["microseconds"] = 100.0
    data["nodes"][1]["error"] = {"max": None, "scaled": None, "ok": False, "problem": "float16 instead of float32"}
    tab = show(data)
    tab.get_by_label("open all groups").click()

    def fill(text: str) -> str:
        return str(box(tab, text).locator(".shape").first.evaluate("e => getComputedStyle(e).fill"))

    assert fill("MatMul, stem") == fill("MatMul, q")
    tab.get_by_label("colour by").select_option("time")
    assert fill("MatMul, stem") != fill("MatMul, q")
    assert "100 µs" in tab.locator(".legend").inner_text()
    tab.get_by_label("colour by").select_option("error")
    assert box(tab, "LayerNormalization").locator(".shape").get_attribute("data-heat") == "wrong"
    box(tab, "LayerNormalization").click()
    assert "float16 instead of float32" in tab.locator(".panel").inner_text()


def test_tabs_and_tables(show: Open) -> None:
    tab = show(nested(3))
    tab.get_by_role("tab", name="Modules").click()
    table = tab.locator("#modules")
    assert "encoder" in table.inner_text() and "Softmax" not in table.inner_text()
    table.get_by_label("children of encoder").click()
    assert table.locator("tbody tr").count() == 6
    table.get_by_role("button", name="nodes").click()
    assert table.locator("tbody tr .link").first.inner_text() == "encoder"
    tab.get_by_role("tab", name="Time").click()
    assert "1.5 µs" in tab.locator("#time").inner_text()
    tab.get_by_role("tab", name="Overview").click()
    assert "checked at 1, 3" in tab.locator("#overview").inner_text()
    tab.get_by_role("tab", name="Weights").click()
    tab.locator("#weights .link", has_text="encoder.2.out.weight").click()
    assert tab.locator(".panel h2").inner_text() == "Gemm"


def test_shares_of_time_are_of_nodes_that_are_in_no_other(show: Open) -> None:
    """The body of a loop is part of the time of the loop: it is listed, and not added."""
    data = branching()
    data["totals"]["inserted_microseconds"] = 2.5
    tab = show(data)
    tab.get_by_role("tab", name="Time").click()
    assert "4.5 µs in nodes of the file, without 2.5 µs in nodes that" in tab.locator("#time").inner_text()
    rows = [row.locator("td").all_text_contents() for row in tab.locator("#time tbody tr").all()]
    shares = {operator: share for _, operator, _, share, *_ in rows}
    outside = [share for share in shares.values() if not share.startswith("(")]
    assert sum(float(share.strip("%")) for share in outside) == pytest.approx(100, abs=0.2)
    assert len(shares) == 7 and {op for op, share in shares.items() if share in outside} == {"Greater", "Relu", "If"}
    mul = next(name for name, operator, *_ in rows if operator == "Mul")
    assert " inside Loop node_" in mul and "parentheses" in tab.locator("#time").inner_text()


def test_a_problem_leads_to_its_node(show: Open) -> None:
    problem = target("tensorrt", "a table", problems=[{"text": "no such kernel", "count": 1, "nodes": [1]}])
    data = nested(1) | {"compatibility": [problem]}
    data["nodes"][1]["problems"] = ["tensorrt: no such kernel"]
    tab = show(data)
    tab.get_by_label("colour by").select_option("problems")
    assert box(tab, "MatMul, stem").locator(".shape").get_attribute("style") == "--heat: 0%"
    tab.get_by_role("tab", name="Compatibility").click()
    tab.locator("#compatibility .link").click()
    assert tab.locator(".panel h2").inner_text() == "LayerNormalization"
    assert "tensorrt: no such kernel" in tab.locator(".panel").inner_text()
    assert tab.locator(".box.selected > .shape").get_attribute("style") == "--heat: 100%"


def test_two_fingers_zoom(show: Open) -> None:
    tab = show(nested(3), viewport=PHONE, has_touch=True)
    start = scale(tab)
    fingers = tab.context.new_cdp_session(tab)
    for kind, apart in (("touchStart", 40), ("touchMove", 60), ("touchMove", 80), ("touchEnd", None)):
        points = [] if apart is None else [{"x": 200, "y": 500 - apart, "id": 0}, {"x": 200, "y": 500 + apart, "id": 1}]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert scale(tab) == pytest.approx(start * 2, rel=0.1)


def test_dark_by_the_system_and_by_the_button(show: Open) -> None:
    tab = show(nested(1), color_scheme="dark")

    def back() -> str:
        return str(tab.evaluate("getComputedStyle(document.body).backgroundColor"))

    dark = back()
    tab.get_by_label("dark or light").click()
    light = back()
    assert light == "rgb(255, 255, 255)" != dark
    tab.get_by_label("dark or light").click()
    assert back() == dark


@pytest.mark.parametrize("data", [nested(6), hostile()], ids=["nested", "long names"])
def test_nothing_is_wider_than_a_phone(show: Open, data: Json) -> None:
    tab = show(data, viewport=PHONE, has_touch=True)
    for name in tab.get_by_role("tab").all():
        name.click()
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name.inner_text()
    tab.get_by_role("tab", name="Graph").click()
    tab.locator(".box.node").first.click()
    panel = tab.locator(".panel").bounding_box()
    assert panel["x"] >= 0 and panel["x"] + panel["width"] <= PHONE["width"]
    assert panel["y"] + panel["height"] <= PHONE["height"] and panel["height"] < PHONE["height"] * 0.6
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_names_stay_text(show: Open) -> None:
    tab = show(hostile())
    tab.locator(".box.node").first.click()
    assert ATTACK.strip() in tab.locator(".panel").inner_text()
    tab.keyboard.press("/")
    tab.keyboard.type("onerror")
    assert tab.locator("#found [role=option]").count() > 0
    assert tab.locator("img").count() == 0
    assert tab.evaluate("window.attacked") is None


@pytest.mark.parametrize(("data", "nodes"), [(flat(3000), 3000), (nested(300), 3002)], ids=["flat", "nested"])
def test_three_thousand_nodes(show: Open, data: Json, nodes: int) -> None:
    """A screen of boxes at first, and every node when all is open, none of them on top of another."""
    tab = show(data)
    assert 3 <= tab.locator(".box").count() <= 62
    tab.get_by_label("open all groups").click()
    assert tab.locator(".box.node").count() == nodes
    places = tab.evaluate("""() => [...document.querySelectorAll('.box.node')].map(e => {
        const r = e.querySelector('.shape').getBoundingClientRect(); return [r.x, r.y, r.right, r.bottom] })""")
    places.sort(key=lambda place: place[1])
    for i, (left, _, right, bottom) in enumerate(places):
        for other in itertools.takewhile(lambda place: place[1] < bottom - 0.01, places[i + 1 : i + 60]):  # noqa: B023
            assert other[0] >= right - 0.01 or left >= other[2] - 0.01


CROSSED = """() => {
    const boxes = [...document.querySelectorAll('.box:not(.open)')].map(e => e.getBoundingClientRect());
    const inside = (p, b) => p.x > b.x + 2 && p.x < b.right - 2 && p.y > b.y + 2 && p.y < b.bottom - 2;
    return [...document.querySelectorAll('.edge')].filter(edge => {
        const matrix = edge.getScreenCTM(), length = edge.getTotalLength();
        return Array.from({length: 60}, (_, i) => edge.getPointAtLength(length * i / 59).matrixTransform(matrix))
            .some(p => boxes.some(b => inside(p, b)));
    }).length }"""


@pytest.mark.parametrize(
    ("data", "edges"), [(dense(16), 16 * 17 // 2 + 1), (nested(4), None), (cached(8), None)],
    ids=["dense", "nested", "cached"],
)  # fmt: skip
def test_no_edge_is_hidden_by_a_box(show: Open, data: Json, edges: int | None) -> None:
    """Where all is read by all that follows, and where something tall stands beside an edge."""
    tab = show(data)
    tab.get_by_label("open all groups").click()
    if edges is not None:
        assert tab.locator(".edge").count() == edges
    assert tab.evaluate(CROSSED) == 0


def test_many_inputs_are_one_box(show: Open) -> None:
    tab = show(cached(20))
    assert box(tab, "module 21 inputs, 21 values").count() == 1
    assert box(tab, "module 21 outputs, 21 values").count() == 1
    box(tab, "module 21 inputs").dblclick()
    assert box(tab, "input past.19").count() == 1


def test_bodies_are_inside_their_nodes(show: Open) -> None:
    tab = show(branching())
    assert box(tab, "Mul").count() == 0
    tab.get_by_label("open all groups").click()
    outer, inner = box(tab, "If").bounding_box(), box(tab, "Mul").bounding_box()
    assert outer["x"] < inner["x"] and inner["y"] + inner["height"] < outer["y"] + outer["height"]
    box(tab, "Mul").click()
    assert "If › else_branch › Loop › body" in tab.locator(".panel").inner_text()


def test_a_module_that_is_called_twice_is_two_boxes(show: Open) -> None:
    sample = Sample()
    x = sample.enter()
    for _ in range(2):
        x = sample.node("Gemm", [x], "shared")
        x = sample.node("Relu", [x], "shared")
        x = sample.node("Neg", [x])
    sample.leave(x)
    tab = show(sample.data())
    assert box(tab, "module shared, Shared").count() == 1
    assert box(tab, "module shared (call 2), Shared").count() == 1
