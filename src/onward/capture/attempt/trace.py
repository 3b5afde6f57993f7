"""The default front end: run a live model once, and follow it."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch._ops import OpOverload

from ...errors import CaptureError, FrozenAxisError, LoweringError, RefusedSizesError
from ..call.inputs import AxisNames, Call
from ..call.weights import Weights, weights_of
from ..decisions.decisions import CaptureWarning
from ..explore.items import CannotExplore
from ..ground.axes import AxisSpace
from ..ground.source import Said, warn_again, warn_user, warnings_held
from ..program.constant_outputs import constant_note, constant_outputs, lost_dependence
from ..program.facts import Assumption, CapturedProgram, Source
from ..record.complaints import all_sizes_refused, frozen_axis, model_raised, no_sizes_left, places_of
from ..record.elsewhere import ProbeRejected
from ..sizes.layouts import LayoutKernels
from ..sizes.probes import GENERAL, PROBES, SIDES, Plan, plans
from ..state.own_code import one_reach
from .explored import NothingToKeep, explored
from .mutable import called
from .other_way import asked_on_the_other_way
from .run import FAILURES, Frozen, Request, Stuck, run
from .same_steps import refuses
from .thaw import CannotThaw, SizesRefused, thaw, thaw_numbers
from .trials import Trials
from .willing import as_a_sum, sum_note, unwilling

_NEAR = 65  # sizes in a row among which both answers to a question are looked for
_KEPT = "the file keeps the example's", "the file keeps its size in the example"  # warnings of decisions


Sizes = Mapping[str, int]


class Narrowed(Exception):
    """The program is right, but not at all sizes of an axis that need not be dynamic."""

    def __init__(self, program: CapturedProgram, assumption: Assumption, sizes: Mapping[str, int]) -> None:
        place = assumption.source or "an unknown line"
        super().__init__(f"the model takes another way at {place}, where `{assumption.expression}` changes")
        self.program, self.sizes = program, sizes


class OtherAtExample(CannotThaw):
    """A program that was traced at sizes beyond the example's does not give the example's results."""


@one_reach()
def trace(
    model: Any,
    call: Call,
    axes: dict[str, AxisNames],
    *,
    output_names: Sequence[str] | None = None,
    output_axes: Mapping[str, AxisNames] | None = None,
    space: AxisSpace | None = None,
    is_primitive: Callable[[OpOverload, bool], bool],
    allow_static_axes: bool = False,
    allow_constant_outputs: bool | None = True,
    weights: Weights | None = None,
    accept: Callable[[CapturedProgram], Any] = lambda program: None,
) -> CapturedProgram:
    """Capture `model` called with `call`, with the named axes dynamic.

    `accept` raises LoweringError for a program that has no form in ONNX: of the axes that need not be dynamic, those
    are fixed that stand in its way.
    """
    weights, space = weights or weights_of(model), space or AxisSpace()
    request = Request(model, call, axes, is_primitive, LayoutKernels(), output_names, output_axes or {}, weights, space)
    fixed: set[str] = set()
    notes: list[str] = []
    while True:
        try:
            program = _first_that_works(request.without(fixed))
            if space.optional & program.axes.keys():
                accept(program)
            notes += _constant_outputs(program, allow_constant_outputs)
            for text, source in request.watch.cautions(model, call, call.tensors):
                warn_user(text, CaptureWarning, source)
                notes.append(text)
            return dataclasses.replace(program, warnings=(*notes, *program.warnings))
        except Narrowed as narrowed:
            for axis, size in narrowed.sizes.items():
                if size == 1:
                    request = request.from_two_on(axis)
                    notes.append(f"written for sizes from 2 on: {places_of(axis, axes)}: {narrowed}")
                else:
                    fixed.add(axis)
                    notes.append(f"written as fixed: {places_of(axis, axes)}: {narrowed}")
        except LoweringError as error:
            newly = unwilling(request.without(fixed), lambda request: accept(_in_short(request)))
            if not newly:
                raise
            fixed |= newly
            notes.append(f"written as fixed: {places_of(newly, axes)}: {error.what}")
        except (FrozenAxisError, RefusedSizesError) as error:
            found = as_a_sum(request.without(fixed), error, _in_short)
            if found is not None:
                total, formula = found
                request = request.following({total: formula})
                notes.append(sum_note(total, formula, request))
                if total not in space.made_up:
                    warn_user(notes[-1], CaptureWarning)
                continue
            newly = _to_be_fixed(request.without(fixed), error, allow_static_axes)
            if not newly:
                raise
            fixed |= newly
            if isinstance(error, FrozenAxisError):
                notes.append(_fixed("\n  ".join((f"written as fixed: {error.what}", *error.details)) + "\n "))
            else:
                notes.append(_fixed(f"written as fixed: {places_of(newly, axes)}: {error.what}."))
            if not newly <= space.optional:
                warn_user(notes[-1], CaptureWarning)


def _constant_outputs(program: CapturedProgram, allowed: bool | None) -> list[str]:
    """Refuse outputs that no input reaches; None allows them with a warning, which is returned."""
    names = () if allowed else constant_outputs(program)
    if not names:
        return []
    if allowed is None:
        note = constant_note(program, names)
        warn_user(note, CaptureWarning)
        return [note]
    raise lost_dependence(program, names)


def _fixed(what: str) -> str:
    """A note on axes that were given up."""
    return f"{what} The file takes only the example's size there. To avoid this, compute with the size itself."


def _to_be_fixed(request: Request, error: CaptureError, allow_static_axes: bool) -> set[str]:
    """The axes that may be given up so that the rest can stay dynamic; none if the error has to stand."""
    if not isinstance(error, FrozenAxisError):
        return unwilling(request, _in_short)
    named = {label for axes in request.axes.values() for axis in axes.values() for label in request.space.roots(axis)}
    newly = set(error.axes) & named
    return newly & request.space.optional or (newly if allow_static_axes else set())


def _in_short(request: Request) -> CapturedProgram:
    """Only to find out whether it works: with axes tied that could be, and without the plans for rare cases."""
    with warnings_held():
        try:
            return _first_that_works(request, in_short=True)
        except Narrowed as narrowed:
            return narrowed.program


def _first_that_works(request: Request, *, in_short: bool = False) -> CapturedProgram:
    """Try one plan of probe sizes after the other; what the model refuses at one may work at the next."""
    example = request.example_sizes()
    frozen: Frozen | None = None
    reason: str | None = None
    at_example: str | None = None
    stuck: Stuck | None = None
    refused, general = False, bool(example)
    rejected: list[tuple[Plan, ProbeRejected]] = []
    waiting = collections.deque(_plans(example, request, in_short))
    while waiting:
        plan = waiting.popleft()
        tying = bool(plan.tied) and _compares_axes(frozen, example)
        if frozen and not (plan.enlarged or tying or (refused and _is_as_even(plan))):
            continue  # sizes of another kind do not settle a branch
        said: list[Said] = []
        first: _Ran | None = None
        if general and not (in_short or plan.enlarged):
            tried = _first_run(request, plan)
            if isinstance(tried, CapturedProgram):
                return tried
            first, general = tried, tried is not None
        try:
            try:
                plan, program = _with_data_decisions(request, plan, said, first, in_short=in_short)
            except Frozen as error:
                frozen = frozen or error
                plan = dataclasses.replace(plan, freedom=error.freedom)
                with warnings_held() as of_side:
                    sided = None if in_short else _on_one_side(request, plan, error)
                found = None
                if sided is None or sided.decided_by_data:  # data may hide what the other side does
                    found = _with_size_decisions(request, plan)
                if found is None and sided is not None:
                    warn_again(of_side)
                    return sided
                program = found or thaw(request, plan, error)
                if found is None:
                    warn_again(said)
            except Stuck as error:
                if plan.enlarged:  # there the model may refuse the very example
                    raise
                stuck = stuck or error
                if request.plain_error() is not None:
                    raise
                program = _with_numbers(request, plan, error)
                warn_again(said)
            return _settled(request, plan, program, after_freeze=frozen is not None, keeping=not in_short)
        except Stuck as error:
            if not plan.enlarged:
                raise error.error from error.error.__cause__
        except ProbeRejected as error:
            if not rejected:
                if error.is_the_models or _refuses_itself(request, plan):
                    waiting = collections.deque(sorted(waiting, key=_in_order_of_hope))
                elif (found := _with_size_decisions(request, plan)) is not None:
                    return _settled(request, plan, found, after_freeze=False)
            rejected.append((plan, error))
        except OtherAtExample as other:
            at_example = at_example or str(other)
        except CannotThaw as cannot:
            reason = reason or str(cannot)
            refused = refused or isinstance(cannot, SizesRefused)
        except CaptureError:
            if not plan.enlarged:
                raise
    final: CaptureError
    if (own := request.plain_error()) is not None:  # sizes have nothing to do with it
        raise model_raised(request.name, own, own, request.model, request.call) from own
    if frozen:
        final = frozen_axis(frozen.freezes, example, request.axes, reason, request.space.formulas)
    elif stuck:
        final = stuck.error
    else:
        final = all_sizes_refused(rejected) if rejected else no_sizes_left(example)
    if at_example:
        final.add_detail(at_example)
    raise final


def _with_numbers(request: Request, plan: Plan, stuck: Stuck) -> CapturedProgram:
    """Python code that takes no sizes (a key, a line of JSON) is given numbers, which are thawed."""
    try:
        return thaw_numbers(request, plan, stuck)
    except CannotThaw as cannot:
        error = stuck.error
        if str(cannot) != error.what:
            error.add_detail(f"with plain numbers for sizes: {cannot}")
        raise (cannot if isinstance(cannot, SizesRefused) else stuck) from cannot


@dataclasses.dataclass(frozen=True)
class _Ran:
    """What came of a run in which no branch was taken on one side for both."""

    said: Sequence[Said]
    found: tuple[Plan, CapturedProgram] | Exception

    def again(self) -> tuple[Plan, CapturedProgram]:
        """The outcome, as if it had come just now."""
        warn_again(self.said)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def _first_run(request: Request, plan: Plan) -> CapturedProgram | _Ran | None:
    """The first run of a plan takes for general what a branch on equal sizes does where they are not equal: padding by
    nothing does no harm. If that holds, the program is found in one run.

    None if it does not hold, and the run says nothing about what the model does by itself.
    """
    sides: list[None] = []
    with warnings_held() as said:
        try:
            general = dataclasses.replace(plan, side=GENERAL)
            general, program = _as_free_as_it_goes(request, general, lambda: sides.append(None))
            found: _Ran | CapturedProgram | None
            if sides:
                settled = functools.partial(_settled, after_freeze=True, keeping=True)
                found = None if program.decided_by_data else settled(request, general, program)
            else:
                found = _Ran(tuple(said), (dataclasses.replace(general, side=""), program))
        except FAILURES as error:
            found = None if sides else _Ran(tuple(said), error)
    if isinstance(found, CapturedProgram):
        warn_again(said)
    return found


def _with_data_decisions(
    request: Request, plan: Plan, given_up: list[Said], first: _Ran | None, *, in_short: bool
) -> tuple[Plan, CapturedProgram]:
    """Run, and where Python asked what the data says, explore what it would have done at other answers.

    What a run that fails has warned of is left in `given_up`: it holds for a program that is made of the same run.
    """
    free = plan
    with warnings_held() as said:
        try:
            plan, program = first.again() if first is not None else _as_free_as_it_goes(request, plan)
        except Exception:
            given_up += said
            raise
    reason = ""
    if program.decided_by_data and not in_short:
        for each in dict.fromkeys((free.freedom, plan.freedom)):
            try:
                with warnings_held() as others:
                    program, said, reason = explored(request, dataclasses.replace(plan, freedom=each)), others, ""
                break
            except NothingToKeep:
                continue
            except CannotExplore as error:
                reason = reason or f" It cannot be kept as an If or a Loop: {error}."

    def explained(text: str) -> str:
        return text + reason if any(each in text for each in _KEPT) else text

    warn_again((explained(text), category, source) for text, category, source in said)
    return plan, dataclasses.replace(program, warnings=tuple(map(explained, program.warnings)))


def _with_size_decisions(
    request: Request, plan: Plan, *, assumes: bool = True, one_sided: Mapping[Source | None, bool] | None = None
) -> CapturedProgram | None:
    """The program with branches and loops that depend on sizes; None if there is none.

    With `assumes`, it keeps one side of branches that only sizes far away take otherwise: `_settled` tries these out.
    The lines in `one_sided` ask about sizes, and get one answer.
    """
    if plan.enlarged:
        return None
    with warnings_held() as said:
        try:
            found = explored(request, plan, of_sizes=True, assumes=assumes, one_sided=one_sided)
        except CannotExplore:
            return None
    warn_again(said)
    return found


def _refuses_itself(request: Request, plan: Plan) -> bool:
    """Whether the model refuses the sizes of a probe, and not only what it does at the example's: then no side of a
    branch is right for them."""
    model = functools.partial(called, request.model, request.call)
    every = ({axis: sizes[probe] for axis, sizes in plan.sizes.items()} for probe in range(1, PROBES))
    example = request.empty_at_sizes(plan.start)
    return any(refuses(model, request.empty_at_sizes(each), example, request.kernels) for each in every)


def _as_free_as_it_goes(
    request: Request, plan: Plan, on_side: Callable[[], Any] | None = None
) -> tuple[Plan, CapturedProgram]:
    """Run with numbers from data varying freely; where the model refuses that, with less and less freedom."""
    while True:
        try:
            return plan, run(request, plan, on_side=on_side)
        except ProbeRejected as error:
            if error.less is None:
                raise
            plan = dataclasses.replace(plan, freedom=error.less)


def _on_one_side(request: Request, plan: Plan, frozen: Frozen) -> CapturedProgram | None:
    """The program with one side of each branch on sizes, where that side does for both.

    `if padding > 0: x = pad(x, padding)` has such a side: padding by nothing does no harm. Which one it is, is tried
    out: the program must give the model's results at sizes on either side.
    """
    if not any(isinstance(freeze.value, bool) for freeze in frozen.freezes) or plan.enlarged:
        return None
    for side in SIDES:
        sided = dataclasses.replace(plan, side=side)
        with warnings_held() as said:
            try:
                sided, program = _as_free_as_it_goes(request, sided)
                found = _settled(request, sided, program, after_freeze=True, keeping=True)
            except FAILURES:
                continue
        warn_again(said)
        return found
    return None


def _plans(example: dict[str, int], request: Request, in_short: bool) -> Iterable[Plan]:
    if not example:
        return [Plan("example", {}, {})]
    every = plans(example, request.space)
    if not in_short:
        return every
    few = [plan for plan in every if plan.label.split(",")[0] in ("any", "multiples") and not plan.enlarged]
    return [plan for plan in few if plan.tied] or few


def _in_order_of_hope(plan: Plan) -> int:
    """In which order to go on when the model refuses sizes: they may have to be as even as the example, and only then
    the same along two axes."""
    is_general = plan.label.startswith(("any", "multiples", "steps")) and not plan.enlarged
    return 2 if not is_general else 1 if plan.tied else 0


def _is_limit(plan: Plan) -> bool:
    """Sizes below the example's, for models that take another way beyond some size."""
    return plan.label.startswith("smaller")


def _is_as_even(plan: Plan) -> bool:
    """Sizes that have the example's divisors, or the powers of two among them."""
    return plan.label == "multiples" or plan.label.startswith("steps")


def _compares_axes(frozen: Frozen | None, example: Mapping[str, int]) -> bool:
    """Whether the model branched on two axes that have one size in the example: it may mean them to be one."""
    compared = [each.axes for each in frozen.freezes if isinstance(each.value, bool)] if frozen else []
    return any(len(axes) == 2 and len({example.get(axis) for axis in axes}) == 1 for axes in compared)


def _at_example(plan: Plan, example: Mapping[str, int], differing: Sequence[tuple[Assumption, Any]]) -> str:
    """Why a program that was traced at sizes beyond the example's is none for the example."""
    sizes = ", ".join(f"{axis} = {example[axis]}" for axis in sorted(plan.enlarged))
    branches = [f"`{each.expression}` ({each.source or 'an unknown line'})" for each, _ in differing]
    where = f" because of {', '.join(branches)}" if branches else ""
    return (
        f"the model does something else at {sizes}, the example, than at larger sizes{where}; "
        "an example with larger sizes gives a file for those"
    )


def _kept_on_both_sides(
    request: Request, plan: Plan, program: CapturedProgram, differing: Sequence[tuple[Assumption, Sizes]]
) -> CapturedProgram | None:
    """The program with both sides of the branches on sizes that matter; None if they cannot be kept.

    It must be right where the program is not that it replaces: it bears the assumptions of both. Where one side of a
    branch was taken for both and nothing contradicts that, it stays so, unless there is no program then.
    """
    plan = dataclasses.replace(plan, side="")
    contradicted = {assumption.source for assumption, _ in differing}
    held = [each for each in program.sides if each.source is not None and each.source not in contradicted]
    for sides in [held, []] if held else [[]]:
        one_sided = {each.source: bool(each.value) for each in sides}
        if len({(each.source, each.value) for each in sides}) > len(one_sided):
            continue  # a line that asks twice, and got another answer
        with warnings_held() as said:
            found = _with_size_decisions(request, plan, assumes=False, one_sided=one_sided)
            if found is None:
                continue
            known = {(each.expression, each.source) for each in found.assumptions}
            more = [each for each in program.assumptions if (each.expression, each.source) not in known]
            behind = [_behind(request, side, differing) for side in sides]
            found = dataclasses.replace(
                found, assumptions=(*found.assumptions, *more), sides=(*found.sides, *sides, *behind)
            )
            if len(Trials(request, plan, found).contradicted()) >= len(differing):
                continue
            try:
                found = _settled(request, plan, found, after_freeze=bool(sides))
            except CannotThaw:  # one side does not do for both on the way that is new
                continue
        warn_again(said)
        return found
    return None


def _behind(request: Request, side: Assumption, differing: Sequence[tuple[Assumption, Sizes]]) -> Assumption:
    """A branch of which one side was taken for both, with sizes on either side of it behind the other answers of the
    questions that matter."""
    start, space = request.example_sizes(), request.space
    elsewhere: list[Sizes] = []
    for other, sizes in differing:
        if side.question is None or other.question is None:
            continue
        answers: dict[Any, Sizes] = {}
        for near in ({**sizes, axis: size + step} for axis, size in sizes.items() for step in range(_NEAR)):
            whole = space.expand({**start, **near})
            if space.allows({**start, **near}) and other.question.at(whole) != other.value:
                answers.setdefault(side.question.at(whole), near)
        elsewhere += answers.values()
    return dataclasses.replace(side, elsewhere=tuple(elsewhere))


def _settled(
    request: Request, plan: Plan, program: CapturedProgram, *, after_freeze: bool, keeping: bool = False
) -> CapturedProgram:
    """The program with a warning for every branch that it holds one side of, if the other side differs.

    After a freeze, one side of a branch may have been taken for both, or all probes are as even as the example: the
    program must be right at the example, and in the second case next to it as well.
    """
    trials = Trials(request, plan, program)
    start, agrees = trials.start, trials.agree
    unseen = asked_on_the_other_way(request, plan, program)
    differing = trials.contradicted(unseen)
    is_wrong_side = any(each in program.sides or each in unseen for each, _ in differing)
    if differing and keeping and not (plan.side and is_wrong_side):
        found = _kept_on_both_sides(request, plan, program, differing)
        if found is not None:
            return found
    if after_freeze and differing and (_is_as_even(plan) or is_wrong_side):
        raise CannotThaw("a branch depends on the size")
    example = request.example_sizes()
    if plan.enlarged and not agrees(example):  # a file must be right at its own example
        raise OtherAtExample(_at_example(plan, example, differing))
    if after_freeze and (_is_as_even(plan) or plan.side):
        steps = (1, 2, 4) if _is_as_even(plan) else ()  # the probes are all as even as the example
        near = [{**example, axis: size + step} for axis, size in example.items() for step in steps]
        if not all(agrees(each) for each in (example, *filter(request.space.allows, near))):
            raise CannotThaw("a branch depends on the size")
    if _is_limit(plan) or plan.label.startswith("nearby"):  # so near that rounding may have hidden an axis
        for leader in program.axes:
            followers = [axis for axis in start if axis == leader or plan.tied.get(axis) == leader]
            doubled = {axis: 2 * start[axis] for axis in followers}
            if request.space.allows(doubled) and not agrees(doubled):
                raise CannotThaw(f"larger sizes of {leader!r} differ")
    if plan.enlarged:
        inputs, wanted = trials.answer(example)
        program = dataclasses.replace(program, example_inputs=inputs, example_outputs=tuple(wanted))
    for assumption, sizes in differing:
        if request.space.optional.issuperset(sizes):
            raise Narrowed(program, assumption, sizes)
    notes, limits = [], []
    for assumption, sizes in differing:
        limit = assumption.limit(example, sizes)
        limit = limit if limit is not None and program.can_check(limit) else None
        limits += [] if limit is None else [limit]
        notes.append(assumption.text(sizes, is_refused=limit is not None))
        warn_user(notes[-1], CaptureWarning, assumption.source)
    limits = list(dict.fromkeys((*program.limits, *limits)))
    return dataclasses.replace(program, warnings=(*program.warnings, *notes), limits=tuple(limits))
