"""Reading elements by ints, slices, masks and tensors, and putting them in order."""

from __future__ import annotations

from typing import Any

import torch

from ..builder import Builder, Rejected


def basic(b: Builder) -> str:
    """Ints, slices, None and Ellipsis, in any mixture."""
    x = b.pick(lambda each: each.dim() >= 1)
    rank = b[x].dim()
    parts: list[str] = []
    for place in range(b.rng.randrange(1, rank + 1)):
        size = b[x].shape[place]
        choices = [":", ":", "::2", "1:", ":-1", "-1:", "-2:", ":2", "0", "-1", ":1", "1::2", "0:1"]
        if b.fixed(x, place):
            choices += [str(b.rng.randrange(-size, size)), f":{b.rng.randrange(1, size + 1)}"]
        if place == rank - 1 or b.rng.random() < 0.2:
            choices.append(f":{b.size(x, place)} // 2 + 1")
        parts.append(b.rng.choice(choices))
    if b.rng.random() < 0.15:
        parts.insert(b.rng.randrange(len(parts) + 1), "None")
    if b.rng.random() < 0.25:
        parts.insert(b.rng.randrange(len(parts) + 1), "...")
    return f"{x}[{', '.join(parts)}]"


def by_tensor(b: Builder) -> str:
    x = b.pick(lambda each: each.dim() >= 1)
    rank = b[x].dim()
    forms = [f"{x}[torch.tensor([0])]", f"{x}[[0, 0]]", f"{x}[torch.arange({b.size(x, 0)})]", f"{x}[..., torch.tensor([0, -1])]",
             f"{x}.index_select(0, torch.tensor([0, 0]))", f"{x}[torch.arange({b.size(x, 0)} - 1, -1, -1)]",
             f"{x}.take(torch.tensor([0, 0]))", f"{x}[torch.tensor([[0, 0], [0, 0]])]"]  # fmt: skip
    if rank >= 2:
        forms += [f"{x}[:, torch.tensor([0, 0])]", f"{x}[torch.arange({b.size(x, 0)}), 0]", f"{x}[torch.tensor([0, 0]), :, None]",
                  f"{x}[torch.arange({b.size(x, 0)}), -1]", f"{x}[0, torch.tensor([0])]", f"{x}[torch.tensor([0]), ..., 0]",
                  f"{x}[torch.tensor([0, 0]), torch.tensor([0, 0])]", f"{x}[:, [0, -1]]", f"{x}[torch.arange({b.size(x, 0)})[:, None], torch.tensor([0, 0])]"]  # fmt: skip
    return b.rng.choice(forms)


def by_values(b: Builder) -> str:
    """Indices that are an input or were computed, kept in range by a remainder."""
    x, i = b.pick(lambda each: each.dim() >= 1), b.pick(lambda each: each.dtype is torch.int64 and each.dim() >= 1)
    d = b.dim(x)
    size = b.size(x, d % b[x].dim())
    forms = [f"{x}[{i} % {b.size(x, 0)}]", f"{x}.index_select({d}, {i}.flatten() % {size})"]
    if b[i].dim() == b[x].dim():
        forms += [
            f"{x}.gather({d}, {i} % {size})",
            f"torch.gather({x}, {d}, {i} % {size})",
            f"torch.take_along_dim({x}, {i} % {size}, {d})",
        ] * 2
    if b[x].dim() == 2:
        forms += [f"{x}.gather(1, ({i}.flatten()[:1, None] % {b.size(x, 1)}).expand({b.size(x, 0)}, 1))"]
    return b.rng.choice(forms)


def by_mask(b: Builder) -> str:
    x = b.floating(1)
    shape = b[x].shape
    masks = b.tensors(lambda each: each.dtype is torch.bool and each.shape == shape[: each.dim()] and each.dim() > 0)
    mask = b.rng.choice([*masks, *masks, f"({x} > 0)"])
    full = mask not in masks or b[mask].shape == shape
    forms = [f"{x}[{mask}].sum()", f"{x}[{mask}]"]
    if full:
        forms += [f"{x}.masked_fill({mask}, 0.0)", f"{x}.masked_fill(~{mask}, -10.0)", f"torch.where({mask}, {x}, {x} * 0.1)",
                  f"torch.masked_select({x}, {mask}).sum()", f"torch.where({mask}, {x}, -1)", f"{x}.masked_fill({mask}, float('-inf')).softmax(-1).nan_to_num()"] * 2  # fmt: skip
    return b.rng.choice(forms)


def order(b: Builder) -> str:
    """Sorting; indices are returned only where no two values are equal."""
    x = b.floating(1)
    d = b.dim(x)
    forms = [f"torch.sort({x}, dim={d}).values", f"{x}.sort({d}, descending=True)[0]", f"torch.topk({x}, 1, dim={d}).values", f"{x}.max({d}).values",
             f"{x}.min({d}, keepdim=True)[0]", f"torch.cummax({x}, {d})[0]", f"{x}.kthvalue(1, {d})[0]", f"torch.cummin({x}, dim={d}).values"]  # fmt: skip
    if b[x].dim() == 1 and b[x].numel() == b[x].unique().numel():
        forms += [f"{x}.argsort()", f"{x}.argmax()"]
    if b[x].unique().numel() == b[x].numel():
        forms += [f"{x}.argmax({d})", f"{x}.argmin(dim={d}, keepdim=True)", f"torch.argsort({x}, dim={d})", f"{x}.topk(1, {d}).indices",
                  f"{x}.max({d})[1]", f"torch.sort({x}, {d}).indices", f"torch.argsort({x}, {d}, descending=True)"] * 2  # fmt: skip
    if b.fixed(x, d):
        k = b.rng.randrange(1, b[x].shape[d] + 1)
        forms += [f"torch.topk({x}, {k}, dim={d})[0]", f"{x}.topk({k}, {d}, largest=False).values"] * 2
    return b.rng.choice(forms)


def scatter(b: Builder) -> str:
    x = b.floating(1, 3)
    d = b.dim(x)
    size = b.size(x, d % b[x].dim())
    found = b.tensors(lambda each: each.dtype is torch.int64 and each.shape == b[x].shape)
    forms = [f"torch.zeros_like({x}).index_add({d}, torch.arange({size}), {x})", f"{x}.index_fill({d}, torch.tensor([0]), 0.5)",
             f"{x}.index_copy({d}, torch.tensor([0]), {x}.narrow({d}, 0, 1) * 2)", f"{x}.select_scatter({x}.select({d}, 0) * 3, {d}, 0)",
             f"torch.slice_scatter({x}, {x}.narrow({d}, 0, 1) + 1, {d}, 0, 1)"]  # fmt: skip
    if found:
        i = b.rng.choice(found)
        forms += [f"torch.zeros_like({x}).scatter_add({d}, {i} % {size}, {x})", f"{x}.scatter({d}, {i} % {size}, 0.5)",
                  f"torch.scatter_reduce({x}, {d}, {i} % {size}, {x}, 'amax')", f"torch.scatter_reduce(torch.zeros_like({x}), {d}, {i} % {size}, {x}, 'sum')"] * 2  # fmt: skip
    return b.rng.choice(forms)


def looked_up(b: Builder) -> str:
    i = b.pick(lambda each: each.dtype is torch.int64 and each.dim() <= 3)
    forms = [f"F.one_hot({i} % 4, 4)", f"F.one_hot({i} % 5, 5).float()", f"torch.bucketize({i}, torch.tensor([1, 3]))",
             f"torch.searchsorted(torch.tensor([0.5, 1.5, 3.5]), {i}.float())"]  # fmt: skip
    return b.rng.choice(forms)


def found(b: Builder) -> str:
    """Results whose size depends on the data."""
    x = b.pick(lambda each: each.dim() >= 1)
    if b.rng.random() < 0.5:
        raise Rejected  # they make everything behind them depend on data
    return b.rng.choice((f"({x} > 0).nonzero()", f"torch.nonzero({x} > 0)[:, 0]", f"torch.where({x} > 0)[0]",
                         f"({x} > 0).nonzero().shape[0] + {x}", f"torch.count_nonzero({x} > 0)"))  # fmt: skip


WRITERS: list[tuple[int, Any]] = [
    (10, basic), (6, by_tensor), (5, by_values), (4, by_mask), (6, order), (4, scatter), (3, looked_up), (1, found),
]  # fmt: skip
