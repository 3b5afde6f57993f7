"""What a page is about: a program, or a file that looks like one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import onnx_ir as ir

Sections = Sequence[tuple[str, str]]  # titles, and HTML


class Shown(Protocol):
    """What the page shows."""

    @property
    def model(self) -> ir.Model: ...
    @property
    def warnings(self) -> Sequence[str]: ...
