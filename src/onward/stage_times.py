"""How long each stage of an export took."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Stages:
    """`with stages("capture"): ...`, and a table at the end."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def __str__(self) -> str:
        total = sum(self.seconds.values())
        rows = [*self.seconds.items(), ("together", total)]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {seconds:8.3f} s" for name, seconds in rows)
