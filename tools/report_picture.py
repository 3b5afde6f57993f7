"""The picture of the report page in README.md: `make demo` writes the page, and a headless Chromium takes the picture.

make picture      # writes docs/pictures/report.png
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from onward import demo

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
SELECTED = "Softmax"  # the node whose details the picture shows
LARGEST = 300_000  # bytes: the picture is part of the repository


def take(page_file: Path, picture: Path) -> None:
    """The first screen of the page, with one node selected."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        sys.exit(f"no Chromium here ({', '.join(BROWSERS)})")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
        page.goto(page_file.as_uri())
        page.keyboard.press("/")
        page.keyboard.type(SELECTED)
        page.keyboard.press("Enter")
        page.wait_for_timeout(1000)
        page.screenshot(path=str(picture))
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path, nargs="?", default=Path("docs/pictures/report.png"))
    picture = parser.parse_args().picture
    picture.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        demo.main(folder)
        take(Path(folder) / "demo.html", picture)
    if picture.stat().st_size > LARGEST:
        sys.exit(f"{picture} has {picture.stat().st_size} bytes, and the repository takes at most {LARGEST}")


if __name__ == "__main__":
    main()
