"""The model and its program, laid side by side at sizes beside the example's."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence

import torch

from ..call.values import drawn
from ..decisions.assumptions import agrees_at, contradicted, elements
from ..program.facts import Assumption, CapturedProgram, Output
from ..program.regions import Body
from ..python.watchdog import at_most
from ..sizes.probes import Plan
from .mutable import answers
from .run import Request
from .same_steps import SameSteps

_SECONDS = 1.0  # that a model with a loop on data may take on other values
_FEW, _LARGER = 2, 3  # sizes that may hide what differs, and how many times as much shows it
_MOST_ELEMENTS = 1 << 14  # of the inputs at sizes at which all axes are larger


class Trials:
    """The model and its program, laid side by side at sizes beside the example's."""

    def __init__(self, request: Request, plan: Plan, program: CapturedProgram) -> None:
        self._request, self._program, self.start = request, program, plan.start
        named = zip(request.call.names, request.call.tensors, strict=True)
        self._originals = [tensor if request.axes.get(label) else None for label, tensor in named]
        self._verdicts: dict[tuple[int, ...], bool] = {}
        self._wide: dict[tuple[int, ...], bool] = {}
        self._larger = {axis: _LARGER * size for axis, size in self.start.items() if size <= _FEW}
        self._has_branches = any(isinstance(each, Body) for node in program.graph.nodes for each in node.args)
        self._deciding: set[str] = set()  # axes that questions depend on of which one side was taken for both
        self._probed = {axis: max(values[1:]) for axis, values in plan.sizes.items() if len(values) > 1}

    @functools.cached_property
    def _same_steps(self) -> SameSteps:
        request, program = self._request, self._program
        model = functools.partial(answers, request.model, request.call, program.results)
        return SameSteps(program, model, request.kernels, request.empty_at_sizes(self.start))

    def answer(self, sizes: Mapping[str, int], draw: int = 0) -> tuple[tuple[torch.Tensor, ...], list[Output]]:
        """Inputs of these sizes, and what the model answers."""
        request, program = self._request, self._program
        inputs = drawn(request.at_sizes({**self.start, **sizes}), draw, self._originals)
        with at_most(_SECONDS) if program.may_not_end else contextlib.nullcontext():
            return inputs, answers(request.model, request.call, program.results, inputs)

    def agree(self, sizes: Mapping[str, int]) -> bool:
        """Whether both give the same there, and also where the other axes are larger: of a single row, `y[-1:] = 0`
        leaves nothing to see."""
        wide = {**self.start, **self._probed, **sizes}
        larger = {**self.start, **self._larger, **sizes}
        others = [larger, wide] if elements(self._program, wide) <= _MOST_ELEMENTS else [larger]
        return self._agree(sizes) and all(self._agree(each) for each in others if self._is_asked(each))

    def agree_widely(self, assumption: Assumption, sizes: Mapping[str, int]) -> bool:
        """Whether both take the same steps where all other axes are larger and the question has the same answer as at
        these sizes. There is nothing there that few rows could hide. Axes that other branches depend on stay as they
        are: with them the model may go another way."""
        if self._has_branches:
            return False
        probed = {axis: size for axis, size in self._probed.items() if axis not in self._deciding}
        wide, here = {**self.start, **probed, **sizes}, {**self.start, **sizes}
        expand, question = self._request.space.expand, assumption.question
        answer = None if question is None else question.at(expand(here))
        if question is None or answer is None or not self._is_asked(wide) or question.at(expand(wide)) != answer:
            return False
        key = tuple(wide.values())
        if key not in self._wide:
            self._wide[key] = self._same_steps_at(wide, or_refused=False)
        return self._wide[key]

    def _is_asked(self, sizes: Mapping[str, int]) -> bool:
        return self._request.space.allows(sizes)

    def _agree(self, sizes: Mapping[str, int]) -> bool:
        """Without data where both take the same steps, for data could say nothing else; with data elsewhere."""
        key = tuple({**self.start, **sizes}.values())
        if key not in self._verdicts:
            self._verdicts[key] = self._same_steps_at(sizes) or agrees_at(self._program, self.answer, sizes)
        return self._verdicts[key]

    def _same_steps_at(self, sizes: Mapping[str, int], *, or_refused: bool = True) -> bool:
        inputs = self._request.empty_at_sizes({**self.start, **sizes})
        return self._same_steps.at(inputs, or_refused=or_refused)

    def contradicted(self, on_other_way: Sequence[Assumption] = ()) -> list[tuple[Assumption, Mapping[str, int]]]:
        """The assumptions that matter, of the program and of the way that it does not take."""
        self._deciding = {
            axis for each in (*self._program.sides, *on_other_way) for sizes in each.elsewhere for axis in sizes
        }
        return contradicted(self._program, on_other_way, self.agree, self._same_steps_at, self.agree_widely)
