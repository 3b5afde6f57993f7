"""Turns of a loop, laid one upon the other, and programs held against runs."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

from onward.capture.explore.acceptance import accept
from onward.capture.explore.items import (
    Calc,
    Item,
    Last,
    Loop,
    Piece,
    Raw,
    Ref,
    Rejected,
    SizeOf,
    Star,
    TooFew,
    Unlike,
    item_changed,
)
from onward.capture.explore.loops import Roll
from onward.capture.explore.repeats import with_loops_over_lists

from .programs import at, aten, names, op, program, run, turn

X, START = 0, 1
COUNT = SizeOf(X, 0)


def sums(turns: int, *, first: int = 10, state: int = START) -> list[list[Item]]:
    """Turns of `y = state * x; state = state + y`."""
    found: list[list[Item]] = []
    for place in range(first, first + 2 * turns, 2):
        found.append([op(1, place, state, X, target=aten.mul.Tensor), op(2, place + 1, state, place)])
        state = place + 1
    return found


def marked(bodies: list[list[Item]], loop: int = 1) -> list[Item]:
    """The turns as a run has them."""
    found: list[Item] = []
    for number, body in enumerate(bodies):
        found += [turn(loop, number, COUNT), *body]
    return [*found, turn(loop, len(bodies), COUNT, is_end=True)]


def rolled(bodies: list[list[Item]], rest: list[Item], *results: Any) -> tuple[Roll, Loop, list[Any]]:
    roll = Roll(bodies, {X, START}, 500, names())
    roll.look(rest, results, at(9))
    after = [roll.after(each) for each in results]
    loop = roll.loop(count=COUNT, condition=None, going=None, goes_on=True, at=at(1001), expression="")
    return roll, loop, after


def test_what_the_turn_before_has_made_is_carried() -> None:
    _, loop, (result,) = rolled(sums(4), [], Ref(17))
    assert loop.start == (Ref(START),)
    assert loop.nexts == (Ref(loop.body[1].outs[0]),)  # type: ignore[union-attr]
    assert result == Ref(loop.outs[0])
    for turns in (0, 1, 2, 7):
        last = 9 + 2 * turns if turns else START
        accept(program([loop], result, inputs=(X, START)), run(marked(sums(turns)), Ref(last), inputs=(X, START)))


def test_a_run_that_carries_something_else_is_rejected() -> None:
    _, loop, (result,) = rolled(sums(4), [], Ref(17))
    other = sums(3)
    other[2][0] = op(1, 14, 11, X, target=aten.mul.Tensor)  # the state of the turn before the last
    with pytest.raises(Rejected):
        accept(program([loop], result, inputs=(X, START)), run(marked(other), Ref(15), inputs=(X, START)))


def test_two_turns_show_too_little() -> None:
    with pytest.raises(TooFew):
        rolled(sums(2), [], Ref(13))


@pytest.mark.parametrize("backwards", [False, True])
def test_a_list_may_hold_two_values_of_every_turn(backwards: bool) -> None:
    def listed(turns: int) -> list[Any]:
        found = [Ref(value) for place in range(10, 10 + 2 * turns, 2) for value in (place, place + 1)]
        return found[::-1] if backwards else found

    _, loop, (result,) = rolled(sums(4), [], listed(4))
    (star,) = result
    assert type(star) is Star and star.backwards is backwards and len(star.names) == 2
    accept(program([loop], result, inputs=(X, START)), run(marked(sums(2)), listed(2), inputs=(X, START)))
    with pytest.raises(Rejected):
        accept(program([loop], result, inputs=(X, START)), run(marked(sums(2)), listed(2)[::-1], inputs=(X, START)))


def growing(turns: int) -> list[list[Item]]:
    """Turns of `states.append(states[0] + stack(states))`."""
    found: list[list[Item]] = []
    for number in range(turns):
        past = [Ref(START), *(Ref(11 + 2 * each) for each in range(number))]
        place = 10 + 2 * number
        found.append([op(1, place, past, target=aten.stack.default), op(2, place + 1, START, place)])
    return found


def test_a_list_that_grows_holds_what_all_turns_before_have_made() -> None:
    roll, loop, (result,) = rolled(growing(4), [], Ref(17))
    ((name, inside),) = loop.pasts
    stacked = loop.body[0]
    assert stacked.args == ([Ref(START), Star(name)],)  # type: ignore[union-attr]
    assert inside == Ref(loop.body[1].outs[0])  # type: ignore[union-attr]
    whole = program([loop, *roll.lasts()], result, inputs=(X, START))
    accept(whole, run(marked(growing(6)), Ref(21), inputs=(X, START)))
    wrong = growing(6)
    wrong[3][0] = op(1, 16, [Ref(START), Ref(11), Ref(15), Ref(13)], target=aten.stack.default)
    with pytest.raises(Rejected):
        accept(whole, run(marked(wrong), Ref(21), inputs=(X, START)))


def test_a_list_that_grows_by_something_else_is_none() -> None:
    bodies = growing(4)
    bodies[2][0] = op(1, 14, [Ref(START), Ref(13), Ref(11)], target=aten.stack.default)
    with pytest.raises(Unlike, match="grows"):
        rolled(bodies, [], Ref(17))


def test_what_was_carried_into_the_last_turn_is_carried_itself() -> None:
    roll = Roll(sums(4), {X, START}, 500, names())
    roll.starts = {15: Ref(X)}  # what stands there if there is no turn
    roll.look([], Ref(15), at(9))
    result = roll.after(Ref(15))
    loop = roll.loop(count=COUNT, condition=None, going=None, goes_on=True, at=at(1001), expression="")
    whole = program([loop], result, inputs=(X, START))
    for turns, value in ((0, X), (1, START), (2, 11), (6, 19)):
        accept(whole, run(marked(sums(turns)), Ref(value), inputs=(X, START)))


# --- loops over lists ------------------------------------------------------------------------------------------------
def listing(turns: int, over: range | None = None) -> tuple[list[Item], Ref]:
    """A loop that leaves a value in every turn, and then `for each in values: total = total + each`."""
    items = marked([[op(1, 10 + number, X, X)] for number in range(turns)])
    total = START
    for number in range(turns) if over is None else over:
        items.append(op(5, 100 + number, total, 10 + number))
        total = 100 + number
    return items, Ref(total)


def folded(items: list[Item], result: Any) -> tuple[list[Item], Any]:
    """The first loop of a run rolled, and then those over its list."""
    lengths: dict[int, int] = {}
    fresh = names()
    end = next(place for place, each in enumerate(items) if getattr(each, "is_end", False))
    bodies = [[each] for each in items[:end] if not hasattr(each, "is_end")]
    roll = Roll(bodies, {X, START}, 500, fresh, lengths)
    roll.look(items[end + 1 :], result, at(9))
    rest = [item_changed(each, roll.after, roll.same_name) for each in items[end + 1 :]]
    results = roll.after(result)
    loop = roll.loop(count=COUNT, condition=None, going=None, goes_on=True, at=at(1001), expression="")
    return with_loops_over_lists([loop, *roll.lasts(), *rest], results, {X, START}, lengths, fresh)


@pytest.mark.parametrize("backwards", [False, True])
def test_going_through_a_list_is_a_loop(backwards: bool) -> None:
    def made(turns: int) -> tuple[list[Item], Ref]:
        return listing(turns, range(turns)[::-1] if backwards else None)

    items, result = folded(*made(5))
    loops = [each for each in items if isinstance(each, Loop)]
    assert [each.is_silent for each in loops] == [False, True]
    for turns in (1, 2, 9):
        seen, last = made(turns)
        accept(program(items, result, inputs=(X, START)), run(seen, last, inputs=(X, START)))
    seen, last = listing(7, range(6))  # one value fewer than there are
    with pytest.raises(Rejected):
        accept(program(items, result, inputs=(X, START)), run(seen, last, inputs=(X, START)))


def test_a_loop_may_leave_out_the_first_value() -> None:
    items, result = folded(*listing(6, range(1, 6)))
    silent = next(each for each in items if isinstance(each, Loop) and each.is_silent)
    assert silent.count == Calc(operator.sub, (SizeOf(_only_list(items), 0), 1))
    seen, last = listing(3, range(1, 3))
    accept(program(items, result, inputs=(X, START)), run(seen, last, inputs=(X, START)))


def _only_list(items: list[Item]) -> int:
    (loop,) = [each for each in items if isinstance(each, Loop) and not each.is_silent]
    ((name, _),) = loop.stacked
    return name


def test_values_taken_in_no_order_are_no_loop() -> None:
    seen = marked([[op(1, 10 + number, X, X)] for number in range(5)])
    total = START
    for number in (0, 2, 1, 4, 3):
        seen.append(op(5, 100 + number, total, 10 + number))
        total = 100 + number
    items, _ = folded(seen, Ref(total))
    assert not any(isinstance(each, Loop) and each.is_silent for each in items)


# --- what a run says plainly -----------------------------------------------------------------------------------------
def sized(size: Any) -> Raw:
    return run([op(1, 5, X, size, target=aten.mul.Tensor)], Ref(5), sizes={X: (3, 2)})


def test_a_size_may_be_a_plain_number_where_no_axis_is_followed() -> None:
    whole = program([op(1, 7, X, COUNT, target=aten.mul.Tensor)], Ref(7))
    accept(whole, sized(SizeOf(X, 0)))
    plain = run([op(1, 5, X, target=aten.mul.Tensor)], Ref(5), sizes={X: (3, 2)})
    for number, is_right in ((3, True), (2, False)):
        seen = plain.items[0]
        plain.items[0] = type(seen)(seen.target, (Ref(X), number), {}, (5,), seen.at)  # type: ignore[union-attr, call-arg]
        if is_right:
            accept(whole, plain)
        else:
            with pytest.raises(Rejected):
                accept(whole, plain)


def test_the_last_of_no_values_is_rejected() -> None:
    loop = rolled(sums(4), [], [Ref(10), Ref(12), Ref(14), Ref(16)])[1]
    ((name, _),) = loop.stacked
    whole = program([loop, Last(name, -1, 77, at(9))], Ref(77), inputs=(X, START))
    accept(whole, run(marked(sums(2)), Ref(12), inputs=(X, START)))
    with pytest.raises(Rejected, match="no turn"):
        accept(whole, run(marked([]), Ref(START), inputs=(X, START)))


def test_pieces_of_a_plain_axis_are_those_of_a_list() -> None:
    unbind = op(1, 7, X, target=torch.ops.aten.unbind.int)
    split = type(unbind)(unbind.target, unbind.args, {}, (None, None), unbind.at, 7)
    plain = type(unbind)(unbind.target, unbind.args, {}, (20, 21), unbind.at)
    whole = program([split], Piece(7, 1))
    accept(whole, run([plain], Ref(21)))
    with pytest.raises(Rejected):
        accept(whole, run([plain], Ref(20)))
