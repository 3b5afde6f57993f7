"""Ensembles of trees of ai.onnx.ml. All rows walk all trees at once, a level at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...errors import BackendError
from ..registry import implements
from ._ml_scores import TRANSFORMS, Labels, transformed, two_columns

_DOMAIN = "ai.onnx.ml"
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
_MEMBER, _LEAF = 6, 7
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass(frozen=True)
class Forest:
    """Nodes of all trees in one list; a leaf's weights are a stretch of `targets` and `weights`."""

    roots: Tensor
    features: Tensor
    splits: Tensor
    modes: Tensor
    if_true: Tensor
    if_false: Tensor
    missing_is_true: Tensor
    starts: Tensor  # of a leaf's stretch
    counts: Tensor
    targets: Tensor
    weights: Tensor
    members: dict[int, Tensor]

    @property
    def threshold(self) -> float:
        """Where the second of two classes begins: weights that are never below 0 add up to a probability."""
        return 0.5 if bool((self.weights >= 0).all()) else 0.0

    def leaves(self, x: Tensor) -> Tensor:
        """The leaf that each row reaches in each tree, (rows, trees)."""
        inner = self.modes != _LEAF
        if inner.any() and not 0 <= int(self.features[inner].min()) <= int(self.features[inner].max()) < x.shape[1]:
            raise BackendError(f"a tree asks for a feature that rows of {x.shape[1]} do not have")
        node = self.roots.expand(x.shape[0], -1).clone()
        for _ in range(len(self.modes) + 1):
            walking = inner[node]
            if not walking.any():
                return node
            rows, trees = walking.nonzero(as_tuple=True)
            here = node[rows, trees]
            value = x[rows, self.features[here]]
            taken = self._taken(value, here)
            node[rows, trees] = torch.where(taken, self.if_true[here], self.if_false[here])
        raise BackendError("a tree of the ensemble goes in circles")

    def _taken(self, value: Tensor, node: Tensor) -> Tensor:
        split, mode = self.splits[node], self.modes[node]
        answers = (value <= split, value < split, value >= split, value > split, value == split, value != split)
        taken = torch.zeros_like(value, dtype=torch.bool)
        for number, answer in enumerate(answers):
            taken = torch.where(mode == number, answer, taken)
        for place, members in self.members.items():
            mine = node == place
            taken[mine] = torch.isin(value[mine], members)
        return taken | (torch.isnan(value) & self.missing_is_true[node])

    def totals(self, x: Tensor, targets: int, how: str = "SUM") -> tuple[Tensor, Tensor]:
        """The weights of the leaves brought together for each target, and which targets had any: (rows, targets)."""
        if self.targets.numel() and not 0 <= int(self.targets.min()) <= int(self.targets.max()) < targets:
            raise BackendError(f"a leaf has a weight for a target that is not one of the {targets}")
        leaves = self.leaves(x).reshape(-1)
        counts = self.counts[leaves]
        rows = torch.arange(x.shape[0]).repeat_interleave(len(self.roots)).repeat_interleave(counts)
        first = (counts.cumsum(0) - counts).repeat_interleave(counts)
        entries = self.starts[leaves].repeat_interleave(counts) + torch.arange(len(rows)) - first
        places = rows * targets + self.targets[entries]
        reduction = {"MIN": "amin", "MAX": "amax"}.get(how, "sum")
        empty = self.weights.new_zeros(x.shape[0] * targets)
        result = empty.scatter_reduce(0, places, self.weights[entries], reduction, include_self=reduction == "sum")
        reached = torch.zeros(len(empty), dtype=torch.bool).index_fill(0, places, True)
        result = result / len(self.roots) if how == "AVERAGE" else result
        return result.reshape(-1, targets), reached.reshape(-1, targets)


def _numbers(plain: Sequence[float] | None, tensor: Tensor | None, dtype: torch.dtype) -> Tensor:
    return (
        tensor.reshape(-1).to(dtype) if tensor is not None else torch.tensor(plain or [], dtype=torch.float32).to(dtype)
    )


def _aligned(**lists: Any) -> None:
    sizes = {name: len(each) for name, each in lists.items()}
    if len(set(sizes.values())) > 1:
        raise BackendError(f"the lists of a tree ensemble differ in length: {sizes}")


def _named_forest(x: Tensor, about: dict[str, Any], kind: str) -> Forest:
    """From the attributes of the older operators: nodes are named by tree and number, weights by those too."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    trees, ids, modes = about["nodes_treeids"], about["nodes_nodeids"], about["nodes_modes"]
    yes, no = about["nodes_truenodeids"], about["nodes_falsenodeids"]
    splits = _numbers(about.get("nodes_values"), about.get("nodes_values_as_tensor"), dtype)
    weights = _numbers(about.get(f"{kind}_weights"), about.get(f"{kind}_weights_as_tensor"), dtype)
    features = about["nodes_featureids"]
    missing = about.get("nodes_missing_value_tracks_true") or [0] * len(ids)
    _aligned(trees=trees, ids=ids, modes=modes, true=yes, false=no, values=splits, features=features, missing=missing)
    of_trees, of_nodes, targets = (about[f"{kind}_{name}"] for name in ("treeids", "nodeids", "ids"))
    _aligned(treeids=of_trees, nodeids=of_nodes, ids=targets, weights=weights)
    place = {key: number for number, key in enumerate(zip(trees, ids, strict=True))}
    unknown = [mode for mode in modes if mode not in _MODES or mode == "BRANCH_MEMBER"]
    if unknown:
        raise BackendError(f"a node of a tree has the mode {unknown[0]!r}")
    leaf = [mode == "LEAF" for mode in modes]
    try:
        if_true = [n if leaf[n] else place[trees[n], yes[n]] for n in range(len(ids))]
        if_false = [n if leaf[n] else place[trees[n], no[n]] for n in range(len(ids))]
        owners = torch.tensor([place[key] for key in zip(of_trees, of_nodes, strict=True)], dtype=torch.int64)
    except KeyError as error:
        raise BackendError(f"a tree names the node {error.args[0]}, which is not there") from error
    children = {child for n in range(len(ids)) if not leaf[n] for child in (if_true[n], if_false[n])}
    roots = [n for n in range(len(ids)) if n not in children]
    if len(roots) != len(set(trees)):
        raise BackendError("a tree of the ensemble has no root, or several: it goes in circles")
    order = torch.argsort(owners, stable=True)
    counts = torch.bincount(owners, minlength=len(ids))
    return Forest(
        torch.tensor(roots, dtype=torch.int64),
        torch.tensor(features, dtype=torch.int64),
        splits,
        torch.tensor([_MODES.index(mode) for mode in modes], dtype=torch.int64),
        torch.tensor(if_true, dtype=torch.int64),
        torch.tensor(if_false, dtype=torch.int64),
        torch.tensor(missing, dtype=torch.bool),
        counts.cumsum(0) - counts,
        counts,
        torch.tensor(targets, dtype=torch.int64)[order],
        weights[order],
        {},
    )


def _rows(x: Tensor) -> Tensor:
    x = x.reshape(1, -1) if x.dim() == 1 else x
    return x if x.dtype == torch.float64 else x.float()


@implements("TreeEnsembleRegressor", domain=_DOMAIN)
def tree_ensemble_regressor(
    x: Tensor,
    *,
    aggregate_function: str = "SUM",
    n_targets: int = 1,
    post_transform: str = "NONE",
    base_values: list[float] | None = None,
    base_values_as_tensor: Tensor | None = None,
    **about: Any,
) -> Tensor:
    if aggregate_function not in _AGGREGATES:
        raise BackendError(f"aggregate_function is one of {', '.join(_AGGREGATES)}, not {aggregate_function!r}")
    scores, _ = _named_forest(x, about, "target").totals(_rows(x), n_targets, aggregate_function)
    base = _numbers(base_values, base_values_as_tensor, scores.dtype)
    if base.numel() not in (0, n_targets):
        raise BackendError(f"base_values has {base.numel()} numbers for {n_targets} targets")
    return transformed((scores + base if base.numel() else scores).float(), post_transform)


@implements("TreeEnsembleClassifier", domain=_DOMAIN)
def tree_ensemble_classifier(
    x: Tensor,
    *,
    post_transform: str = "NONE",
    base_values: list[float] | None = None,
    base_values_as_tensor: Tensor | None = None,
    classlabels_int64s: list[int] | None = None,
    classlabels_strings: list[str] | None = None,
    **about: Any,
) -> tuple[Any, Tensor]:
    labels = Labels(classlabels_int64s, classlabels_strings)
    forest = _named_forest(x, about, "class")
    scores, reached = forest.totals(_rows(x), len(labels))
    base = _numbers(base_values, base_values_as_tensor, scores.dtype)
    one = set(about["class_ids"]) if len(labels) == 2 else set()
    if one == {0} and base.numel() < 2:
        return _one_score(scores[:, 0], base, forest, labels, post_transform)
    if base.numel() not in (0, len(labels)):
        raise BackendError(f"base_values has {base.numel()} numbers for {len(labels)} classes")
    # onnxruntime 1.31 labels two classes that both have weights by the second score alone, and as 0 and 1 whatever
    # their names; here, as the operator is defined, the greater score wins.
    winner = torch.where(reached, scores, float("-inf")).argmax(1) if not base.numel() else (scores + base).argmax(1)
    if one == {1} and not base.numel():
        winner = (scores[:, 1] > forest.threshold).long()
    scores = (scores + base if base.numel() else scores).float()
    return labels.pick(winner), transformed(scores, post_transform)


def _one_score(score: Tensor, base: Tensor, forest: Forest, labels: Labels, post_transform: str) -> tuple[Any, Tensor]:
    """Two classes and weights for the first alone, which are meant for the second: so are boosted trees written."""
    score = (score + base if base.numel() else score).float().unsqueeze(1)
    label = labels.pick((score[:, 0] > forest.threshold).long())
    return label, two_columns(score, post_transform, forest.threshold == 0)


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
    """Nodes and leaves are two lists here; leaves are put behind the nodes."""
    count, leaves = len(nodes_featureids), len(leaf_targetids)
    missing = nodes_missing_value_tracks_true or [0] * count
    _aligned(
        features=nodes_featureids, true=nodes_truenodeids, false=nodes_falsenodeids, trueleafs=nodes_trueleafs,
        falseleafs=nodes_falseleafs, modes=nodes_modes, splits=nodes_splits, missing=missing,
    )  # fmt: skip
    _aligned(leaf_targetids=leaf_targetids, leaf_weights=leaf_weights)
    if not 0 <= aggregate_function < len(_AGGREGATES) or not 0 <= post_transform < len(TRANSFORMS):
        raise BackendError(f"there is no aggregate_function {aggregate_function} or post_transform {post_transform}")
    modes = nodes_modes.to(torch.int64)
    if not bool(((modes >= 0) & (modes <= _MEMBER)).all()):
        raise BackendError("a node of a tree has a mode that is not there")
    filler = [0] * leaves
    forest = Forest(
        torch.tensor(tree_roots, dtype=torch.int64),
        torch.tensor([*nodes_featureids, *filler], dtype=torch.int64),
        torch.cat([nodes_splits, nodes_splits.new_zeros(leaves)]),
        torch.cat([modes, torch.full((leaves,), _LEAF)]),
        _targets(nodes_truenodeids, nodes_trueleafs, leaves),
        _targets(nodes_falsenodeids, nodes_falseleafs, leaves),
        torch.tensor([*missing, *filler], dtype=torch.bool),
        torch.cat([torch.zeros(count, dtype=torch.int64), torch.arange(leaves)]),
        torch.cat([torch.zeros(count, dtype=torch.int64), torch.ones(leaves, dtype=torch.int64)]),
        torch.tensor(leaf_targetids, dtype=torch.int64),
        leaf_weights,
        _memberships(modes.tolist(), membership_values),
    )
    if not all(0 <= root < count for root in tree_roots):
        raise BackendError("a root of a tree is a node that is not there")
    scores, _ = forest.totals(x, n_targets, _AGGREGATES[aggregate_function])
    return transformed(scores, TRANSFORMS[post_transform])


def _targets(ids: Sequence[int], are_leaves: Sequence[int], leaves: int) -> Tensor:
    count = len(ids)
    for place, is_leaf in zip(ids, are_leaves, strict=True):
        if not 0 <= place < (leaves if is_leaf else count):
            raise BackendError(f"a tree names the {'leaf' if is_leaf else 'node'} {place}, which is not there")
    own = [place + count if is_leaf else place for place, is_leaf in zip(ids, are_leaves, strict=True)]
    return torch.tensor([*own, *range(count, count + leaves)], dtype=torch.int64)


def _memberships(modes: Sequence[int], values: Tensor | None) -> dict[int, Tensor]:
    """The sets of the nodes that ask for membership: their values in order, NaN between them."""
    asking = [node for node, mode in enumerate(modes) if mode == _MEMBER]
    if not asking:
        return {}
    given = values if values is not None else torch.zeros(0)
    ends = [*torch.isnan(given).nonzero().reshape(-1).tolist(), len(given)]
    starts = [0, *(end + 1 for end in ends)]
    if len(ends) < len(asking):
        raise BackendError(f"membership_values has {len(ends)} sets for {len(asking)} nodes")
    return {node: given[start:end] for node, start, end in zip(asking, starts, ends, strict=False)}
