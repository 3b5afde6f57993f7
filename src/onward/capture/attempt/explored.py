"""Capture a model with its decisions kept."""

from __future__ import annotations

import ast
import dataclasses
import linecache
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import ExportError
from ..decisions.decisions import CaptureWarning
from ..decisions.journal import CannotThaw
from ..explore.bodies import has_lists, kept
from ..explore.checking import LeftOut
from ..explore.explorer import Explorer
from ..explore.items import (
    At,
    Branch,
    CannotExplore,
    Flag,
    Loop,
    OtherSize,
    Ragged,
    Raw,
    Rejected,
    TooMuch,
    Unlike,
)
from ..explore.recorder import Recorder, Ways
from ..explore.replay import replay
from ..explore.runs import Runs
from ..ground.source import Said, warn_again, warnings_held
from ..ground.tree import flatten
from ..program.facts import CapturedProgram, Source
from ..record.elsewhere import ProbeRejected
from ..sizes.probes import PROBES, Plan, beyond, congruent
from .mutable import place_state
from .run import Frozen, Request, Stuck, followed_model, layout_at, run, tracer_for

Sizes = Mapping[str, int]
_TURNS_WANTED = 5  # of loops over axes
_FAR = (16, 33, 100, 5, 64, 11, 257, 7, 128, 25, 6, 10, 17, 50, 15, 8, 12, 31, 49, 65, 129, 4, 1000, 1025)
_MOST_ELEMENTS = 1 << 15  # of the inputs at these
_WIDE = 13  # the size of axes along which loops get as few turns as it takes

_MOST_OF_ALL = 45_000  # items of the runs of all searches for one export, each of which has its own limit, too
_SETTINGS = {"": Ways(), "plain_indices": Ways(plain_indices=True), "asks_of_sizes": Ways(asks_of_sizes=True)}


@dataclasses.dataclass(frozen=True)
class _Search:
    """What a search explores, and how.

    of_sizes   whether questions about sizes are explored
    assumes    whether those that all probes answer alike keep their answers, and are assumptions of the program
    one_sided  lines that ask about sizes, and the answer that they always get, for its side does for both
    ways       the settings of all runs
    heeded     gets the settings that something in a run depended on
    """

    of_sizes: bool
    assumes: bool
    one_sided: Mapping[Source | None, bool]
    ways: Ways
    heeded: set[str]


class NothingToKeep(CannotExplore):
    """The model takes one way at all data: what it reads is a number, which decides about none."""


def explored(
    request: Request,
    plan: Plan,
    *,
    of_sizes: bool = False,
    assumes: bool = False,
    one_sided: Mapping[Source | None, bool] | None = None,
) -> CapturedProgram:
    """The program with branches and loops; CannotExplore says why there is none.

    of_sizes   whether questions about sizes are explored
    assumes    whether those that all probes answer alike keep their answers, and are assumptions of the program
    one_sided  lines that ask about sizes, and the answer that they always get, for its side does for both
    """
    if request.call.state or request.call.written:
        raise CannotExplore("it keeps its state in buffers that are inputs and outputs of the file")
    if request.given_up:
        raise TooMuch(request.given_up[0])

    first: CannotExplore | None = None
    heeded: set[str] = set()
    for setting, ways in _SETTINGS.items():
        if setting and setting not in heeded:  # all runs would be the same again
            continue
        search = _Search(of_sizes, assumes, one_sided or {}, ways, heeded)
        try:
            with warnings_held() as said:
                found, left_out = _as_free_as_it_goes(request, plan, search)
        except CannotExplore as error:
            whole = _on_all_sides(request, plan, search) if _is_of_sizes(error) else None
            if whole is not None:
                return whole
            first = first or error
            if isinstance(error, TooMuch):
                request.given_up.append(str(error))
            if not isinstance(error, Unlike | Rejected):
                break
        else:
            whole = None if left_out is LeftOut.NOTHING else _on_all_sides(request, plan, search)
            if whole is not None:
                return whole
            if left_out is not LeftOut.HIDDEN:
                warn_again(said)
                return found
            first = first or CannotExplore(
                "it does something else at other sizes, and only with other answers about data"
            )
            break
    assert first is not None
    raise first


def _is_of_sizes(error: CannotExplore) -> bool:
    """Whether a search has failed because of a question about sizes, which was not explored."""
    return isinstance(error, OtherSize) or isinstance(error.__cause__, Frozen)


def _on_all_sides(request: Request, plan: Plan, search: _Search) -> CapturedProgram | None:
    """The program with its branches on sizes, too; None if it cannot be, or if the search was for these."""
    if search.of_sizes:
        return None
    try:
        with warnings_held() as said:
            found, _ = _as_free_as_it_goes(request, plan, dataclasses.replace(search, of_sizes=True, assumes=False))
    except CannotExplore:
        return None
    warn_again(said)
    return found


def _as_free_as_it_goes(request: Request, plan: Plan, search: _Search) -> tuple[CapturedProgram, LeftOut]:
    """With numbers from data varying freely; where the model refuses that, with less and less freedom."""
    free, with_lists, elsewhere = plan, False, plan.sizes
    while True:
        try:
            if elsewhere is not plan.sizes:
                search = dataclasses.replace(search, assumes=False)
            return _explored(request, plan, search, with_lists=with_lists, elsewhere=elsewhere)
        except CannotExplore as error:
            rejected, freedom = error.__cause__, None
            if isinstance(error, Ragged) and plan.freedom.slices_fit and not with_lists:
                plan, with_lists = free, True
                continue
            if isinstance(error, Ragged) and not plan.freedom.slices_fit:
                freedom = dataclasses.replace(plan.freedom, slices_fit=True)
            elif isinstance(rejected, ProbeRejected):
                freedom = rejected.less
            if freedom is None and search.of_sizes and isinstance(rejected, ProbeRejected) and elsewhere is plan.sizes:
                found = congruent(request.example_sizes(), plan.tied, request.space)
                if found is not None:
                    elsewhere = {axis: (start[0], *found[axis][1:]) for axis, start in plan.sizes.items()}
                    continue
            if freedom is None:
                raise
            plan = dataclasses.replace(plan, freedom=freedom)


def _explored(
    request: Request, plan: Plan, search: _Search, *, with_lists: bool, elsewhere: Mapping[str, tuple[int, ...]]
) -> tuple[CapturedProgram, LeftOut]:
    """The program, and what it leaves out at other sizes.

    `elsewhere` are the sizes at the probes of the runs that it is made of.
    """
    seen = dataclasses.replace(plan, sizes=dict(elsewhere))
    said: dict[Any, Said] = {}  # by kind and line: what Python did with values that no decision shows

    def run_once(ways: Ways, sizes: Sizes) -> Raw:
        if sum(request.explored) > _MOST_OF_ALL:
            raise TooMuch("it takes too many runs to see every way through it")
        ways = dataclasses.replace(
            ways, plain_indices=search.ways.plain_indices, asks_of_sizes=search.ways.asks_of_sizes
        )
        raw = _raw(request, seen, ways, sizes, search)
        request.explored.append(len(raw.items))
        if raw.error is None:
            for each in raw.said:
                said.setdefault(_kind(each), each)
        return raw

    longer = _longer(request)
    explorer = Explorer(
        Runs(run_once, longer, _wide(request), request.space.allows),
        lambda sizes: _others(request, sizes),
        _far(request),
        assumed_at=request.example_sizes() if search.assumes else None,
    )
    program = explorer.program()
    if not kept(program.items) and not has_lists(program.items):
        fails = [f"with the other answer the model raises {each}" for each in explorer.unkept.values()]
        if fails:
            raise CannotExplore(fails[0])
        raise NothingToKeep("there is nothing to keep")
    form = program.form

    def instead(tracer: Any, inputs: Sequence[Any]) -> Any:
        return replay(tracer, program, inputs, with_lists=with_lists), form

    try:
        with warnings_held() as again:
            found = run(request, plan, instead=instead)
    except (Frozen, ProbeRejected, Stuck, CannotThaw) as error:
        raise CannotExplore(f"its branches and loops have no form in the file: {error}") from error
    except ExportError as error:
        raise CannotExplore(f"its branches and loops have no form in the file: {error.what}") from error
    more = [each for kind, each in said.items() if kind not in set(map(_kind, again))]
    warn_again((*again, *more))
    notes = tuple(dict.fromkeys(map(_note, kept(program.items))))
    endless = any(isinstance(each, Loop) and each.condition is not None for each in kept(program.items))
    warnings = (*found.warnings, *(text for text, category, _ in more if issubclass(category, CaptureWarning)))
    found = dataclasses.replace(found, remarks=(*found.remarks, *notes), warnings=warnings, may_not_end=endless)
    return found, LeftOut.NOTHING if search.of_sizes else explorer.left_out(program)


def _kind(said: Said) -> tuple[str, Any]:
    """The same for what two runs say of one line, each with its own numbers."""
    text, _, source = said
    return text.split("keeps the example's")[0], source


def _longer(request: Request) -> dict[str, int]:
    """Sizes at which a loop over an axis has some turns."""
    example = request.example_sizes()
    wanted = {axis: max(size, _TURNS_WANTED) if size < _TURNS_WANTED else size for axis, size in example.items()}
    return wanted if request.space.allows(wanted) else example


def _wide(request: Request) -> Sizes:
    """Sizes at which loops inside of each other have some turns, each beginning where the outer one is."""
    example = request.example_sizes()
    wanted = {axis: max(size, _WIDE) for axis, size in example.items()}
    return wanted if request.space.allows(wanted) else example


def _others(request: Request, sizes: Sizes) -> list[Sizes]:
    """Sizes at which a program must be what the model does."""
    found = [{**sizes, axis: size} for axis in sizes for size in (1, 2, 3, 9) if size != sizes[axis]]
    return [each for each in (request.example_sizes(), *found) if each and request.space.allows(each)]


def _far(request: Request) -> list[Sizes]:
    """Sizes of all kinds, at which numbers part that are alike at small sizes: the digits of a size, or its root."""
    example = request.example_sizes()
    points = [{**example, axis: size} for size in _FAR for axis in example]
    elements = sum(each.numel() for each in request.call.tensors)
    return [
        each
        for each in points
        if request.space.allows(each)
        and elements * math.prod(size / max(example[axis], 1) for axis, size in each.items()) <= _MOST_ELEMENTS
    ]


def _note(each: Branch | Loop) -> str:
    """What was kept, for the user to read."""
    where = each.at.source or "an unknown line"
    question = _asked_at(each.at)
    if isinstance(each, Branch) and type(each.predicate) is Flag:
        return f"{where}: leaving the loop early is kept"
    if isinstance(each, Branch):
        return f"{where}: `if {question}` kept as If" if question else f"{where}: `if` kept as If ({each.expression})"
    if each.count is not None:
        return f"{where}: loop kept as Loop"
    return f"{where}: loop kept as Loop ({'while' if each.goes_on else 'until'} {question or each.expression})"


def _asked_at(at: At) -> str:
    """The text of a question in the user's code; nothing where Python does not say at which columns it stands."""
    position = at.place[-1][1] if at.place else None
    if (
        not at.is_question
        or at.source is None
        or not isinstance(position, tuple)
        or position[0] != position[1]
        or None in position
    ):
        return ""
    if position[0] != at.source.line:
        return ""
    line = linecache.getline(at.source.file, position[0]).encode()
    return _tested(line[position[2] : position[3]].decode(errors="replace"))


def _tested(text: str) -> str:
    """The question in a line: of `a if n % 2 else b`, or `if n % 2: ...`, which Python names as a whole, `n % 2`."""
    try:
        found = ast.parse(text.strip()).body[0]
    except (SyntaxError, IndexError):
        return text
    asked = found.value if isinstance(found, ast.Expr) else found
    return ast.unparse(asked.test) if isinstance(asked, (ast.IfExp, ast.If, ast.While)) else text


def _raw(request: Request, plan: Plan, ways: Ways, sizes: Sizes, search: _Search) -> Raw:
    """One run of the model, written down."""
    call = request.call
    start = {axis: beyond(values, sizes.get(axis, values[0])) for axis, values in plan.sizes.items()}
    leaders = {axis: values for axis, values in start.items() if axis not in plan.tied}
    space = request.space.tied(plan.tied)
    tracer = tracer_for(request, leaders, PROBES, space, plan.freedom)
    examples = request.at_sizes({axis: values[0] for axis, values in start.items()})
    elsewhere = [
        request.space.expand({axis: values[probe] for axis, values in start.items()}) for probe in range(1, PROBES)
    ]
    traced = []
    for label, tensor in zip(call.names, examples, strict=True):
        layouts = [layout_at(tensor, request.axes.get(label, {}), each) for each in elsewhere]
        traced.append(tracer.input(label, tensor.clone(), layouts))
    args, kwargs = call.arguments(traced)
    recorder = Recorder(tracer, ways, search.of_sizes, search.one_sided, search.heeded)
    found = Raw([], ())
    with warnings_held() as said:
        try:
            with followed_model(tracer, request.model):
                place_state(tracer, request.model, call, traced)
                tracer.recorder = recorder
                found.inputs = recorder.start(traced)
                leaves, found.form = flatten(_called(request.model, args, kwargs))
                found.results = tuple(recorder.encode(each) for each in leaves)
        except (CannotExplore, KeyboardInterrupt):
            raise
        except Exception as error:
            found.error = error
        finally:
            tracer.recorder = None
            recorder.finish()
    found.items, found.answers, found.said = recorder.items, tuple(recorder.answers), tuple(said)
    found.changing = recorder.variables.changing()
    found.readings = tuple(recorder.readings.made)
    found.sizes, found.has_plain_sizes = recorder.sizes, recorder.has_plain_sizes
    found.counts, found.questions = tuple(recorder.counts), tuple(recorder.questions)
    found.settled, found.shapes, found.is_shaped = recorder.settled, recorder.shapes.made, ways.shapes is not None
    return found


def _called(model: Any, args: Any, kwargs: Any) -> Any:
    return model(*args, **kwargs)
