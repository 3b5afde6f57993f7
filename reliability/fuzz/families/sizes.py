"""Arithmetic on sizes, and what is made of the results."""

from __future__ import annotations

from typing import Any

from ..builder import Builder

_OF_ONE = (
    "{n} * 2", "{n} // 2", "{n} % 3", "max({n}, 3)", "int({n} * 0.5)", "math.ceil({n} / 2)", "{n} + 1", "{n} - 1", "({n} + 1) // 2", "{n} ** 2",
    "min({n}, 4)", "{n} // 2 * 2", "-(-{n} // 2)", "int({n} / 2)", "int(math.sqrt({n}))", "abs({n} - 4)", "{n} * 3 // 2", "round({n} * 1.5)", "math.floor({n} * 0.7)",
    "{n} % 2", "2 * {n} - 1", "max({n} - 2, 1)", "int({n} ** 0.5)", "({n} - 1) % 4 + 1",
)  # fmt: skip


def taken(b: Builder) -> list[str]:
    """A size under a name."""
    x = b.pick(lambda each: each.dim() >= 1)
    rank = b[x].dim()
    if rank == 2 and b.rng.random() < 0.4:
        return [f"{b.fresh('n')}, {b.fresh('n')} = {x}.shape"]
    forms = [
        b.size(x, b.rng.randrange(rank)),
        f"{x}.shape[0]",
        f"{x}.size(-1)",
        f"{x}.numel()",
        f"len({x})",
        f"{x}.shape[-1]",
    ]
    return [f"{b.fresh('n')} = {b.rng.choice(forms)}"]


def computed(b: Builder) -> list[str]:
    n = b.number()
    if b.rng.random() < 0.2:
        m = b.number()
        return [
            f"{b.fresh('n')} = {b.rng.choice((f'{n} + {m}', f'{n} * {m}', f'max({n}, {m})', f'min({n}, {m})', f'{n} - {m}', f'{n} // max({m}, 1)'))}"
        ]
    return [f"{b.fresh('n')} = {b.rng.choice(_OF_ONE).format(n=n)}"]


def into_values(b: Builder) -> str:
    """A size becomes part of the values."""
    x, n = b.floating(), b.number()
    forms = [f"{x} * {n}", f"{x} / ({n} + 1)", f"{x} + {n}", f"{x} * ({n} % 3)", f"{x} / math.sqrt({n} * {n} + 1)", f"{x} * ({n} / 7)", f"{x} + torch.tensor({n})",
             f"{x} * float({n})", f"{x} + torch.tensor([{n}, 1]).sum()", f"{x} - {n} // 2", f"{x}.mean() + {n}", f"{x} * ({n} * 0.1)", f"torch.full_like({x}, {n}) + {x}"]  # fmt: skip
    return b.rng.choice(forms)


def creation(b: Builder) -> str:
    """New tensors as long as a size says."""
    x = b.floating(1, 3)
    n = b.size(x, -1)
    forms = [f"{x} + torch.arange({n})", f"{x} * torch.arange({n}, dtype=torch.float32)", f"{x} + torch.ones({n})", f"{x} * torch.linspace(0, 1, {n})",
             f"{x} + torch.zeros({n}, dtype={x}.dtype)", f"{x} + torch.full(({n},), 0.5)", f"{x} * torch.ones_like({x})", f"{x} + {x}.new_zeros({n})",
             f"{x} + torch.arange({n} - 1, -1, -1)", f"{x} + torch.arange(0, 2 * {n}, 2)", f"{x}.unsqueeze(-1) * torch.eye({n})[0]", f"{x} + torch.zeros_like({x}[..., :1])",
             f"{x} * (torch.arange({n}) % 2)", f"{x}.masked_fill(torch.arange({n}) >= 2, 0.0)", f"{x} + torch.arange({n}) / {n}", f"{x} + {x}.new_ones(({n},)) * 2",
             f"{x} * (torch.arange({n}) < {n} // 2)", f"torch.cat([{x}, torch.zeros({x}.shape[:-1] + (1,), dtype={x}.dtype)], -1)"]  # fmt: skip
    return b.rng.choice(forms)


def created_from_number(b: Builder) -> str:
    n = b.number()
    x = b.floating(1)
    if not 0 < b[n] < 60:
        n = "3"
    forms = [f"torch.arange({n}) + {x}.sum()", f"torch.zeros({n}, 2) + {x}.mean()", f"{x}.sum() * torch.ones({n})", f"{x}.mean().expand({n})", f"{x}.mean() * torch.eye({n})",
             f"{x}.repeat_interleave(2, 0)[:{n}]", f"{x}.sum().repeat({n}, 2)", f"F.pad({x}, (0, {n}))", f"{x}.mean() + torch.linspace(-1, 1, {n})",
             f"torch.tril(torch.ones({n}, {n})) * {x}.mean()", f"F.interpolate({x}.flatten()[None, None], size={n})[0, 0]", f"torch.full(({n}, 2), 1.5) * {x}.mean()"]  # fmt: skip
    return b.rng.choice(forms)


def cut_by_number(b: Builder) -> str:
    x, n = b.pick(lambda each: each.dim() >= 1), b.number()
    return b.rng.choice((f"{x}[:{n}]", f"{x}[{n} // 2:]", f"{x}[..., :{n}]", f"{x}[-{n}:]", f"{x}[{n} % {b.size(x, 0)}]", f"{x}[:, :{n}]", f"{x}[:{n}:2]", f"{x}.narrow(0, 0, min({n}, {b.size(x, 0)}))",
                         f"{x}.roll({n}, 0)", f"torch.topk({x}, min({n}, {b.size(x, -1)}), dim=-1)[0]"))  # fmt: skip


def reshaped_by_number(b: Builder) -> str:
    x = b.pick(lambda each: each.dim() >= 2)
    n, m = b.size(x, 0), b.size(x, 1)
    return b.rng.choice((f"{x}.reshape({n} * {m}, -1)", f"{x}.reshape(-1, {n})", f"{x}.reshape({m}, {n}, -1)", f"{x}.reshape({n}, {m} * {x}[0, 0].numel())",
                         f"{x}[:, :{m} // 2 * 2].reshape({n}, {m} // 2, -1)", f"{x}[:{n} // 2 * 2].reshape(2, {n} // 2, -1)", f"{x}.reshape(({n}, -1))", f"{x}.reshape({x}.shape[0], -1).reshape({x}.shape)"))  # fmt: skip


WRITERS: list[tuple[int, Any]] = [
    (5, taken), (6, computed), (4, into_values), (6, creation), (3, created_from_number), (4, cut_by_number), (3, reshaped_by_number),
]  # fmt: skip
