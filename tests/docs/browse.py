"""Look at a built site in Chromium, as somebody does who opens it from a folder, and print what was seen as JSON.

    python -m tests.docs.browse FOLDER

A process of its own: the tests of the report page have a browser of this kind too, and one process runs one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.report.conftest import FLAGS, chromium

PAGES = ("index.html", "api.html", "zh/quick-start.html")  # wide tables, long names, another script


def look(site: Path) -> dict[str, object]:
    asked: list[str] = []
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((site / "index.html").as_uri())
        page.click("input.md-search__input")
        page.keyboard.type("calibration")
        page.wait_for_selector(".md-search-result__item h1")
        titles = page.eval_on_selector_all(".md-search-result__item h1", "all => all.map(each => each.innerText)")
        page.set_viewport_size({"width": 390, "height": 844})
        wide = []
        for each in PAGES:
            page.goto((site / each).as_uri(), wait_until="domcontentloaded")
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wide.append(each)
        browser.close()
    elsewhere = [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))]
    return {"found": titles, "asked elsewhere": elsewhere, "complaints": complaints, "wider than a phone": wide}


if __name__ == "__main__":
    print(json.dumps(look(Path(sys.argv[1]))))
