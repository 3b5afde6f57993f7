"""Reductions, products and distances."""

from __future__ import annotations

from typing import Any

from ..builder import Builder

_ALONG = (
    "{x}.sum({d})", "{x}.mean({d})", "{x}.mean(dim={d}, keepdim=True)", "{x}.sum({d}, keepdim=True)", "{x}.amax({d})", "{x}.amin({d})",
    "torch.logsumexp({x}, {d})", "{x}.norm(dim={d})", "{x}.norm(p=1, dim={d}, keepdim=True)", "torch.linalg.vector_norm({x}, dim={d})",
    "{x}.std({d}, unbiased=False)", "{x}.var({d}, unbiased=False)", "torch.var({x}, dim={d}, correction=0, keepdim=True)", "({x} > 0).any({d})",
    "({x} > 0).all(dim={d})", "{x}.prod({d})", "({x} > 0).sum({d})", "torch.count_nonzero({x} > 0, dim={d})", "{x}.amax(dim={d}, keepdim=True)",
    "{x} - {x}.mean({d}, keepdim=True)", "{x}.sum(dim={d}, dtype=torch.float64)", "torch.nansum({x}, {d})", "{x}.aminmax(dim={d})[0]",
    "F.softmax({x}, {d}).sum({d})", "torch.median({x}, {d}).values", "({x} > 0).long().cumsum({d})", "{x}.mean({d}).unsqueeze({d})",
)  # fmt: skip
_WHOLE = (
    "{x}.sum()", "{x}.mean()", "{x}.max()", "{x}.min()", "{x}.norm()", "({x} > 0).any()", "({x} > 0).all()", "{x}.std(unbiased=False)",
    "({x} > 0).float().mean()", "{x} / ({x}.abs().max() + 1)", "{x}.argmax()", "({x} * {x}).sum().sqrt()",
)  # fmt: skip


def along(b: Builder) -> str:
    x = b.floating(1)
    return b.rng.choice(_ALONG).format(x=x, d=b.dim(x))


def along_several(b: Builder) -> str:
    x = b.floating(2)
    dims = b.rng.choice(("(0, 1)", "(-1, -2)", "(0, -1)", "[1, 0]"))
    return b.rng.choice(("{x}.sum({d})", "{x}.mean({d})", "{x}.amax({d})", "{x}.mean(dim={d}, keepdim=True)", "torch.logsumexp({x}, dim={d})",
                         "{x}.var({d}, unbiased=False)", "torch.linalg.vector_norm({x}, dim={d})", "({x} > 0).sum({d})")).format(x=x, d=dims)  # fmt: skip


def whole(b: Builder) -> str:
    return b.rng.choice(_WHOLE).format(x=b.floating())


def of_integers(b: Builder) -> str:
    x = b.pick(lambda each: not each.is_floating_point() and each.dim() >= 1)
    d = b.dim(x)
    return b.rng.choice(("{x}.sum({d})", "{x}.sum()", "{x}.float().mean({d})", "{x}.amax({d})", "{x}.cumsum({d})", "{x}.any({d})", "{x}.all()",
                         "{x}.sum({d}, keepdim=True)", "{x}.max()", "{x}.prod({d})", "{x}.sum(dtype=torch.float32)")).format(x=x, d=d)  # fmt: skip


def product(b: Builder) -> str:
    x = b.floating(1, 4)
    kind, rank = b[x].dtype, b[x].dim()
    y = b.pick(lambda each: each.dtype is kind and each.dim() >= 1)
    forms = [f"{x} @ {y}", f"torch.matmul({x}, {y}.transpose(-1, -2)) if {y}.dim() > 1 else {x} * 2" if not b.scripted else f"torch.matmul({x}, {y})",
             f"torch.outer({x}.flatten()[:4], {y}.flatten()[:3])", f"torch.dot({x}.flatten()[:1], {y}.flatten()[:1])"]  # fmt: skip
    if rank >= 2:
        forms += [f"{x} @ {x}.transpose(-1, -2)", f"{x}.mT @ {x}", f"torch.einsum('...ij,...kj->...ik', {x}, {x})", f"torch.einsum('...ij->...j', {x})",
                  f"torch.einsum('...ij->...ji', {x})"] * 2  # fmt: skip
    if rank == 3:
        forms += [f"torch.bmm({x}, {x}.transpose(1, 2))", f"torch.einsum('bij,bkj->bik', {x}, {x})", f"torch.einsum('bij,bij->b', {x}, {x})",
                  f"torch.baddbmm({x} @ {x}.mT, {x}, {x}.mT, beta=0.5)", f"torch.einsum('bij->ib', {x})", f"torch.cdist({x}, {x})"] * 2  # fmt: skip
    if rank == 2:
        forms += [f"torch.einsum('ij,kj->ik', {x}, {x})", f"torch.einsum('ij->j', {x})", f"torch.mm({x}, {x}.t())", f"torch.addmm({x} @ {x}.t(), {x}, {x}.t(), alpha=0.5)",
                  f"torch.trace({x})", f"F.cosine_similarity({x}, {x} + 1)", f"torch.kron({x}[:2], {x}[:1])"] * 2  # fmt: skip
    return b.rng.choice(forms)


def similar(b: Builder) -> str:
    x = b.floating(2, 3)
    shape = b[x].shape
    y = b.pick(lambda each: each.is_floating_point() and each.shape == shape)
    return b.rng.choice((f"F.cosine_similarity({x}, {y}, dim=-1)", f"({x} - {y}).pow(2).sum(-1)", f"F.l1_loss({x}, {y})", f"F.pairwise_distance({x}, {y})",
                         f"torch.tensordot({x}, {y}, dims=([0], [0]))", f"torch.dist({x}, {y})"))  # fmt: skip


def scalar_result(b: Builder) -> str:
    x = b.pick(lambda each: each.dim() == 0 and each.is_floating_point())
    y = b.floating(1)
    return b.rng.choice(
        (
            f"{y} * {x}",
            f"{y} + {x}",
            f"{y} / ({x}.abs() + 1)",
            f"torch.stack([{x}, {x} * 2])",
            f"{x}.expand(3)",
            f"{x}.reshape(1, 1)",
        )
    )


WRITERS: list[tuple[int, Any]] = [
    (9, along), (4, along_several), (4, whole), (4, of_integers), (6, product), (3, similar), (2, scalar_result),
]  # fmt: skip
