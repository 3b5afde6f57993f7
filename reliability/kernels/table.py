"""The list that onward reads: kernels that were called with wrong sizes and did not die of it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import torch

TARGET = Path(__file__).resolve().parents[2] / "src" / "onward" / "capture" / "ground" / "_checking_kernels.py"
# ruff: noqa: E501
_HEADER = '''"""CPU kernels of PyTorch {version} that check the sizes of their arguments, some with the help of `size_checks.py`.

Written by `python -m reliability.kernels --write`; do not edit. Each was called with sizes that do not fit, in memory
that ends where its tensors end, and none read or wrote past it.
"""
# ruff: noqa: SIM905
# fmt: off

from __future__ import annotations

CHECKING_KERNELS = frozenset("""
{names}
""".split())
'''


def _is_safe(seen: dict[str, Any]) -> bool:
    """Whether a kernel was called with sizes that fit and took them, and with others, and never died."""
    fits = any(kind.startswith("fitting: accepted") for kind in seen["meta"])
    return fits and bool(seen["tried"]) and not seen["died"]


def write(found: dict[str, dict[str, Any]]) -> None:
    """Write the list."""
    names = sorted(name for name, seen in found.items() if _is_safe(seen))
    lines = textwrap.fill(" ".join(names), 118, break_long_words=False, break_on_hyphens=False)
    TARGET.write_text(_HEADER.format(version=torch.__version__.split("+")[0], names=lines), encoding="utf-8")
    print(f"{len(names)} kernels in {TARGET.name}")
