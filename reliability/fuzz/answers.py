"""What a model asks its data, and which way it takes, line by line."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_TRUTHS = frozenset({"__bool__", "is_nonzero"})
_NUMBERS = frozenset({"__int__", "__float__", "__index__", "item"})
_LISTS = frozenset({"tolist", "numpy", "__array__"})


@dataclass
class Heard:
    """What happened at each line of the model's file, in order.

    truths   the yes and no that tensors were asked for
    numbers  the numbers that were read out of tensors
    lists    whole tensors that were read out of PyTorch
    shapes   the shapes of the tensors that were made
    ways     the instructions that Python ran, each with the next: which side of a branch, how many turns of a loop
    """

    truths: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    numbers: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    lists: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    shapes: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    ways: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))


class _Listening(TorchFunctionMode):
    def __init__(self, heard: Heard) -> None:
        super().__init__()
        self._heard = heard

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name, line = getattr(func, "__name__", ""), sys._getframe(1).f_lineno
        if name in _TRUTHS or (name in _NUMBERS and isinstance(result, bool)):
            self._heard.truths[line].append(str(result))
        elif name in _NUMBERS:
            self._heard.numbers[line].append(str(result))
        elif name in _LISTS:
            self._heard.lists[line].append(str(result))
        elif made := _tensors(result):
            self._heard.shapes[line].append(str([tuple(each.shape) for each in made]))
        return result


def _tensors(result: Any) -> list[torch.Tensor]:
    found = result if isinstance(result, (list, tuple)) else [result]
    return [each for each in found if isinstance(each, torch.Tensor)]


def listened(model: Any, inputs: tuple[torch.Tensor, ...]) -> Heard:
    """Run a model and listen. A model that raises has heard what it had heard by then."""
    heard = Heard()
    file = getattr(model, "forward", model).__code__.co_filename

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != file:
            return None
        frame.f_trace_opcodes = True
        return on_instruction

    last: dict[FrameType, tuple[int, int]] = {}

    def on_instruction(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            if frame in last:
                line, place = last[frame]
                heard.ways[line].append((place, frame.f_lasti))
            last[frame] = frame.f_lineno or 0, frame.f_lasti
        return on_instruction

    before = sys.gettrace()
    with _Listening(heard), torch.no_grad():
        sys.settrace(on_call)
        try:
            model(*inputs)
        except Exception as error:
            heard.truths[0].append(f"raised {type(error).__name__}")
        finally:
            sys.settrace(before)
    return heard
