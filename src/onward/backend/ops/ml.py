"""Operators of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..registry import implements
from ..values import strings

_DOMAIN = "ai.onnx.ml"


@implements("ArrayFeatureExtractor", domain=_DOMAIN)
def array_feature_extractor(x: Tensor, indices: Tensor) -> Tensor:
    picked = x.index_select(-1, indices.reshape(-1))
    return picked.reshape(1, -1) if x.dim() == 1 else picked


@implements("Binarizer", domain=_DOMAIN)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    return (x > threshold).to(x.dtype)


@implements("LabelEncoder", domain=_DOMAIN)
def label_encoder(x: Any, **attributes: Any) -> Any:
    """Keys and values of any of the types that they come in; what is no key becomes the default."""
    kinds = ("tensor", "int64s", "strings", "floats")
    keys = next(_listed(attributes[f"keys_{kind}"]) for kind in kinds if f"keys_{kind}" in attributes)
    kind = next(kind for kind in kinds if f"values_{kind}" in attributes)
    values = attributes[f"values_{kind}"]
    default = attributes.get("default_tensor") if kind == "tensor" else None
    if default is None:
        fallbacks = {"int64s": ("default_int64", -1), "strings": ("default_string", "_Unused")}
        default = attributes.get(*fallbacks.get(kind, ("default_float", -0.0)))
    else:
        default = _listed(default)[0]
    table = dict(zip(keys, _listed(values), strict=True))
    nan = next((value for key, value in table.items() if key != key), default)
    items = [nan if item != item else table.get(item, default) for item in _listed(x)]
    if kind == "strings" or isinstance(values, np.ndarray):
        return strings(items, x.shape)
    dtype = {"int64s": torch.int64, "floats": torch.float32}.get(kind)
    return torch.tensor(items, dtype=dtype or values.dtype).reshape(x.shape)


def _listed(x: Any) -> list[Any]:
    if isinstance(x, (torch.Tensor, np.ndarray)):
        return list(x.reshape(-1).tolist())
    return list(x)


@implements("Scaler", domain=_DOMAIN)
def scaler(x: Tensor, *, offset: list[float], scale: list[float]) -> Tensor:
    return (x.float() - torch.tensor(offset)) * torch.tensor(scale)


@implements("Normalizer", domain=_DOMAIN)
def normalizer(x: Tensor, *, norm: str = "MAX") -> Tensor:
    x = x.float()
    length: Any = {"MAX": x.amax, "L1": x.abs().sum, "L2": x.norm}[norm]
    size = length(dim=-1, keepdim=True)
    return x / torch.where(size == 0, torch.ones_like(size), size)


@implements("LinearRegressor", domain=_DOMAIN)
def linear_regressor(
    x: Tensor,
    *,
    coefficients: list[float],
    intercepts: list[float] | None = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Tensor:
    result = x.float() @ torch.tensor(coefficients).reshape(targets, -1).t()
    result = result if intercepts is None else result + torch.tensor(intercepts)
    return _POST[post_transform](result)


_POST: dict[str, Any] = {
    "NONE": lambda x: x,
    "SOFTMAX": lambda x: torch.softmax(x, -1),
    "LOGISTIC": torch.sigmoid,
}


@implements("Imputer", domain=_DOMAIN)
def imputer(
    x: Tensor,
    *,
    imputed_value_floats: list[float] | None = None,
    imputed_value_int64s: list[int] | None = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    floating = x.is_floating_point()
    old = replaced_value_float if floating else replaced_value_int64
    new = torch.tensor(imputed_value_floats if floating else imputed_value_int64s).to(x.dtype)
    missing = torch.isnan(x) if old != old else x == old
    return torch.where(missing, new, x)


@implements("FeatureVectorizer", domain=_DOMAIN)
def feature_vectorizer(*xs: Tensor, inputdimensions: list[int] | None = None) -> Tensor:
    return torch.cat([x.reshape(x.shape[0], -1).float() for x in xs], 1)


@implements("OneHotEncoder", domain=_DOMAIN)
def one_hot_encoder(
    x: Any, *, cats_int64s: list[int] | None = None, cats_strings: list[str] | None = None, zeros: int = 1
) -> Tensor:
    categories: list[Any] = list(cats_strings if cats_strings is not None else cats_int64s or [])
    items = _listed(x)
    rows = [[float(item == category) for category in categories] for item in items]
    if not zeros and any(item not in categories for item in items):
        raise ValueError("OneHotEncoder met a category that it does not know")
    return torch.tensor(rows).reshape(*x.shape, len(categories))


# Trees

_MODES = ("<=", "<", ">=", ">", "==", "!=", "in")
_COMPARE: dict[str, Any] = {
    "<=": lambda x, y: x <= y, "<": lambda x, y: x < y, ">=": lambda x, y: x >= y, ">": lambda x, y: x > y,
    "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
}  # fmt: skip


@implements("TreeEnsemble", domain=_DOMAIN)
def tree_ensemble(
    x: Tensor,
    *,
    aggregate_function: int = 1,
    leaf_targetids: list[int],
    leaf_weights: Tensor,
    membership_values: Tensor | None = None,
    n_targets: int = 1,
    nodes_falseleafs: list[int],
    nodes_falsenodeids: list[int],
    nodes_featureids: list[int],
    nodes_hitrates: Any = None,
    nodes_missing_value_tracks_true: list[int] | None = None,
    nodes_modes: Tensor,
    nodes_splits: Tensor,
    nodes_trueleafs: list[int],
    nodes_truenodeids: list[int],
    post_transform: int = 0,
    tree_roots: list[int],
) -> Tensor:
    """Every row walks every tree; the weights of the leaves it reaches are summed (1), averaged (0), or the least (2)
    or greatest (3) is taken."""
    modes = [_MODES[mode] for mode in nodes_modes.tolist()]
    splits, weights = nodes_splits.tolist(), leaf_weights.tolist()
    members = _memberships(modes, membership_values)
    result = []
    for row in x.tolist():
        reached: list[list[float]] = [[] for _ in range(n_targets)]
        for root in tree_roots:
            node, leaf = root, False
            for _ in range(len(modes) + 1):  # a file may hold a circle
                if leaf:
                    break
                value = row[nodes_featureids[node]]
                if modes[node] == "in":
                    taken = value in members[node]
                else:
                    taken = _COMPARE[modes[node]](value, splits[node])
                if value != value and nodes_missing_value_tracks_true and nodes_missing_value_tracks_true[node]:
                    taken = True
                leaf = bool((nodes_trueleafs if taken else nodes_falseleafs)[node])
                node = (nodes_truenodeids if taken else nodes_falsenodeids)[node]
            if not leaf:
                raise ValueError("a tree of the ensemble goes in circles")
            reached[leaf_targetids[node]].append(weights[node])
        result.append([_aggregated(values, aggregate_function, len(tree_roots)) for values in reached])
    return _POST[("NONE", "SOFTMAX", "LOGISTIC")[post_transform]](torch.tensor(result, dtype=x.dtype))


def _memberships(modes: list[str], values: Tensor | None) -> dict[int, set[float]]:
    """The sets of the nodes that ask for membership: their values in order, NaN between them."""
    found: dict[int, set[float]] = {}
    rest = iter([] if values is None else values.tolist())
    for node, mode in enumerate(modes):
        if mode == "in":
            found[node] = set()
            for value in rest:
                if value != value:
                    break
                found[node].add(value)
    return found


def _aggregated(values: list[float], how: int, trees: int) -> float:
    if not values:
        return 0.0
    return (sum(values) / trees, sum(values), min(values), max(values))[how]
