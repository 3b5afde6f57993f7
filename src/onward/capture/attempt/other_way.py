"""What a model asks on the way that its program does not take.

`if h % 2: x = pad(x, ...)` is written as the padding alone, for padding by nothing does no harm. But behind an `elif`
or an `or` there may be questions that nobody asks on the way that pads. So the model is traced once more: at sizes that
give the other answers, and at probes that leave the same rest whatever small number they are divided by. What it asks
there has sizes at which the answer changes, and the program must be right at these.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from ..decisions.journal import CannotThaw
from ..ground.source import warnings_held
from ..program.facts import Assumption, CapturedProgram
from ..sizes.probes import PROBES, Plan, alike_in_remainders
from .mutable import called
from .run import FAILURES, Request, run
from .same_steps import refuses


def asked_on_the_other_way(request: Request, plan: Plan, program: CapturedProgram) -> list[Assumption]:
    """The questions about sizes on the way that a program with one side for both does not take."""
    if program.other_way is None or not plan.side:
        return []
    start = {**plan.start, **program.other_way}
    # At probes that differ the model may refuse what a single size decides (`n == 8`): then the points alone tell.
    alike, alone = (
        alike_in_remainders(start, plan.tied, request.space),
        {axis: (n,) * PROBES for axis, n in start.items()},
    )
    moved = frozenset(axis for axis, size in start.items() if size != request.example_sizes()[axis])
    other: CapturedProgram | None = None
    reason = ""
    for sizes in (alike, alone):
        if sizes is not None and other is None:
            natural = dataclasses.replace(plan, label="the other way", sizes=sizes, enlarged=moved, side="own")
            try:
                with warnings_held():
                    other, used = run(request, natural), sizes
            except FAILURES as error:
                reason = reason or str(error)
    if other is None:
        model = functools.partial(called, request.model, request.call)
        if refuses(model, request.empty_at_sizes(start), request.empty_at_sizes(plan.start), request.kernels):
            return []  # there is no other side
        raise CannotThaw(f"the other side cannot be looked at: {reason}")
    known = {(each.expression, each.source) for each in program.assumptions}
    nothing_new = [*other.as_traced, *(_moved(used, start, probe) for probe in range(1, PROBES))]
    found = []
    for each in (*other.sides, *other.assumptions):
        elsewhere = [{**program.other_way, **moved} for moved in each.elsewhere if moved not in nothing_new]
        if elsewhere and (each.expression, each.source) not in known:
            found.append(dataclasses.replace(each, elsewhere=tuple(elsewhere)))
    return found


def _moved(sizes: Mapping[str, tuple[int, ...]], start: Mapping[str, int], probe: int) -> dict[str, int]:
    """The axes that have another size at a probe. Ours are far away, and say nothing about sizes that anybody uses."""
    return {axis: values[probe] for axis, values in sizes.items() if values[probe] != start[axis]}
