"""Linear models and support vector machines of ai.onnx.ml."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import BackendError
from ..registry import implements
from ._ml_scores import Labels, transformed, two_columns

_DOMAIN = "ai.onnx.ml"


def _rows(x: Tensor) -> Tensor:
    """One row of features per example, in float32 as all of these models compute."""
    return x.float().reshape(1, -1) if x.dim() == 1 else x.float()


def _matrix(numbers: Sequence[float], rows: int, what: str) -> Tensor:
    if rows < 1 or len(numbers) % rows:
        raise BackendError(f"{what} has {len(numbers)} numbers, which is no matrix of {rows} rows")
    return torch.tensor(numbers, dtype=torch.float32).reshape(rows, -1)


@implements("LinearRegressor", domain=_DOMAIN)
def linear_regressor(
    x: Tensor,
    *,
    coefficients: list[float],
    intercepts: list[float] | None = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Tensor:
    result = _rows(x) @ _matrix(coefficients, targets, "coefficients").t()
    result = result if not intercepts else result + torch.tensor(intercepts)
    return transformed(result, post_transform)


@implements("LinearClassifier", domain=_DOMAIN)
def linear_classifier(
    x: Tensor,
    *,
    coefficients: list[float],
    intercepts: list[float] | None = None,
    classlabels_ints: list[int] | None = None,
    classlabels_strings: list[str] | None = None,
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Any, Tensor]:
    """With one row of coefficients and two labels, the score of the first class is one less that of the second."""
    features = _rows(x)
    scores = features @ _matrix(coefficients, len(coefficients) // features.shape[1], "coefficients").t()
    scores = scores if not intercepts else scores + torch.tensor(intercepts)
    labels = Labels(classlabels_ints, classlabels_strings)
    if scores.shape[1] > 1:
        return labels.pick(scores.argmax(1)), transformed(scores, post_transform)
    label = labels.two().pick((scores[:, 0] > 0).long())
    if len(labels) != 2:
        return label, transformed(scores, post_transform)
    return label, two_columns(scores, post_transform, signed=False)


# Support vector machines


def _kernel(x: Tensor, vectors: Tensor, kind: str, params: Sequence[float] | None) -> Tensor:
    """How near every row is to every vector, (rows, vectors)."""
    gamma, coef0, degree = params if params else (0.0, 0.0, 0.0)
    if kind == "RBF":
        return torch.exp(-gamma * ((x[:, None] - vectors[None]) ** 2).sum(-1))
    products = x @ vectors.t()
    if kind == "LINEAR":
        return products
    if kind == "POLY":
        return (gamma * products + coef0) ** degree
    if kind == "SIGMOID":
        return torch.tanh(gamma * products + coef0)
    raise BackendError(f"kernel_type is LINEAR, POLY, RBF or SIGMOID, not {kind!r}")


@implements("SVMRegressor", domain=_DOMAIN)
def svm_regressor(
    x: Tensor,
    *,
    coefficients: list[float],
    rho: list[float],
    kernel_params: list[float] | None = None,
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    support_vectors: list[float] | None = None,
) -> Tensor:
    """Without support vectors the coefficients are those of a linear model."""
    features, factors = _rows(x), torch.tensor(coefficients)
    if n_supports > 0:
        vectors = _matrix(support_vectors or [], n_supports, "support_vectors")
        result = _kernel(features, vectors, kernel_type, kernel_params) @ factors
    else:
        result = features @ factors
    result = (result + rho[0]).unsqueeze(1)
    return torch.where(result > 0, 1.0, -1.0) if one_class else transformed(result, post_transform)


@implements("SVMClassifier", domain=_DOMAIN)
def svm_classifier(
    x: Tensor,
    *,
    coefficients: list[float],
    rho: list[float],
    classlabels_ints: list[int] | None = None,
    classlabels_strings: list[str] | None = None,
    kernel_params: list[float] | None = None,
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: list[float] | None = None,
    prob_b: list[float] | None = None,
    support_vectors: list[float] | None = None,
    vectors_per_class: list[int] | None = None,
) -> tuple[Any, Tensor]:
    """One decision for each pair of classes; the class that wins most of them is the label."""
    features, labels = _rows(x), Labels(classlabels_ints, classlabels_strings)
    if not vectors_per_class:  # a linear model for each class
        scores = features @ _matrix(coefficients, len(labels), "coefficients").t() + rho[0]
        winner = scores.argmax(1)
        if len(labels) == 2:  # onnxruntime asks whether the greater score is above the threshold
            positive = min(coefficients) >= 0
            best = scores.amax(1)
            winner = torch.where(best >= 0.5 if positive else best > 0, 1, winner)
        return labels.pick(winner), transformed(scores, post_transform)
    if len(vectors_per_class) != len(labels):
        raise BackendError(f"vectors_per_class has {len(vectors_per_class)} numbers for {len(labels)} classes")
    vectors = _matrix(support_vectors or [], sum(vectors_per_class), "support_vectors")
    decisions = _decisions(
        _kernel(features, vectors, kernel_type, kernel_params),
        _matrix(coefficients, len(labels) - 1, "coefficients"),
        rho,
        vectors_per_class,
    )
    winner = _votes(decisions, len(labels)).argmax(1)
    if prob_a:
        scores = _probabilities(decisions, torch.tensor(prob_a), torch.tensor(prob_b), len(labels))
        return labels.pick(winner), transformed(scores, post_transform)
    if len(labels) > 2:
        return labels.pick(winner), transformed(decisions, post_transform)
    return labels.pick(winner), two_columns(decisions, post_transform, signed=post_transform == "NONE")


def _decisions(near: Tensor, factors: Tensor, rho: Sequence[float], counts: Sequence[int]) -> Tensor:
    """For each pair of classes, by the support vectors of both: above 0 for the first."""
    starts = [0, *itertools.accumulate(counts)]
    results = []
    for place, (i, j) in enumerate(itertools.combinations(range(len(counts)), 2)):
        of_i, of_j = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        total = near[:, of_i] @ factors[j - 1, of_i] + near[:, of_j] @ factors[i, of_j]
        results.append(total + rho[place])
    return torch.stack(results, 1)


def _votes(decisions: Tensor, classes: int) -> Tensor:
    votes = torch.zeros(decisions.shape[0], classes)
    for place, (i, j) in enumerate(itertools.combinations(range(classes), 2)):
        first = decisions[:, place] > 0
        votes[:, i] += first
        votes[:, j] += ~first
    return votes


def _probabilities(decisions: Tensor, a: Tensor, b: Tensor, classes: int) -> Tensor:
    """Those of pairs (Platt's sigmoid) coupled into one for each class: Wu, Lin and Weng's second method, 2004."""
    pairs = (1 - torch.sigmoid(decisions * a + b)).clamp(1e-7, 1 - 1e-7)
    rows = decisions.shape[0]
    r = torch.zeros(rows, classes, classes)
    for place, (i, j) in enumerate(itertools.combinations(range(classes), 2)):
        r[:, i, j], r[:, j, i] = pairs[:, place], 1 - pairs[:, place]
    q = -r * r.mT
    diagonal = (r * r).sum(1)
    q = q + torch.diag_embed(diagonal)
    p = torch.full((rows, classes), 1 / classes)
    going = torch.ones(rows, dtype=torch.bool)
    for _ in range(100):
        qp = (q @ p.unsqueeze(-1)).squeeze(-1)
        pqp = (p * qp).sum(1)
        going = going & ((qp - pqp.unsqueeze(1)).abs().amax(1) >= 0.005 / classes)
        if not going.any():
            break
        new = p.clone()
        for i in range(classes):
            step = (pqp - qp[:, i]) / diagonal[:, i]
            new[:, i] += step
            pqp = (pqp + step * (step * diagonal[:, i] + 2 * qp[:, i])) / (1 + step) ** 2
            qp = (qp + step.unsqueeze(1) * q[:, i]) / (1 + step).unsqueeze(1)
            new = new / (1 + step).unsqueeze(1)
        p = torch.where(going.unsqueeze(1), new, p)
    return p
