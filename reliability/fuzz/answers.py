"""What a model asks its data, line by line."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_ASKED = frozenset({"__bool__", "__int__", "__float__", "__index__", "item", "is_nonzero", "tolist"})


class _Listening(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.heard: set[tuple[int, str]] = set()
        self._counts: dict[int, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in _ASKED:
            line = sys._getframe(1).f_lineno
            self._counts[line] = self._counts.get(line, 0) + 1
            self.heard.add((line, f"{self._counts[line]}: {result}"))
        elif any(isinstance(each, torch.Tensor) for each in _listed(result)):
            line = sys._getframe(1).f_lineno
            self.heard.add((line, f"shapes: {[tuple(each.shape) for each in _listed(result)]}"))
        return result


def _listed(result: Any) -> list[torch.Tensor]:
    found = result if isinstance(result, (list, tuple)) else [result]
    return [each for each in found if isinstance(each, torch.Tensor)]


def decided(model: Any, inputs: tuple[torch.Tensor, ...]) -> set[tuple[int, str]]:
    """Every answer that Python was given, with its line and its number there, and the shapes that were made there.

    A model that raises has heard what it had heard by then.
    """
    with _Listening() as listening, torch.no_grad():
        try:
            model(*inputs)
        except Exception as error:
            listening.heard.add((0, f"raised {type(error).__name__}"))
    return listening.heard
