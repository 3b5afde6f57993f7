"""`--sample N` runs a part of every table of cases: `make check` uses it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", type=int, default=1, metavar="N", help="of every parametrized test, each Nth case")


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    every = config.getoption("--sample")
    if every < 1:
        raise pytest.UsageError(f"--sample is {every}; it has to be at least 1")
    if every == 1:
        return
    seen: Counter[str] = Counter()
    kept, left = [], []
    for item in items:
        test = item.nodeid.split("[")[0]
        (left if seen[test] % every else kept).append(item)
        seen[test] += 1
    items[:] = kept
    config.hook.pytest_deselected(items=left)
