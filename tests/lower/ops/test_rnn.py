"""Recurrent layers and cells."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import onward
from tests.opsets import NEWEST

from ..harness import SOME_OPSETS, case, check, f32, floats, run

FEW = (9, 11, 13, 14, 22, NEWEST)
SEQUENCE = {0: {0: "length", 1: "batch"}}
BATCH_FIRST = {0: {0: "batch", 1: "length"}}
KINDS = ("LSTM", "GRU", "RNN")
x = f32(3, 2, 4)


def layer(kind, *args, dtype=torch.float32, **kwargs):
    torch.manual_seed(0)
    return getattr(nn, kind)(*args, **kwargs).to(dtype)


def only(place, module):
    return lambda x: module(x)[place]


def _each_kind(kind):
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    given = {0: SEQUENCE[0], **{1 + i: {1: "batch"} for i in range(len(states))}}

    def with_states(module):
        return lambda x, *states: module(x, states if kind == "LSTM" else states[0])

    both = {"num_layers": 2, "bidirectional": True}
    return [
        case("plain", layer(kind, 4, 5), [x], dynamic=SEQUENCE),
        case("two layers, both directions", layer(kind, 4, 5, **both), [x], dynamic=SEQUENCE, opsets=SOME_OPSETS),
        case("batch first", layer(kind, 4, 5, batch_first=True), [x], dynamic=BATCH_FIRST, opsets=FEW),
        case("batch first, both", layer(kind, 4, 5, batch_first=True, **both), [x], dynamic=BATCH_FIRST, opsets=FEW),
        case("no biases", layer(kind, 4, 5, bias=False), [x], dynamic=SEQUENCE, opsets=FEW),
        case("initial states", with_states(layer(kind, 4, 5)),
             [x, *(f32(1, 2, 5, seed=i) for i, _ in enumerate(states))], dynamic=given, opsets=FEW),
        case("initial states, both", with_states(layer(kind, 4, 5, **both)),
             [x, *(f32(4, 2, 5, seed=i) for i, _ in enumerate(states))], dynamic=given, opsets=FEW),
        case("no batch axis", layer(kind, 4, 5, num_layers=2), [f32(3, 4)], dynamic={0: {0: "length"}}, opsets=FEW),
        case("dropout", layer(kind, 4, 5, num_layers=2, dropout=0.5), [x], opsets=FEW),
        case("the output alone", only(0, layer(kind, 4, 5, **both)), [x], opsets=FEW),
        case("the last state alone", only(1, layer(kind, 4, 5, **both)), [x], opsets=FEW),
        case("float16", layer(kind, 4, 5, dtype=torch.float16), [floats(3, 2, 4, dtype=torch.float16)], opsets=FEW),
        case("float64", layer(kind, 4, 5, dtype=torch.float64, **both), [floats(3, 2, 4, dtype=torch.float64)],
             dynamic=SEQUENCE, opsets=FEW),
        case("cell", layer(f"{kind}Cell", 4, 5), [f32(3, 4)], dynamic={0: {0: "batch"}}, opsets=FEW),
        case("cell without biases", layer(f"{kind}Cell", 4, 5, bias=False), [f32(3, 4)], opsets=FEW),
    ]  # fmt: skip


def _weights_as_inputs(x, *weights):
    zeros = torch.zeros(1, x.shape[1], 5)
    return torch.lstm(x, (zeros, zeros), weights, True, 1, 0.0, False, False, False)


OTHERS = [
    case("relu", layer("RNN", 4, 5, 2, nonlinearity="relu", bidirectional=True), [x], dynamic=SEQUENCE,
         opsets=SOME_OPSETS),
    case("relu cell", layer("RNNCell", 4, 5, nonlinearity="relu"), [f32(3, 4)], opsets=FEW),
    case("projection", layer("LSTM", 4, 5, 2, proj_size=3, bidirectional=True), [x], dynamic=SEQUENCE, opsets=FEW),
    case("projection, batch first", layer("LSTM", 4, 5, proj_size=3, bias=False, batch_first=True), [x],
         dynamic=BATCH_FIRST, opsets=FEW),
    case("weights that are inputs", _weights_as_inputs, [x, f32(20, 4), f32(20, 5), f32(20), f32(20, seed=1)],
         dynamic={0: {0: "length"}}, opsets=FEW),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", [pytest.param(each, id=f"{kind} {each}") for kind in KINDS for each in _each_kind(kind)]
)
def test_kind(case):
    run(case)


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_case(case):
    run(case)


def test_four_layers_in_both_directions_are_four_nodes():
    """Per layer the node and what puts the directions side by side; the states are joined once."""
    model = check(case("BiLSTM", layer("LSTM", 4, 5, 4, bidirectional=True), [x], dynamic=SEQUENCE), 17)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds == ["LSTM", "Transpose", "Reshape"] * 4 + ["Concat", "Concat"]


def test_a_layer_used_twice_is_stored_once():
    module = layer("LSTM", 4, 4)
    once = check(case("once", lambda x: module(x)[0], [x]), 17)
    twice = check(case("twice", lambda x: module(module(x)[0])[0], [x]), 17)
    assert len(twice.graph.initializer) == len(once.graph.initializer)


@pytest.mark.parametrize("opset", [9, 17])
def test_dropout_between_layers_in_training(opset):
    module = layer("LSTM", 4, 5, num_layers=3, dropout=0.5)

    def trained(x):
        return torch.lstm(x, [torch.zeros(3, 2, 5)] * 2, module._flat_weights, True, 3, 0.5, True, False, False)

    program = onward.export(trained, x, opset_version=opset)
    assert [node.op_type for node in program.model.graph].count("Dropout") == 2  # none after the last layer
    assert program.verify().ok
