"""A browser for the tests of the page: the Chromium of the system, started once per worker."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def chromium() -> str:
    """Where it is. Without one the test fails, unless somebody has said that there is none."""
    if os.environ.get("ONWARD_NO_BROWSER") == "1":
        pytest.skip("ONWARD_NO_BROWSER=1")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail(
            f"no Chromium here ({', '.join(NAMES)}): install one (`make test` does, as root on Debian), "
            "or leave these tests out with ONWARD_NO_BROWSER=1"
        )
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    found = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield started
        started.close()
