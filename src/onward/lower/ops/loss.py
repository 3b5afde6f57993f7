"""Losses that are no plain composition of other operators."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..emitter import Emitter, SizeValue, Value
from ..registry import lowers

aten = torch.ops.aten
Lengths = Value | Sequence[int | SizeValue]


@lowers(aten._ctc_loss.default, aten._ctc_loss.Tensor)
def _ctc_loss(
    g: Emitter,
    log_probs: Value,
    targets: Value,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    zero_infinity: bool = False,
) -> list[Value]:
    """_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0,
    bool zero_infinity=False) -> (Tensor, Tensor)

    The probability of all alignments, step by step through time, in logarithms. A target of n labels has 2n + 1 states:
    blanks around and between its labels. A state is reached from itself, from the one before, and a label also from
    the label before it, if they differ. Of the two results, the second is for the gradient and is not computed.
    """
    labels = _in_rows(g, targets, target_lengths)
    states = _with_blanks(g, labels, blank)
    seen, wanted = (_as_lengths(g, each) for each in (input_lengths, target_lengths))
    time, batch, _ = g.known_dims(log_probs)
    spread = g.expand(g.unsqueeze(states, [0]), [time, batch, g.known_dims(states)[1]])
    emitted = g.gather_elements(log_probs, spread, 2)
    before = _pushed(g, states, 2, g.const(blank))
    skips = g.op.And(g.not_equal(states, g.const(blank)), g.not_equal(states, before))
    last = _through_time(g, emitted, skips, seen)
    ends = g.op.Mul(wanted, g.const(2))
    final = g.gather_elements(last, g.unsqueeze(ends, [1]), 1)
    label = g.gather_elements(last, g.unsqueeze(g.max(g.op.Sub(ends, g.const(1)), g.const(0)), [1]), 1)
    impossible = g.like(last, float("-inf"))
    label = g.where(g.op.Greater(g.unsqueeze(wanted, [1]), g.const(0)), label, impossible)
    return [g.op.Neg(g.squeeze(_log_sum(g, final, label), [1]))]


def _as_lengths(g: Emitter, lengths: Lengths) -> Value:
    return g.cast(lengths, torch.int64) if isinstance(lengths, Value) else g.shape(lengths)


def _in_rows(g: Emitter, targets: Value, lengths: Lengths) -> Value:
    """Targets as [batch, longest]; those in one row, one behind the other, are cut apart."""
    targets = g.cast(targets, torch.int64)
    if g.rank(targets) == 2:
        return targets
    known = [] if isinstance(lengths, Value) else [each for each in lengths if isinstance(each, int)]
    if isinstance(lengths, Value) or len(known) < len(lengths):
        raise g.unsupported("targets in one row, cut apart by lengths that depend on the data; give them as rows")
    places, start = torch.zeros(len(known), max(known, default=0), dtype=torch.int64), 0
    for row, length in enumerate(known):
        places[row, :length] = torch.arange(start, start + length)
        start += length
    return g.op.Gather(targets, g.const_tensor(places), axis=0)


def _with_blanks(g: Emitter, labels: Value, blank: int) -> Value:
    """[batch, n] as [batch, 2n + 1]: a blank before every label and one at the end."""
    batch, count = g.known_dims(labels)
    pairs = g.op.Concat(g.expand(g.const(blank), [batch, count, 1]), g.unsqueeze(labels, [2]), axis=2)
    return g.op.Concat(g.flatten(pairs, 1, 2), g.expand(g.const(blank), [batch, 1]), axis=1)


def _pushed(g: Emitter, x: Value, places: int, filler: Value) -> Value:
    """Rows moved to the right by some places."""
    batch, count = g.known_dims(x)
    longer = g.op.Concat(g.expand(filler, [batch, places]), x, axis=1)
    return g.annotate(g.slice(longer, [0], [g.dim_size(x, 1)], [1]), (batch, count))


def _through_time(g: Emitter, emitted: Value, skips: Value, seen: Value) -> Value:
    """The probability of every state at the end of each sequence [batch, states], from what each step emits."""
    dtype, (_, batch, count) = g.dtype(emitted), g.known_dims(emitted)
    places = g.arange(0, g.dim_size(emitted, 2))
    # Before the first step a sequence is one place before its first blank: both first states are reached from there.
    start = g.where(g.op.Less(places, g.const(1)), g.const(0.0, dtype), g.const(float("-inf"), dtype))
    start = g.expand(start, [batch, count])
    body = g.subgraph("step")
    state = body.input("state", dtype, (batch, count))
    now, number = body.input("emitted", dtype, (batch, count)), body.input("number", torch.int64, ())
    none = body.const(float("-inf"), dtype)
    moved = _log_sum(body, state, _pushed(body, state, 1, none))
    jumped = body.where(skips, _pushed(body, state, 2, none), none)
    reached = body.op.Add(_log_sum(body, moved, jumped), now)
    goes_on = body.op.Less(number, body.unsqueeze(seen, [1]))
    following = body.where(goes_on, reached, state)
    numbers = g.arange(0, g.dim_size(emitted, 0))
    found = g.node("Scan", [start, emitted, numbers], {"body": body.graph([following]), "num_scan_inputs": 2})
    return g.annotate(found, (batch, count), dtype)


def _log_sum(g: Emitter, x: Value, y: Value) -> Value:
    """log(exp(x) + exp(y)), also where both are minus infinity."""
    top = g.max(x, y)
    impossible = g.equal(top, g.like(top, float("-inf")))
    base = g.where(impossible, g.like(top, 0), top)
    total = g.op.Add(g.op.Exp(g.op.Sub(x, base)), g.op.Exp(g.op.Sub(y, base)))
    return g.op.Add(g.op.Log(total), base)
