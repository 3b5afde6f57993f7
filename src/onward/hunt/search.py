"""The hunt itself.

1. The captured program runs once in PyTorch, node by node. As soon as what a piece of the file is fed with is known,
   the piece is due; due pieces run together in onnxruntime, and what nobody needs any more is let go. So every value
   of the file is compared once, with nothing but its own operator between it and PyTorch's values, at the cost of one
   run on either side; a piece that onnxruntime refuses is found by halves (pieces.py).
2. A piece that is wrong is looked at in double precision: if PyTorch's float32 is off by as much, it is
   ill-conditioned and not wrong.
3. Of those that are wrong the error in a run of the whole file is taken, and that of the values before them.
4. If none is wrong, the rest is told apart: the captured program is not the model, an optimizer of onnxruntime's, or
   rounding that grows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch
from torch import fx

from onward.capture.program.execute import steps
from onward.capture.program.facts import CapturedProgram, Output
from onward.errors import VerifyError, first_line
from onward.hunt.case import Case
from onward.hunt.differences import differences
from onward.hunt.findings import Culprit, Explanation
from onward.hunt.float64 import slice_of, wide_value
from onward.hunt.pieces import FileGraph, Piece, run_pieces
from onward.hunt.unexplained import without_culprit
from onward.hunt.whole_file_run import errors_in_run
from onward.lower.origins import ORIGINS, Origin
from onward.onnx_operators.random_numbers import RANDOM
from onward.verify import Comparison, compare

_ROUNDS = {"QuantizeLinear", "Round", "Floor", "Ceil", "DynamicQuantizeLinear"}
_CHUNK_BYTES = 256 << 20
_CHUNK_PIECES = 500
_LOOKED_AT = 8  # culprits that are told in full
_MOST_TEXT = 240  # of what onnxruntime has to say
_OF_ROUNDING = 4.0  # how many times PyTorch's own rounding an operator beyond the tolerance may be off and be right
_FAINT = 0.1  # of the tolerance: errors that are looked at if nothing else explains a mismatch
_FAINT_OF_ROUNDING = 20.0  # the same for these; kernels that approximate are off by less


@dataclass
class Suspect:
    piece: Piece
    alone: Comparison | None = None
    actual: torch.Tensor | None = None
    expected: torch.Tensor | None = None
    refused: str | None = None


def explain(
    captured: CapturedProgram,
    model: ir.Model | str | os.PathLike[str],
    reference: ir.Model,
    inputs: Sequence[torch.Tensor],
    *,
    given: Mapping[str, torch.Tensor] | None = None,
    expected: Sequence[Output] | None = None,
) -> Explanation:
    """Why `model`, or the file of that path, does not compute what the captured program does for these inputs.

    `reference` is the model as it was exported, with the table of origins; it may be `model` itself. `given` are
    weights that the file takes as inputs, `expected` the model's own answers. What keeps a reason from being found is
    in the notes: there is an error to be told already.
    """
    try:
        loaded = model if isinstance(model, ir.Model) else ir.load(model)
        table = reference.meta.get(ORIGINS, {})
        return _explain(Case(captured, FileGraph(loaded), table, inputs, given or {}, expected), reference)
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        return Explanation("unexplained", notes=(f"no reason was found: {reason}",))


def _explain(case: Case, reference: ir.Model) -> Explanation:
    scan = _Scan(case)
    scan.run()
    suspects = _really_wrong(case, scan.suspects, _OF_ROUNDING)
    compared = len(scan.pieces)
    if not suspects:
        found = without_culprit(case, scan.outputs, compared)
        if found.verdict in ("rounding", "unexplained"):
            suspects = _really_wrong(case, scan.faint, _FAINT_OF_ROUNDING)
        if not suspects:
            return found
    told = list({each.piece.maker: each for each in reversed(suspects)}.values())[::-1][:_LOOKED_AT]
    in_run = errors_in_run(case, [name for each in told for name in (each.piece.name, *each.piece.feeds)])
    culprits = tuple(_culprit(case, each, in_run, reference) for each in told)
    return Explanation("wrong operator", culprits, compared)


def _culprit(case: Case, suspect: Suspect, in_run: Mapping[str, Comparison], reference: ir.Model) -> Culprit:
    piece = suspect.piece
    return Culprit(
        case.spot(piece),
        suspect.alone,
        suspect.refused,
        in_run.get(piece.name),
        tuple(in_run[name] for name in piece.feeds if name in in_run),
        tuple(differences(case.file, reference, piece, case.known)) if reference is not case.file.model else (),
    )


class _Scan:
    """Every piece of the file on PyTorch's values, in the order in which those become known."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.suspects: list[Suspect] = []
        self.faint: list[Suspect] = []  # within the tolerance, but not by much: what follows may make more of it
        self.outputs: Any = ()
        file, known = case.file, case.known
        needed = file.needed([str(value.name) for value in file.model.graph.outputs])
        self.pieces = [file.piece(name, known) for name in known if name in needed]
        # Two pieces that are the wrong way round in a damaged file are both due at the later one.
        self.due: dict[fx.Node, list[Piece]] = {}
        self.wanted: dict[fx.Node, dict[str, Origin]] = {}
        self.readers: dict[str, int] = {}
        for piece in self.pieces:
            names = [piece.name, *(name for name in piece.feeds if name in known)]
            last = max((case.nodes[known[name].node] for name in names), key=case.order.__getitem__)
            self.due.setdefault(last, []).append(piece)
            for name in names:
                self.wanted.setdefault(case.nodes[known[name].node], {})[name] = known[name]
                self.readers[name] = self.readers.get(name, 0) + 1

    def run(self) -> None:
        values: dict[str, torch.Tensor] = {}
        waiting: list[Piece] = []
        held = 0  # bytes
        for node, value in steps(self.case.captured, self.case.inputs):
            for name, origin in self.wanted.get(node, {}).items():
                picked = origin.pick(value)
                if picked is not None:
                    values[name] = picked
                    held += picked.nbytes
            waiting += self.due.get(node, ())
            if node.op == "output":
                self.outputs = value
            if len(waiting) >= _CHUNK_PIECES or held > _CHUNK_BYTES or node.op == "output":
                self._compare(waiting, values)
                waiting, held = [], 0  # what stays is read by pieces to come, and no reason to run others sooner

    def _compare(self, pieces: list[Piece], values: dict[str, torch.Tensor]) -> None:
        case = self.case
        at_hand = {**values, **case.fed}
        ready = [
            piece
            for piece in pieces
            if piece.name in values and all(name in at_hand for name in piece.feeds) and not piece.op_types & RANDOM
        ]
        results = run_pieces(case.file, ready, case.known, at_hand) if ready else {}
        for piece in ready:
            result = results.get(piece.name)
            if isinstance(result, VerifyError):
                self.suspects.append(Suspect(piece, refused=_shortened(result.what)))
            elif result is not None:
                step = (0.0 if result.is_floating_point() else 1.0) if piece.op_types & _ROUNDS else None
                compared = compare(values[piece.name], result, piece.name, step=step)
                suspect = Suspect(piece, compared, result, values[piece.name])
                if not compared.ok:
                    self.suspects.append(suspect)
                elif step is None and compared.max_scaled_error > _FAINT * compared.tolerance.atol:
                    self.faint.append(suspect)
        self.faint = sorted(self.faint, key=_error_alone)[-_LOOKED_AT:]
        for piece in pieces:
            for name in (piece.name, *piece.feeds):
                if name in self.readers:
                    self.readers[name] -= 1
                    if not self.readers[name]:
                        values.pop(name, None)


def _error_alone(suspect: Suspect) -> float:
    return suspect.alone.max_scaled_error if suspect.alone is not None else 0.0


def _really_wrong(case: Case, suspects: list[Suspect], times: float) -> list[Suspect]:
    """Without those that are off by no more than so many times PyTorch's own rounding, in the order of the file."""
    places = {node: place for place, node in enumerate(case.file.nodes)}
    suspects = sorted(suspects, key=lambda each: places[each.piece.maker])[: 4 * _LOOKED_AT]
    known = {case.nodes[origin.node] for origin in case.known.values()}
    slices: dict[str, tuple[list[fx.Node], set[fx.Node]]] = {}
    for each in suspects:
        if each.alone is not None and each.alone.problem is None:
            slices[each.piece.name] = slice_of(case.nodes[case.known[each.piece.name].node], known)
    kept: dict[fx.Node, Any] = {}
    if slices:
        ends = set[fx.Node]().union(*(ends for _, ends in slices.values()))
        for node, value in steps(case.captured, case.inputs):
            if node in ends:
                kept[node] = value
    return [
        each
        for each in suspects
        if each.piece.name not in slices or not _is_rounding(case, each, slices[each.piece.name][0], kept, times)
    ]


def _is_rounding(
    case: Case, suspect: Suspect, inner: Sequence[fx.Node], kept: Mapping[fx.Node, Any], times: float
) -> bool:
    name = suspect.piece.name
    expected, actual = suspect.expected, suspect.actual
    exact = case.known[name].pick(wide_value(inner, kept))
    if exact is None or expected is None or actual is None or expected.dtype is torch.float64:
        return suspect.alone is not None and suspect.alone.ok  # nothing to judge by but the tolerance
    exact = exact.to(expected.dtype)
    of_pytorch, of_file = compare(exact, expected, name), compare(exact, actual, name)
    if of_pytorch.problem is not None or of_file.problem is not None:
        return False
    last_bit = torch.finfo(expected.dtype).eps * of_pytorch.scale if expected.is_floating_point() else 0.0
    return of_file.max_abs_error <= times * (of_pytorch.max_abs_error + last_bit)


def _shortened(text: str) -> str:
    text = text.replace("the model: [ONNXRuntimeError] : ", "it: ")
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
