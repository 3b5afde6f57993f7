"""Writes in place, into tensors and through views of them."""

from __future__ import annotations

from typing import Any

import torch

from ..builder import Builder, Rejected

_IN_PLACE = (
    "{x}.add_(1)", "{x}.mul_(0.5)", "{x}.relu_()", "{x}.clamp_(-1, 1)", "{x}.neg_()", "{x}.sigmoid_()", "{x} += 1", "{x} *= 2", "{x} -= 0.5", "{x} /= 2", "torch.relu_({x})",
    "F.relu({x}, inplace=True)", "{x}.tanh_()", "{x}.copy_({x} * 2)", "{x}.sub_({x}.mean())", "{x}.masked_fill_({x} > 0, 0.5)", "{x}.abs_()", "{x}.div_(3)", "{x}.round_()",
)  # fmt: skip
_THROUGH = (
    "{x}[0] = 1.0", "{x}[..., 0] = 0.5", "{x}[0] += 1", "{x}[:1] *= 2", "{x}[..., -1] = {x}[..., 0] * 2", "{x}[-1:] = 0", "{x}[::2] = -1", "{x}.view(-1)[0] = 3.0",
    "{x}.view(-1)[::2] = 0", "{x}.flatten()[0] = 7.0", "{x}[{x} > 0.5] = 0.0", "{x}[torch.tensor([0])] = 2.0", "{x}.narrow(0, 0, 1).zero_()", "{x}.select(-1, 0).mul_(3)",
    "{x}.transpose(0, -1)[0] = 1.5", "{x}.unsqueeze(0)[0, 0] += 2", "{x}[..., :1].add_(1)", "{x}.view_as({x}).add_(1)", "{x}[None][:, 0] = 0.25", "{x}.detach()[0] = 4.0",
    "{x}[...] = {x} * 0.5", "{x}[:] = {x}.flip(0)", "{x}[0, ...] = {x}[-1]", "{x}.index_fill_(0, torch.tensor([0]), 1.0)", "{x}[-1] = {x}[0].clone() + 1", "{x}[1:] += {x}[:-1].clone()",
    "{x}.T[0] = 1.0", "{x}[:, 0] = {x}[:, -1]", "{x}[:, 1:].mul_(2)", "{x}.fill_diagonal_(0.5)", "{x}[:, ::2] += 1", "{x}.unbind(0)[0].add_(1)", "{x}.chunk(2, -1)[0].mul_(2)",
    "{x}[0, 0] = {x}.sum()", "{x}[..., 1:] = {x}[..., :-1] * 0.5", "{x}[torch.tensor([0, 0]), 0] = 2.5", "{x}.index_add_(0, torch.tensor([0, 0]), {x}[:1].repeat(2, 1))",
    "{x}.permute(1, 0)[0].sub_(1)", "{x}.diagonal().zero_()", "{x}.split(1)[0].fill_(0.3)", "{x}.reshape(-1)[-1] = 1.25", "{x}.expand_as({x})[0] = 1.0", "{x}.squeeze(0).add_(1)",
)  # fmt: skip


def whole(b: Builder) -> list[str]:
    x, out = b.floating(0), b.fresh()
    b.writing = True
    lines = [f"{out} = {x}.clone()"] if b.rng.random() < 0.6 else [f"{out} = {x} * 1.5"]
    return [*lines, b.rng.choice(_IN_PLACE).format(x=out)]


def through(b: Builder) -> list[str]:
    x, out = b.floating(1), b.fresh()
    b.writing = True
    lines = [
        b.rng.choice((f"{out} = {x}.clone()", f"{out} = {x} + 0", f"{out} = torch.zeros_like({x})", f"{out} = {x} * 2"))
    ]
    lines += [b.rng.choice(_THROUGH).format(x=out) for _ in range(b.rng.choice((1, 1, 2)))]
    if "zeros_like" in lines[0]:
        lines.append(f"{out} += {x}")
    return lines


def of_another(b: Builder) -> list[str]:
    """A tensor is written to, and one that shares its memory is read afterwards."""
    x, out, view = b.floating(1), b.fresh(), b.fresh()
    b.writing = True
    made = b.rng.choice(
        (
            "{o}[:1]",
            "{o}.view(-1)",
            "{o}.transpose(0, -1)",
            "{o}[..., 0]",
            "{o}.unsqueeze(0)",
            "{o}[::2]",
            "{o}.flatten()",
            "{o}.detach()",
            "{o}.expand_as({o})",
            "{o}.T",
        )
    )
    target, write = b.rng.choice(((out, view), (view, out), (view, view))), b.rng.choice(_IN_PLACE[:8])
    return [f"{out} = {x} * 1", f"{view} = {made.format(o=out)}", write.format(x=target[0])]


def existing(b: Builder) -> list[str]:
    """A value of the program is changed itself, with everything that shares its memory; also an input."""
    x = b.floating(1)
    if x.startswith("x") and b.rng.random() < 0.7:
        raise Rejected
    b.writing = True
    return [b.rng.choice((*_IN_PLACE, *_THROUGH)).format(x=x)]


def assembled(b: Builder) -> list[str]:
    """A result is filled part by part."""
    x, out = b.pick(lambda each: each.is_floating_point() and each.dim() in (2, 3)), b.fresh()
    b.writing = True
    n = b.size(x, 0)
    forms = [[f"{out} = torch.zeros({n}, 3, dtype={x}.dtype)", f"{out}[:, 0] = {x}.flatten(1).sum(1)", f"{out}[:, 1:] = {x}.flatten(1)[:, :1]"],
             [f"{out} = {x}.new_zeros({n} + 1, 2)", f"{out}[1:, 0] = {x}.flatten(1).mean(1)", f"{out}[0] = 1"],
             [f"{out} = torch.empty_like({x})", f"{out}[...] = 0.5", f"{out}[..., :1] = {x}[..., :1]"],
             [f"{out} = torch.ones({n}, {n}, dtype={x}.dtype)", f"{out}[0] = {x}.mean()", f"{out}.fill_diagonal_(0.0)"],
             [f"{out} = torch.zeros_like({x})", "for i in range(2):", f"    {out}[..., 0] += {x}[..., 0] * i", f"{out}[..., -1] = {x}[..., -1]"]]  # fmt: skip
    return b.rng.choice(forms)


def integers(b: Builder) -> list[str]:
    x, out = b.pick(lambda each: each.dtype in (torch.int64, torch.bool) and each.dim() >= 1), b.fresh()
    b.writing = True
    return [
        f"{out} = {x}.clone()",
        b.rng.choice(
            (
                f"{out}[0] = 0",
                f"{out}[..., -1] = 1",
                f"{out}[{out} > 0] = 1",
                f"{out}.view(-1)[0] = 1",
                f"{out}[:1] = {out}[-1:]",
            )
        ),
    ]


WRITERS: list[tuple[int, Any]] = [
    (4, whole),
    (8, through),
    (4, of_another),
    (3, existing),
    (3, assembled),
    (1, integers),
]
