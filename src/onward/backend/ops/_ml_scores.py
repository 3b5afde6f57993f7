"""What the models of ai.onnx.ml do with their scores: transforms of them, and the label that wins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import BackendError
from ..values import strings

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def transformed(scores: Tensor, how: str) -> Tensor:
    """Scores (rows, classes) after `post_transform`.

    A single score per row is left as it is unless it is PROBIT: so do onnxruntime's kernels, which are what converters
    of trained models test their files with.
    """
    if how not in TRANSFORMS:
        raise BackendError(f"post_transform is one of {', '.join(TRANSFORMS)}, not {how!r}")
    if how == "PROBIT":
        return _probit(scores)
    if scores.shape[-1] < 2 or how == "NONE":
        return scores
    if how == "LOGISTIC":
        return torch.sigmoid(scores)
    return torch.softmax(scores, -1) if how == "SOFTMAX" else _softmax_zero(scores)


def two_columns(score: Tensor, how: str, signed: bool) -> Tensor:
    """The score of the second of two classes, (rows, 1), as scores of both: it is signed, or a probability."""
    if how == "LOGISTIC":
        return torch.sigmoid(torch.cat([-score, score], 1))
    if how == "PROBIT":  # onnxruntime 1.31 leaves the second column unwritten
        return _probit(torch.cat([1 - score, score], 1))
    return torch.cat([-score if signed else 1 - score, score], 1)


def _softmax_zero(scores: Tensor) -> Tensor:
    """A softmax over those scores that are not 0."""
    most = scores.amax(-1, keepdim=True)
    counts = scores.abs() > 1e-7
    powers = torch.where(counts, torch.exp(scores - most), scores * torch.exp(-most))
    return powers / torch.where(counts, powers, 0).sum(-1, keepdim=True)


def _probit(scores: Tensor) -> Tensor:
    """The inverse of the normal distribution, by the approximation (Winitzki's) that onnxruntime computes with."""
    x = 2 * scores - 1
    log = torch.log((1 - x) * (1 + x))
    half = 2 / (3.14159 * 0.147) + 0.5 * log
    root = torch.sqrt(torch.sqrt(half * half - log / 0.147) - half)
    return math.sqrt(2) * torch.where(x < 0, -root, root)


class Labels:
    """The names of classes: whole numbers or strings."""

    def __init__(self, ints: Sequence[int] | None, texts: Sequence[str] | None) -> None:
        self.are_strings = bool(texts)
        self.names: list[Any] = list(texts or ints or [])

    def __len__(self) -> int:
        return len(self.names)

    def pick(self, places: Tensor) -> Any:
        """The label of every row, by its place in the list."""
        if self.are_strings:
            return strings([self._name(place) for place in places.tolist()], places.shape)
        return torch.tensor([self._name(place) for place in places.tolist()], dtype=torch.int64)

    def _name(self, place: int) -> Any:
        if not 0 <= place < len(self.names):
            raise BackendError(f"class {place} has no label: there are {len(self.names)}")
        return self.names[place]

    def two(self) -> Labels:
        """Labels of a model that says yes or no; without a pair of names they are 0 and 1."""
        if len(self.names) == 2:
            return self
        return Labels(None, ["0", "1"]) if self.are_strings else Labels([0, 1], None)
