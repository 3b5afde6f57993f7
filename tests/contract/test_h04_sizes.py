"""H4: decisions on sizes: right at every size asked for, or an error or a warning that names the line.

A row is a model in plain Python, the example, the axes, and the sizes at which some exporter went wrong without a word.
The file is judged by onnxruntime against PyTorch at those sizes.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor as whole
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onward

from .running import run

RIGHT = "right"  # at all sizes, and nothing is said
TOLD = "told"  # wrong or refused at some sizes, and a warning names the line
REFUSED = "refused"  # an error names the line
ORDER = (RIGHT, TOLD, REFUSED)


@dataclass(frozen=True)
class Row:
    """A model, its example, and the sizes of the named axes that it is judged at.

    shapes   of the inputs, with the names of dynamic axes in place of sizes
    example  the size of each named axis in the example
    sizes    what the named axes are in the runs, in the order of `example`
    verdict  RIGHT, TOLD or REFUSED: what an export without verification comes to, at worst
    """

    model: Callable[..., Any]
    shapes: Sequence[tuple[int | str, ...]]
    example: Mapping[str, int]
    sizes: Sequence[int | tuple[int, ...]]
    verdict: str = RIGHT

    def inputs(self, sizes: Mapping[str, int]) -> tuple[Tensor, ...]:
        return tuple(torch.randn([sizes.get(each, each) for each in shape]) for shape in self.shapes)  # type: ignore

    def axes(self) -> dict[str, dict[int, str]]:
        names = [f"input_{place}" for place in range(len(self.shapes))]
        named = ({i: each for i, each in enumerate(shape) if isinstance(each, str)} for shape in self.shapes)
        return dict(zip(names, named, strict=True))


def judge(row: Row, path: Path, *, verify: bool) -> str:
    """RIGHT, TOLD or REFUSED; what is wrong without a word raises."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            onward.export(
                row.model,
                row.inputs(row.example),
                path,
                input_names=list(row.axes()),
                dynamic_axes=row.axes(),
                verify=verify,
            )
        except onward.VerifyError:
            assert verify
            return REFUSED
        except onward.ExportError as error:
            assert __file__ in str(error), f"no line of this file is named:\n{error}"
            return REFUSED
    told = [each.filename for each in caught if issubclass(each.category, onward.CaptureWarning)]
    for sizes in row.sizes:
        given = sizes if isinstance(sizes, tuple) else (sizes,)
        inputs = row.inputs(dict(zip(row.example, given, strict=True)))
        try:
            _compare(row.model, inputs, path)
        except Exception as error:
            assert __file__ in told, f"wrong at {given} without a word:\n{error}"
    return TOLD if told else RIGHT


def _compare(model: Callable[..., Any], inputs: Sequence[Tensor], path: Path) -> None:
    wanted = model(*inputs)
    outputs = run(path, inputs)
    for got, want in zip(outputs, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        torch.testing.assert_close(got, torch.as_tensor(want, dtype=got.dtype), rtol=1e-5, atol=1e-5)


def _of_rows(model: Callable[[Tensor], Any], *sizes: int, example: int = 4, verdict: str = RIGHT) -> Row:
    """A row for a matrix with a dynamic number of rows."""
    return Row(model, [("n", 3)], {"n": example}, sizes or SIZES, verdict)


SIZES = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 20, 31, 32, 37, 63, 64, 65, 100, 101, 128, 384, 512, 513, 1024)


# --- 1: formulas -----------------------------------------------------------------------------------------------------
def _three_strides(x: Tensor) -> Tensor:
    """As Moonshine works out how many frames there are."""
    n = x.shape[0] + 700
    for window, stride in ((127, 64), (7, 3), (3, 2)):
        n = int((n - window) / stride + 1)
    return x * n


_SIDES = (1, 2, 6, 15, 16, 17, 18, 22, 40)


def _root_behind_a_branch(x: Tensor) -> Tensor:
    return x * math.sqrt(x.shape[0] - 16) if x.shape[0] > 16 else x + 1


def _longer_than_trained(x: Tensor) -> Tensor:
    """Rotary embeddings with a base that follows the length, where it is more than was trained with."""
    length, base = x.shape[0], 10000.0
    if length > 16:
        base = base * ((2 * length / 16) - 1) ** (8 / 6)
    angles = torch.outer(torch.arange(length).float(), 1.0 / base ** (torch.arange(0, 3).float() / 3))
    return x * angles.cos() + x.flip(-1) * angles.sin()


def _digits_behind_a_branch(x: Tensor) -> Tensor:
    if x.shape[0] == 64:
        x = x * 3
    return x * len(hex(x.shape[0]))


FORMULAS = {
    "int of a root": _of_rows(lambda x: x * int(math.sqrt(x.shape[0]))),
    "three strides": _of_rows(_three_strides),
    "floor of a logarithm": _of_rows(lambda x: x * math.floor(math.log2(x.shape[0] + 1))),
    "bit_length": _of_rows(lambda x: x * x.shape[0].bit_length()),
    "int of a logarithm": _of_rows(lambda x: x * int(math.log(x.shape[0]))),
    "round": _of_rows(lambda x: x * round(x.shape[0] * 0.75)),
    "round a half": _of_rows(lambda x: x * round(x.shape[0] / 2)),
    "round to digits": _of_rows(lambda x: x * round(x.shape[0] / 7, 2)),
    "round to tens": _of_rows(lambda x: x * round(x.shape[0], -1)),
    "numpy's root": _of_rows(lambda x: x * float(np.sqrt(x.shape[0]))),
    "numpy's root, as it is": _of_rows(lambda x: x * np.sqrt(x.shape[0])),
    "int of numpy's root": _of_rows(lambda x: x * int(np.sqrt(x.shape[0]))),
    "numpy's whole number": _of_rows(lambda x: x * int(np.int64(x.shape[0]))),
    "int of numpy's ceil": _of_rows(lambda x: x * int(np.ceil(x.shape[0] / 2))),
    "numpy's product": _of_rows(lambda x: x * int(np.prod(x.shape))),
    "numpy's logarithm": _of_rows(lambda x: x * int(np.log2(x.shape[0]))),
    "an array of sizes": _of_rows(lambda x: x * float(np.array([x.shape[0], 2]).mean())),
    "math.floor": _of_rows(lambda x: x * math.floor(x.shape[0] / 3)),
    "math.ceil": _of_rows(lambda x: x * math.ceil(x.shape[0] / 3)),
    "math.trunc": _of_rows(lambda x: x * math.trunc(x.shape[0] / 3)),
    "math.gcd": _of_rows(lambda x: x * math.gcd(x.shape[0], 12), verdict=REFUSED),
    "math.lcm": _of_rows(lambda x: x * math.lcm(x.shape[0], 4), verdict=REFUSED),
    "math.prod": _of_rows(lambda x: x * math.prod(x.shape)),
    "math.pow": _of_rows(lambda x: x * math.pow(x.shape[0], 0.5)),
    "math.prod of a list": _of_rows(lambda x: x * math.prod([x.shape[0], 2, x.shape[1]], start=3)),
    "math.cos": _of_rows(lambda x: x * math.cos(x.shape[0] / 9)),
    "numpy's hypot": _of_rows(lambda x: x * float(np.hypot(x.shape[0], 3))),
    "numpy's floor": _of_rows(lambda x: x * int(np.floor(x.shape[0] / 3))),
    "math.hypot": _of_rows(lambda x: x * math.hypot(x.shape[0], 3)),
    "math.sin": _of_rows(lambda x: x * math.sin(x.shape[0])),
    "math.fmod": _of_rows(lambda x: x * math.fmod(x.shape[0], 7)),
    "math.log1p": _of_rows(lambda x: x * math.log1p(x.shape[0])),
    "math.copysign": _of_rows(lambda x: x * math.copysign(3.0, x.shape[0] - 10), verdict=REFUSED),
    "math.comb": _of_rows(lambda x: x * math.comb(x.shape[0], 2), verdict=REFUSED),
    "math.isclose": _of_rows(lambda x: x * 2 if math.isclose(x.shape[0], 20) else x),
    "a function that nobody follows": _of_rows(lambda x: x * whole(math.sqrt(x.shape[0]))),
    "reduced": _of_rows(lambda x: x * functools.reduce(operator.mul, x.shape)),
    "through json": _of_rows(lambda x: x * json.loads(json.dumps([x.shape[0]]))[0]),
    "through text": _of_rows(lambda x: x * int(str(x.shape[0]))),
    "digits to the base of sixteen": _of_rows(lambda x: x * len(hex(x.shape[0])), verdict=REFUSED),
    "digits behind a branch": _of_rows(_digits_behind_a_branch, verdict=REFUSED),
    "numpy's round": _of_rows(lambda x: x * int(np.round(x.shape[0] * 0.3))),
    "digits": _of_rows(lambda x: x * len(str(x.shape[0])), verdict=REFUSED),
    "a sum over a range": _of_rows(lambda x: x * sum(range(x.shape[0])), verdict=REFUSED),
    "complex": _of_rows(lambda x: x * abs(complex(x.shape[0], 3)), verdict=REFUSED),
    "a power of numbers below zero": _of_rows(lambda x: x * (x.shape[0] / 8 - 1) ** 3, 1, 7, 8, 9, 20),
    "math.pow of numbers below zero": _of_rows(lambda x: x * math.pow(x.shape[0] - 8.5, 2), 1, 7, 8, 9, 20),
    "a number below zero to the power": _of_rows(lambda x: x * (-2.0) ** x.shape[0], 1, 2, 3, 9, 20),
    "a root behind a branch": _of_rows(_root_behind_a_branch, *_SIDES),
    "a root in front of a branch": _of_rows(_root_behind_a_branch, *_SIDES, example=20),
    "a logarithm behind a branch": _of_rows(
        lambda x: x * math.log(x.shape[0] - 15) if x.shape[0] > 16 else x, *_SIDES, example=6
    ),
    "a quotient behind a branch": _of_rows(
        lambda x: x * (x.shape[0] % 3 / 5 / (x.shape[0] - 6)) if x.shape[0] > 16 else x, *_SIDES, example=6
    ),
    "a base that grows behind a branch": _of_rows(_longer_than_trained, *_SIDES, example=6),
    "a floored quotient": _of_rows(lambda x: x * (x.shape[0] / 3 // 1)),
}


# --- 2: branches that flip away from the example ---------------------------------------------------------------------
BRANCHES = {
    "padded to sixteen": Row(
        lambda x: F.pad(x, (0, 16 - x.shape[1] % 16)) if x.shape[1] % 16 else x,
        [(2, "n")],
        {"n": 10},
        [10, 15, 16, 17, 32, 48],
    ),
    "more than a hundred": _of_rows(lambda x: x * 2 if x.shape[0] > 100 else x + 1, 99, 100, 101, 200, example=10),
    "topk of at most fifty": _of_rows(lambda x: x.topk(min(50, x.shape[0]), 0)[0], 1, 49, 50, 51, 90, example=10),
    "sym_min": _of_rows(lambda x: x[: torch.sym_min(x.shape[0], 100)] * 2, 1, 99, 100, 101, 200, example=10),
    "size of a slice": Row(lambda x: x * x[:, :512].shape[1], [(2, "n")], {"n": 10}, [1, 10, 511, 512, 513, 600]),
    "a share of at most one": _of_rows(lambda x: x * min(1.0, 100 / x.shape[0]), 10, 100, 101, 300, example=10),
    "a shape": _of_rows(
        lambda x: x * 2 if tuple(x.shape) == (20, 3) else x, 10, 19, 20, 21, example=10, verdict=REFUSED
    ),
    "numel": _of_rows(lambda x: x * 2 if x.numel() > 1000 else x, 10, 333, 334, 400, example=10),
    "something was found": _of_rows(
        lambda x: x[x[:, 0] > 100].sum() if x[x[:, 0] > -100].numel() > 0 else x.sum() * 3, 1, 2, 9
    ),
}


# --- 3: sizes that saturate ------------------------------------------------------------------------------------------
def _cleared(x: Tensor, y: Tensor) -> Tensor:
    x = x.clone()
    x[: y.shape[0]] = 0
    return x


def _suppressed(scores: Tensor) -> Tensor:
    """The core of SSD's post-processing."""
    kept = scores[scores > 0.25]
    return kept.topk(min(3, kept.size(0)))[0]


SATURATED = {
    "two slices of two axes": Row(
        lambda x, y: (torch.full_like(x[:3], 1.0), torch.full_like(y[:3], 2.0), x[:3].sum() + y[:3].sum()),
        [("n", 3), ("m", 3)],
        {"n": 5, "m": 6},
        [(1, 2), (2, 1), (5, 2), (3, 3), (2, 9)],
    ),
    "topk after a mask": _of_rows(lambda x: _suppressed(x.reshape(-1)), 1, 2, 4, 9, 40),
    "mean of the first": _of_rows(lambda x: x[:5].sum() / len(x[:5]), 1, 2, 4, 5, 6, 20, example=8),
    "the last": _of_rows(lambda x: x[-4:] * 2, 1, 3, 4, 5, 9, example=8),
    "length of the last": _of_rows(lambda x: x[-4:].shape[0] * x, 1, 3, 4, 5, 9, example=8),
    "at least three": _of_rows(lambda x: F.pad(x, (0, 0, 0, max(x.shape[0], 3) - x.shape[0])), 1, 2, 3, 4, 9),
    "cleared": Row(_cleared, [("n", 3), ("m", 3)], {"n": 8, "m": 3}, [(8, 3), (2, 3), (1, 1), (4, 9)]),
    "diagonal": _of_rows(lambda x: x.diagonal() * 2, 1, 2, 3, 4, 9, example=8),
    "two diagonals": Row(
        lambda x, y: (x.diagonal() * 2, y.diagonal() * 3),
        [("n", 3), ("m", 3)],
        {"n": 5, "m": 6},
        [(1, 2), (2, 7), (7, 1)],
    ),
}


# --- 4: bits, types and tables ---------------------------------------------------------------------------------------
def _match_class(x: Tensor) -> Tensor:
    match x.shape[0]:
        case int():
            return x * 2
        case _:
            return x


def _match_number(x: Tensor) -> Tensor:
    match x.shape[0]:
        case 4:
            return x * 2
        case _:
            return x


def _match_shape(x: Tensor) -> Tensor:
    match tuple(x.shape):
        case (20, 3):
            return x * 2
        case (_, 3):
            return x
    return x - 1


def _try_view(x: Tensor) -> Tensor:
    n = x.shape[0]
    try:
        return x.view(n // 2 * 2, -1) * 2
    except Exception:
        return x * 3


def _try_probe(x: Tensor) -> Tensor:
    """Some sizes fail, the example does not."""
    try:
        return x.view(2, x.shape[0] // 2, 3).sum(0) * 2
    except RuntimeError:
        return x.sum(0, keepdim=True) * 3


def _try_add(x: Tensor) -> Tensor:
    try:
        return x + torch.ones(4, 3)
    except RuntimeError:
        return x * 3


def _try_index(x: Tensor) -> Tensor:
    try:
        return x[10] * 2 + x.sum(0)
    except LookupError:
        return x[0] * 3


def _try_write(x: Tensor) -> Tensor:
    x = x.clone()
    try:
        x[7] = 0
    except IndexError:
        x = x * 2
    return x


def _try_number(x: Tensor) -> Tensor:
    try:
        return x * (100 // (x.shape[0] - 8))
    except ZeroDivisionError:
        return x * 3


def _try_key(x: Tensor) -> Tensor:
    try:
        return x * TABLE[x.shape[0]]
    except KeyError:
        return x


def _try_any_key(x: Tensor) -> Tensor:
    try:
        return x * TABLE[x.shape[0]]
    except Exception:
        return x


def _suppress(x: Tensor) -> Tensor:
    result = x.sum(0, keepdim=True)
    with contextlib.suppress(RuntimeError):
        result = x.view(2, x.shape[0] // 2, 3).sum(0)
    return result


def _unseen(x: Tensor) -> Tensor:
    return x * dict(zip((4, 16), (2.0, 3.0), strict=True)).get(x.shape[0], 1.0)


class Tables(nn.Module):
    """A table that is filled as sizes come by."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        if n not in self.tables:
            self.tables[n] = torch.arange(n, dtype=x.dtype)
        return x + self.tables[n][:, None]


@functools.lru_cache
def _positions(n: int) -> Tensor:
    return torch.arange(n, dtype=torch.float32)


def _hidden(model: Callable[[Tensor], Tensor]) -> Row:
    """A plain number is made of a size, and nobody sees what it decides."""
    return _of_rows(model, 1, 4, 20, 101, 200, example=9, verdict=REFUSED)


TABLE = {4: 2.0, 16: 3.0}
A, B = 2.0, 3.0

TYPES = {
    "and": _of_rows(lambda x: x * (x.shape[0] & 1)),
    "or": _of_rows(lambda x: x * ((x.shape[0] - 1) | 1)),
    "xor": _of_rows(lambda x: x * (x.shape[0] ^ 5)),
    "shifts": _of_rows(lambda x: x * (x.shape[0] >> 1) + (x.shape[0] << 2)),
    "isinstance": _of_rows(lambda x: x * 2 if isinstance(x.shape[0], int) else x),
    "isinstance of several": _of_rows(lambda x: x * 2 if isinstance(x.shape[0], (float, int)) else x),
    "type": _of_rows(lambda x: x * 2 if type(x.shape[0]) is int else x),
    "type of a tensor": _of_rows(lambda x: x * 2 if type(x) is torch.Tensor else x),
    "class of a tensor": _of_rows(lambda x: x * 2 if (x + 1).__class__ is torch.Tensor else x),
    "match a class": _of_rows(_match_class),
    "match a number": _of_rows(_match_number, verdict=REFUSED),
    "match a number elsewhere": _of_rows(_match_number, example=9),
    "match a shape": _of_rows(_match_shape),
    "in a set": _of_rows(lambda x: x * 2 if x.shape[0] in {2, 3, 4} else x, verdict=REFUSED),
    "in a set, elsewhere": _of_rows(lambda x: x * 2 if x.shape[0] in {2, 3, 4} else x, example=9, verdict=TOLD),
    "in a tuple": _of_rows(lambda x: x * 2 if x.shape[0] in (2, 3, 4) else x, verdict=REFUSED),
    "in a list, elsewhere": _of_rows(lambda x: x * 2 if x.shape[0] in [2, 3, 4] else x, example=9),
    "in a range": _of_rows(lambda x: x * 2 if x.shape[0] in range(2, 5) else x, verdict=REFUSED),
    "shape in a set": _of_rows(lambda x: x * 2 if tuple(x.shape) in {(4, 3), (16, 3)} else x, verdict=REFUSED),
    "get from a table": _of_rows(lambda x: x * TABLE.get(x.shape[0], 1.0), verdict=REFUSED),
    "get from a table, elsewhere": _of_rows(lambda x: x * TABLE.get(x.shape[0], 1.0), example=9, verdict=TOLD),
    "look up in a table": _of_rows(lambda x: x * {4: A}[x.shape[0]], 4, verdict=REFUSED),
    "get by a shape": _of_rows(lambda x: x * {(4, 3): A}.get(tuple(x.shape), B), verdict=REFUSED),
    "get by an expression": _of_rows(lambda x: x * {8: A}.get(2 * x.shape[0], B), verdict=REFUSED),
    "get by a text": _of_rows(lambda x: x * {"4": A}.get(str(x.shape[0]), B), verdict=REFUSED),
    "get by a formatted text": _of_rows(lambda x: x * {"n4": A}.get(f"n{x.shape[0]}", B), verdict=REFUSED),
    "a list by size": _of_rows(lambda x: x * [1.0, 2.0, 3.0, 4.0, 5.0][x.shape[0]], 1, 2, 4, verdict=REFUSED),
    "a list by a remainder": _of_rows(lambda x: x * [1.0, 2.0][x.shape[0] % 2], verdict=REFUSED),
    "a table made as sizes come": _of_rows(Tables()),
    "lru_cache": _of_rows(lambda x: x + _positions(x.shape[0])[:, None]),
    "a set of sizes": Row(
        lambda x, y: x.sum() * len({x.shape[0], y.shape[0]}),
        [("n", 3), ("m", 3)],
        {"n": 4, "m": 6},
        [(4, 6), (4, 4), (1, 1)],
        TOLD,
    ),
    "hash": _of_rows(lambda x: x * (hash(x.shape[0]) % 5), verdict=REFUSED),
    "a whole number of numpy's": _hidden(lambda x: x * 2 if np.int64(x.shape[0]) > 100 else x),
    "an index": _hidden(lambda x: x * 2 if operator.index(x.shape[0]) > 100 else x),
    "a text": _hidden(lambda x: x * 2 if f"{x.shape[0]}" == "20" else x),
    "a text in a table": _hidden(lambda x: x * {"n4": A}.get(f"n{x.shape[0]}", B)),
    "length of a range": _hidden(lambda x: x * 2 if len(range(x.shape[0])) > 100 else x),
    "length of a list": _hidden(lambda x: x * 2 if len([0] * x.shape[0]) > 100 else x),
    "length of an array": _hidden(lambda x: x * 2 if len(np.arange(x.shape[0])) > 100 else x),
    "sum of an array": _of_rows(lambda x: x * 2 if np.array([x.shape[0]]).sum() > 100 else x, example=9),
    "a number that decides nothing": _of_rows(lambda x: x * 2 if operator.index(x.shape[0]) > 0 else x, 1, 4, 20, 101),
    "a view in a try": _of_rows(_try_view, 2, 4, 5, 6, 7, verdict=TOLD),
    "a probe in a try": _of_rows(_try_probe, 2, 4, 5, 6, 7, verdict=TOLD),
    "a view in a try that fails": _of_rows(_try_view, 2, 4, 5, 6, 7, example=5, verdict=TOLD),
    "a probe in a try that fails": _of_rows(_try_probe, 2, 4, 5, 6, 7, example=5, verdict=TOLD),
    "an index in a try": _of_rows(_try_index, 2, 10, 11, 20, example=20, verdict=TOLD),
    "an index in a try that fails": _of_rows(_try_index, 2, 10, 11, 20, verdict=TOLD),
    "a write in a try": _of_rows(_try_write, 2, 7, 8, 20, example=20, verdict=TOLD),
    "a write in a try that fails": _of_rows(_try_write, 2, 7, 8, 20, verdict=TOLD),
    "arithmetic in a try": _of_rows(_try_number, 2, 4, 7, 8, 9, verdict=REFUSED),
    "arithmetic in a try that fails": _of_rows(_try_number, 2, 4, 7, 8, 9, example=8, verdict=TOLD),
    "a key in a try": _of_rows(_try_key, 2, 4, 9, 16, example=9, verdict=TOLD),
    "a key in a broad try": _of_rows(_try_any_key, 2, 4, 9, 16, example=9, verdict=TOLD),
    "a key in a broad try that is found": _of_rows(_try_any_key, 2, 4, 9, 16, verdict=REFUSED),
    "suppressed": _of_rows(_suppress, 2, 4, 5, 6, 7, verdict=TOLD),
    "a table that cannot be seen": _of_rows(_unseen, 2, 4, 9, 16, example=9, verdict=REFUSED),
    "a set of a shape": Row(lambda x: x * len(set(x.shape)), [("n", "m")], {"n": 4, "m": 6}, [(4, 6), (5, 5)], TOLD),
    "an addition in a try": _of_rows(_try_add, 1, 4, 5, verdict=REFUSED),
}


# --- 6: axes that the model compares ---------------------------------------------------------------------------------
class Recurrent(nn.Module):
    """PyTorch's own layer compares the batch of the state with the batch of the input."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.layer = kind(3, 5)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(x, h)


def _asserted(a: Tensor, b: Tensor) -> Tensor:
    assert a.shape[0] == b.shape[0]
    return a * 2 + b


def _if_equal(a: Tensor, b: Tensor) -> Tensor:
    return a + b if a.shape[0] == b.shape[0] else a * b.sum()


TWO = [("n", 3), ("m", 3)]
COMPARED = {
    "RNN": Row(Recurrent(nn.RNN), [(4, "n", 3), (1, "m", 5)], {"n": 2, "m": 2}, [(1, 1), (3, 3), (7, 7)], TOLD),
    "GRU": Row(Recurrent(nn.GRU), [(4, "n", 3), (1, "m", 5)], {"n": 2, "m": 2}, [(1, 1), (3, 3), (7, 7)], TOLD),
    "tensordot": Row(lambda a, b: torch.tensordot(a, b, ([0], [0])), TWO, {"n": 4, "m": 4}, [(1, 1), (7, 7)], TOLD),
    "vmap": Row(lambda a, b: torch.vmap(torch.dot)(a, b), TWO, {"n": 4, "m": 4}, [(1, 1), (7, 7)], TOLD),
    "assert": Row(_asserted, TWO, {"n": 4, "m": 4}, [(1, 1), (7, 7)], TOLD),
    "if": Row(_if_equal, TWO, {"n": 4, "m": 4}, [(1, 1), (7, 7), (4, 5)], TOLD),
    "added": Row(lambda a, b: a + b, TWO, {"n": 4, "m": 4}, [(1, 1), (7, 7)], TOLD),
}

ROWS = {
    f"{kind}: {name}": row
    for kind, rows in (
        ("formula", FORMULAS), ("branch", BRANCHES), ("saturated", SATURATED), ("type", TYPES), ("compared", COMPARED),
    )
    for name, row in rows.items()
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_decision_on_sizes_is_right_or_told(row: Row, tmp_path: Path) -> None:
    """Nothing is left to verification."""
    verdict = judge(row, tmp_path / "model.onnx", verify=False)
    assert ORDER.index(verdict) <= ORDER.index(row.verdict)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_verification_finds_no_more(row: Row, tmp_path: Path) -> None:
    """What is right without a word is verified; what a warning limits may be refused there."""
    verdict = judge(row, tmp_path / "model.onnx", verify=True)
    assert verdict == RIGHT or row.verdict != RIGHT
