"""Packed sequences: layers that stop at the length of each sequence."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence

import onward
from onward.verify import Session, compare

from ..harness import NEWEST, case, check, f32, floats, run

FEW = (9, 13, 17, 20, NEWEST)
BATCH_FIRST = {0: {0: "batch", 1: "time"}, 1: {0: "batch"}}
TIME_FIRST = {0: {1: "batch", 0: "time"}, 1: {0: "batch"}}
KINDS = ("LSTM", "GRU", "RNN")
LENGTHS = torch.tensor([3, 6, 1, 6])
x = f32(4, 6, 4)
time_first = f32(6, 4, 4)


def lengths_up_to(most, batch):
    """Unsorted, some equal, and none as long as the padded tensor where it can be avoided."""
    return torch.tensor([(5 * i + 2) % most + 1 for i in range(batch)]).clamp(max=max(1, most - 1))


def at(size, *, batch_axis=0, states=0, dtype=torch.float32, directions=1):
    batch, time = size, size + 3
    shape = (batch, time, 4) if batch_axis == 0 else (time, batch, 4)
    given = [floats(directions, batch, 5, seed=i, dtype=dtype) for i in range(states)]
    return [floats(*shape, dtype=dtype), lengths_up_to(time, batch), *given]


def layer(kind, *args, dtype=torch.float32, **kwargs):
    torch.manual_seed(0)
    return getattr(nn, kind)(*args, **kwargs).to(dtype)


class Packed(nn.Module):
    """Pack, a layer, unpack."""

    def __init__(self, inner, total=None, value=0.0, is_sorted=False):
        super().__init__()
        self.inner, self.total, self.value, self.is_sorted = inner, total, value, is_sorted

    def forward(self, x, lengths, *states):
        first = self.inner.batch_first
        if self.is_sorted:
            lengths = lengths.sort(descending=True).values
        packed = pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=self.is_sorted)
        given = (states if isinstance(self.inner, nn.LSTM) else states[0]) if states else None
        output, after = self.inner(packed, given)
        total = x.shape[1 if first else 0] if self.total == "all" else self.total
        return *pad_packed_sequence(output, first, self.value, total), after


def packed(name, inner, *, opsets=(9, 17), states=0, dtype=torch.float32, **kwargs):
    first, directions = inner.batch_first, (2 if inner.bidirectional else 1) * inner.num_layers
    given = [floats(directions, 4, 5, seed=i, dtype=dtype) for i in range(states)]
    axes = {**(BATCH_FIRST if first else TIME_FIRST), **{2 + i: {1: "batch"} for i in range(states)}}

    def inputs_at(size):
        return at(size, batch_axis=0 if first else 1, states=states, dtype=dtype, directions=directions)

    sequences = floats(*((4, 6, 4) if first else (6, 4, 4)), dtype=dtype)
    module = Packed(inner, **kwargs)
    return case(name, module, [sequences, LENGTHS, *given], dynamic=axes, inputs_at=inputs_at, opsets=opsets)


def _each_kind(kind):
    both = {"num_layers": 2, "bidirectional": True}
    states = 2 if kind == "LSTM" else 1
    return [
        packed("batch first", layer(kind, 4, 5, batch_first=True), opsets=FEW),
        packed("time first", layer(kind, 4, 5)),
        packed("two layers, both directions", layer(kind, 4, 5, batch_first=True, **both)),
        packed("sorted", layer(kind, 4, 5, batch_first=True, **both), is_sorted=True, opsets=(13, 20)),
        packed("to the padded length", layer(kind, 4, 5, batch_first=True), total="all"),
        packed("to a fixed length", layer(kind, 4, 5), total=11),
        packed("another padding value", layer(kind, 4, 5, batch_first=True), value=-2.5),
        packed("initial states", layer(kind, 4, 5, batch_first=True), states=states),
        packed("initial states, both directions", layer(kind, 4, 5, **both), states=states),
        packed("float64", layer(kind, 4, 5, batch_first=True, dtype=torch.float64, **both), dtype=torch.float64,
               states=states, opsets=(9, 17)),
        packed("no biases, hidden size 1", layer(kind, 4, 1, bias=False, bidirectional=True)),
    ]  # fmt: skip


MATRIX = f32(5, 4)
INNER = {
    "one": layer("GRU", 4, 5),
    "two": layer("LSTM", 4, 5, num_layers=2),
    "both": layer("LSTM", 4, 5, bidirectional=True),
    "same": layer("GRU", 4, 4),
    "second": layer("GRU", 10, 3),
    "batch first": layer("GRU", 4, 5, batch_first=True),
    "wide": layer("LSTM", 5, 3, bidirectional=True),
}


def _constant_lengths(x):
    output, (last, _) = INNER["both"](pack_padded_sequence(x, [5, 3, 1]))
    return *pad_packed_sequence(output), last


def _computed_lengths(x, tokens):
    output, last = INNER["batch first"](pack_padded_sequence(x, (tokens > 0).sum(1), True, enforce_sorted=False))
    return *pad_packed_sequence(output, True), last


def _without_a_layer(x, lengths):
    return pad_packed_sequence(pack_padded_sequence(x, lengths, True, enforce_sorted=False), True)


def _rows(x, lengths):
    """Rows in the order of the lengths: which of two equally long sequences comes first is open, so they are summed."""
    sequence = pack_padded_sequence(x, lengths, True, enforce_sorted=False)
    return sequence.data.sum(0), sequence.batch_sizes


def _changed_rows(x, lengths):
    sequence = pack_padded_sequence(x, lengths, True, enforce_sorted=False)
    wider = nn.functional.linear(sequence.data, MATRIX)
    changed = PackedSequence(wider, sequence.batch_sizes, sequence.sorted_indices, sequence.unsorted_indices)
    output, (last, _) = INNER["wide"](changed)
    return *pad_packed_sequence(output._replace(data=output.data.relu()), True), last


def _two_layers(x, lengths):
    middle, _ = INNER["both"](pack_padded_sequence(x, lengths, True, enforce_sorted=False))
    output, last = INNER["second"](middle)
    return *pad_packed_sequence(output, True), last


def _pack_sequence(x, y):
    output, last = INNER["one"](pack_sequence([x, y, x[:2]], enforce_sorted=False))
    return *pad_packed_sequence(output), last


def _packed_input(data, sizes):
    output, (last, _) = INNER["two"](PackedSequence(data, sizes))
    return output.data, *pad_packed_sequence(output), last


def _packed_inputs_at(size):
    made = pack_padded_sequence(f32(size, 7, 4), lengths_up_to(7, size).sort(descending=True).values, True)
    return [made.data, made.batch_sizes]


def _tokens(size):
    return [f32(size, size + 2, 4), (torch.arange(size + 2) <= torch.arange(size)[:, None] % 3).long() * 7]


OTHERS = [
    packed("relu", layer("RNN", 4, 5, 2, nonlinearity="relu", bidirectional=True)),
    packed("projection", layer("LSTM", 4, 5, 2, proj_size=3, bidirectional=True, batch_first=True)),
    case("constant lengths", _constant_lengths, [f32(5, 3, 4)], opsets=(9, 17)),
    case("constant lengths, dynamic time", _constant_lengths, [f32(6, 3, 4)], dynamic={0: {0: "time"}}, sizes=(5, 9),
         opsets=(9, 17)),
    case("computed lengths", _computed_lengths, _tokens(4), dynamic={0: BATCH_FIRST[0], 1: BATCH_FIRST[0]},
         inputs_at=_tokens, opsets=(11, NEWEST)),
    case("no layer between", _without_a_layer, [x, LENGTHS], dynamic=BATCH_FIRST, inputs_at=at, opsets=(9, 17)),
    case("rows", _rows, [x, LENGTHS], dynamic=BATCH_FIRST, inputs_at=at, opsets=(10, 17)),
    case("changed rows", _changed_rows, [x, LENGTHS], dynamic=BATCH_FIRST, inputs_at=at, opsets=(11, 20)),
    case("two layers", _two_layers, [x, LENGTHS], dynamic=BATCH_FIRST, inputs_at=at, opsets=(9, 17)),
    case("pack_sequence", _pack_sequence, [f32(5, 4), f32(3, 4, seed=1)], dynamic={0: {0: "one"}, 1: {0: "two"}},
         sizes=(2, 6), opsets=(9, 17)),
    case("pad_sequence", lambda x, y: pad_sequence([x, y, x[1:]], padding_value=2.0), [f32(5, 4), f32(3, 4, seed=1)],
         dynamic={0: {0: "one"}, 1: {0: "two"}}, sizes=(2, 6), opsets=(9, 17)),
    case("pad_sequence on the left", lambda x, y: pad_sequence([x, y], True, padding_side="left"),
         [f32(5, 4), f32(3, 4, seed=1)], dynamic={0: {0: "one"}, 1: {0: "two"}}, sizes=(2, 6), opsets=(9, 17)),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", [pytest.param(each, id=f"{kind} {each}") for kind in KINDS for each in _each_kind(kind)]
)
def test_kind(case):
    run(case)


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_case(case):
    run(case)


def _export(function, args, axes, opset=17):
    names = [f"in_{place}" for place in range(len(args))]
    return onward.export(function, tuple(args), input_names=names, dynamic_axes=axes, opset_version=opset)


def test_packed_rows_can_be_inputs():
    program = _export(_packed_input, _packed_inputs_at(4), {"in_0": {0: "rows"}, "in_1": {0: "time"}})
    session = Session(program.model)
    for batch in (4, 1, 7):
        given = _packed_inputs_at(batch)
        for want, got in zip(_packed_input(*given), session.run(given), strict=True):
            assert compare(want, got, "output").ok


def test_lengths_are_one_more_input_of_the_layer():
    """No sorting, no packing: the output is cut to the longest sequence."""
    model = check(packed("LSTM", layer("LSTM", 4, 5)), 17)
    assert [node.op_type for node in model.graph.node] == [
        "ReduceMax",
        "Cast",
        "LSTM",
        "Squeeze",
        "Reshape",
        "Slice",
        "Identity",
    ]
    whole = check(packed("LSTM", layer("LSTM", 4, 5), total="all"), 17)
    assert [node.op_type for node in whole.graph.node] == ["Cast", "LSTM", "Squeeze", "Identity"]


def test_added_to_its_input_the_output_is_as_long():
    """Where that is not so, PyTorch refuses the sum."""

    def residual(x, lengths):
        output, _ = INNER["same"](pack_padded_sequence(x, lengths, enforce_sorted=False))
        return x + pad_packed_sequence(output)[0]

    axes = {"in_0": {0: "time", 1: "batch"}, "in_1": {0: "batch"}}
    with pytest.warns(onward.CaptureWarning, match="takes them to be as long as the longest of them.*total_length"):
        program = _export(residual, [time_first, LENGTHS], axes)
    others = [f32(9, 3, 4), torch.tensor([2, 9, 5])]
    assert compare(residual(*others), Session(program.model).run(others)[0], "output").ok


def test_what_pytorch_refuses_is_refused():
    with pytest.raises(onward.CaptureError, match="must be sorted in decreasing order"):
        _export(lambda x, lengths: pack_padded_sequence(x, lengths).data, [time_first, LENGTHS], {})
    with pytest.raises(onward.CaptureError, match="Expected total_length to be at least"):
        _export(Packed(layer("GRU", 4, 5), total=2), [time_first, LENGTHS], {})
    with pytest.raises(onward.CaptureError, match="must have the same dtype|input.size|Expected"):
        _export(Packed(layer("GRU", 3, 5)), [time_first, LENGTHS], {})


def test_pytorchs_functions_are_as_they_were():
    functions = (rnn.pack_padded_sequence, rnn.pad_packed_sequence, nn.LSTM.check_forward_args)
    before = [(each.__code__, set(each.__globals__)) for each in functions]
    _export(Packed(layer("LSTM", 4, 5)), [time_first, LENGTHS], {})
    assert [(each.__code__, set(each.__globals__)) for each in functions] == before


def test_another_thread_packs_as_always():
    seen = []

    def elsewhere():
        sequence = pack_padded_sequence(x, LENGTHS, True, enforce_sorted=False)
        seen.append(pad_packed_sequence(INNER["batch first"](sequence)[0], True)[0])

    def model(given, lengths):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return given + 1

    _export(model, [x, LENGTHS], {})
    elsewhere()
    assert len(seen) == 2 and torch.equal(*seen)


def test_no_warning_is_given():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = _export(
            Packed(layer("LSTM", 4, 5)), [time_first, LENGTHS], {"in_0": {0: "time", 1: "batch"}, "in_1": {0: "batch"}}
        )
    assert program.verify().ok
