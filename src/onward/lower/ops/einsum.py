"""Einstein sums: one node where onnxruntime can be trusted with it, and products of matrices elsewhere.

onnxruntime 1.31 adds up integers in doubles, refuses ellipses of different ranks, and divides by zero (the process
dies) where a tensor without elements has to be transposed. So Einsum is written for floats of fixed sizes.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from ..emitter import Emitter, Value
from ..registry import lowers

aten = torch.ops.aten


@lowers(aten.einsum.default, since=12)
def einsum(g: Emitter, equation: str, tensors: Sequence[Value], *, path: Sequence[int] | None = None) -> Value:
    """einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor

    The path is the order of the products; the result does not depend on it. Before opset 12 PyTorch's own decomposition
    is taken.
    """
    values = g.promote(*tensors)
    terms, result = _spelled_out(equation, [g.rank(value) for value in values])
    sizes = [size for value in values for size in g.known_dims(value)]
    if g.dtype(values[0]).is_floating_point and all(isinstance(size, int) and size for size in sizes):
        return g.op.Einsum(*values, equation=f"{','.join(terms)}->{result}")
    first, *others = (_distinct(g, value, term) for value, term in zip(values, terms, strict=True))
    for place, other in enumerate(others, 1):
        needed = {*result, *"".join(other.letters for other in others[place:])}
        first = _product(g, first, other, needed)
    return _arranged(g, _summed(g, first, result), result)


@dataclass(frozen=True)
class _Labeled:
    """A tensor with a letter for each of its axes."""

    value: Value
    letters: str

    def axis(self, letter: str) -> int:
        return self.letters.index(letter)


def _spelled_out(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The terms and the result with a letter for every axis. An ellipsis has its last axes in common with others."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow:
        letters = sorted({c for c in left if c.isalpha() and left.count(c) == 1})
        result = ("..." if "..." in left else "") + "".join(letters)
    widths = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    widest = max((width for term, width in zip(terms, widths, strict=True) if "..." in term), default=0)
    unused = [letter for letter in string.ascii_letters if letter not in equation]
    spare = "".join(unused[:widest])
    spelled = [term.replace("...", spare[widest - width :]) for term, width in zip(terms, widths, strict=True)]
    return spelled, result.replace("...", spare)


def _distinct(g: Emitter, x: Value, letters: str) -> _Labeled:
    """A letter that occurs twice is the diagonal of two axes."""
    once = "".join(dict.fromkeys(letters))
    return _Labeled(x if once == letters else g.op.Einsum(x, equation=f"{letters}->{once}"), once)


def _summed(g: Emitter, x: _Labeled, kept: Collection[str]) -> _Labeled:
    axes = [axis for axis, letter in enumerate(x.letters) if letter not in kept]
    if not axes:
        return x
    return _Labeled(g.reduce("ReduceSum", x.value, axes), "".join(c for c in x.letters if c in kept))


def _arranged(g: Emitter, x: _Labeled, letters: str) -> Value:
    """x with its axes in this order, and axes of size 1 where it has none."""
    order = [x.axis(letter) for letter in letters if letter in x.letters]
    moved = x.value if order == sorted(order) else g.op.Transpose(x.value, perm=order)
    return g.unsqueeze(moved, [axis for axis, letter in enumerate(letters) if letter not in x.letters])


def _without_ones(g: Emitter, x: _Labeled, y: _Labeled) -> _Labeled:
    """x without the axes of size 1 that are stretched to another size in y."""
    sizes, others = g.known_dims(x.value), g.known_dims(y.value)
    ones = [c for c in x.letters if c in y.letters and sizes[x.axis(c)] == 1 and others[y.axis(c)] != 1]
    rest = "".join(letter for letter in x.letters if letter not in ones)
    return _Labeled(g.squeeze(x.value, [x.axis(letter) for letter in ones]), rest)


def _product(g: Emitter, x: _Labeled, y: _Labeled, needed: Collection[str]) -> _Labeled:
    """The product of two tensors, summed over the letters that nobody needs any more."""
    x, y = _without_ones(g, x, y), _without_ones(g, y, x)
    x, y = _summed(g, x, {*y.letters, *needed}), _summed(g, y, {*x.letters, *needed})
    rows = "".join(letter for letter in x.letters if letter not in y.letters)
    columns = "".join(letter for letter in y.letters if letter not in x.letters)
    inner = "".join(letter for letter in x.letters if letter in y.letters and letter not in needed)
    batch = "".join(letter for letter in x.letters if letter in y.letters and letter in needed)
    made = batch + rows + columns
    if not inner:
        return _Labeled(g.op.Mul(_arranged(g, x, made), _arranged(g, y, made)), made)
    left = _grouped(g, _arranged(g, x, batch + rows + inner), len(batch), len(rows), len(inner))
    right = _grouped(g, _arranged(g, y, batch + inner + columns), len(batch), len(inner), len(columns))
    product = g.op.MatMul(left, right)
    if len(rows) == len(columns) == 1:
        return _Labeled(product, made)
    sources = [x if letter in x.letters else y for letter in made]
    sizes = [g.dim_size(each.value, each.axis(letter)) for each, letter in zip(sources, made, strict=True)]
    if len(rows) <= 1 and len(columns) <= 1:
        alone = [len(batch) + place for place, letters in enumerate((rows, columns)) if not letters]
        return _Labeled(g.squeeze(product, alone), made)
    return _Labeled(g.reshape(product, sizes), made)


def _grouped(g: Emitter, x: Value, batch: int, first: int, second: int) -> Value:
    """Behind the axes of the batch, one axis for each of two groups."""
    if second == 0:
        x = g.unsqueeze(x, [batch + first])
    elif second > 1:
        x = g.flatten(x, batch + first, batch + first + second - 1)
    if first == 0:
        return g.unsqueeze(x, [batch])
    return g.flatten(x, batch, batch + first - 1) if first > 1 else x
