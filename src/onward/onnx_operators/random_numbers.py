"""Operators that draw random numbers: the same inputs do not give the same results."""

from __future__ import annotations

import onnx_ir as ir

from .record import RECORDS, Record, record
from .seen_node import SeenNode
from .shared_rules import Keeps, Moves


@record("Bernoulli", "Multinomial", "RandomNormal", "RandomUniform")
class Draws(Record):
    """Numbers that are drawn anew in every run."""

    random = True


@record("RandomNormalLike", "RandomUniformLike")
class DrawsLike(Draws, Keeps):
    """Numbers that are drawn anew in every run, as many as another tensor has."""


@record("Dropout")
class Dropout(Moves, Keeps):
    """Elements are dropped in training, and nothing happens otherwise."""

    random = True

    def repeats(self, node: SeenNode) -> ir.Value | None:
        """Without training there is nothing to drop; up to opset 11 a file cannot ask for training at all."""
        if node.opset < 7:
            return None
        training = node.inputs[2] if node.opset >= 12 and len(node.inputs) > 2 else None
        return node.inputs[0] if training is None or node.numbers(training) == [0] else None

    def draws(self, node: ir.Node) -> bool:
        """A Dropout in training. Before opset 12 nothing in the file says so; a node whose ratio is an attribute may
        be one."""
        if len(node.inputs) < 3:
            return "ratio" in node.attributes
        training = node.inputs[2]
        if training is None:
            return False
        return training.const_value is None or bool(training.const_value.numpy())


RANDOM = frozenset(name for (domain, name), each in RECORDS.items() if each.random and not domain)
