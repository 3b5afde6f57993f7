"""Views and copies that move elements about."""

from __future__ import annotations

from typing import Any

from ..builder import Builder, Rejected


def reshape(b: Builder) -> str:
    x = b.pick(lambda each: 1 <= each.dim() <= 4)
    rank = b[x].dim()
    word = b.rng.choice(("reshape", "reshape", "view"))
    sizes = [b.size(x, place) for place in range(rank)]
    forms = [f"{x}.{word}({sizes[0]}, -1)", f"{x}.{word}(-1, {sizes[-1]})", f"{x}.{word}(-1)", f"{x}.flatten()",
             f"{x}.{word}({', '.join(sizes)}, 1)", f"{x}.{word}(1, {', '.join(sizes)})"]  # fmt: skip
    if rank > 1:
        forms += [f"{x}.flatten(1)", f"{x}.flatten(0, 1)", f"{x}.flatten(-2)",
                  f"{x}.{word}({sizes[0]} * {sizes[1]}, {', '.join(sizes[2:]) or '1'})",
                  f"{x}.{word}({', '.join([*sizes[:-2], f'{sizes[-2]} * {sizes[-1]}'])})",
                  f"{x}.{word}({', '.join([*sizes[1:], sizes[0]])})"]  # fmt: skip
    for place in range(rank):
        size = b[x].shape[place]
        if b.fixed(x, place) and size % 2 == 0:
            forms += [f"{x}.{word}({', '.join([*sizes[:place], '2', str(size // 2), *sizes[place + 1:]])})",
                      f"{x}.unflatten({place}, (2, {size // 2}))", f"{x}.unflatten({place}, (-1, 2))"]  # fmt: skip
        elif not b.fixed(x, place):
            forms += [f"{x}.{word}({', '.join([*sizes[:place], '-1', *sizes[place + 1:]])})",
                      f"{x}.{word}({', '.join([*sizes[:place], sizes[place] + ' // 1', *sizes[place + 1:]])})"]  # fmt: skip
    return b.rng.choice(forms)


def permute(b: Builder) -> str:
    x = b.pick(lambda each: each.dim() > 1)
    rank = b[x].dim()
    order = b.rng.sample(range(rank), rank)
    forms = [f"{x}.permute({', '.join(map(str, order))})", f"{x}.transpose({b.dim(x)}, {b.dim(x)})", f"{x}.movedim(0, -1)",
             f"{x}.transpose(-1, -2)", f"{x}.transpose(0, 1).contiguous()", f"torch.swapaxes({x}, 0, -1)", f"{x}.mT"]  # fmt: skip
    if rank == 2:
        forms += [f"{x}.t()", f"{x}.T"]
    return b.rng.choice(forms)


def ones(b: Builder) -> str:
    """Dimensions of size 1 come and go."""
    x = b.pick(lambda each: each.dim() < 5)
    forms = [f"{x}.unsqueeze(0)", f"{x}.unsqueeze(-1)", f"{x}[None]", f"{x}[..., None]"]
    for place, size in enumerate(b[x].shape):
        if size == 1 and b.fixed(x, place):
            forms += [f"{x}.squeeze({place})", f"{x}.squeeze({place - b[x].dim()})"] * 3
    if b[x].dim() == 2:
        forms += [f"{x}[:, None]", f"{x}.unsqueeze(1)"]
    return b.rng.choice(forms)


def expand(b: Builder) -> str:
    x = b.pick(lambda each: each.dim() < 4)
    rank = b[x].dim()
    forms = [f"{x}.unsqueeze(0).expand({', '.join(['3'] + ['-1'] * rank)})"]
    if rank:
        forms += [f"{x}.repeat({', '.join(['2'] + ['1'] * (rank - 1))})", f"{x}.repeat({', '.join(['2'] + ['1'] * rank)})",
                  f"torch.tile({x}, (2,))", f"{x}.repeat_interleave(2, dim={b.dim(x)})", f"{x}.repeat_interleave(2)",
                  f"{x}.unsqueeze(1).expand(-1, 2{', -1' * (rank - 1)})",
                  f"{x}[None].expand({b.size(x, 0)}{', -1' * rank})"]  # fmt: skip
        other = b.pick(lambda each: each.dim() == rank)
        forms += [
            f"{x}.expand_as({other})",
            f"{x}[:1].expand_as({x})",
            f"torch.broadcast_to({x}, ({b.size(other, 0)}, {', '.join(b.size(x, at) for at in range(rank))}))",
        ]
        forms += [f"{x}.unsqueeze(-1).expand({', '.join(b.size(x, at) for at in range(rank))}, {b.size(other, -1)})"]
    return b.rng.choice(forms)


def move(b: Builder) -> str:
    x = b.pick(lambda each: each.dim() >= 1)
    d = b.dim(x)
    forms = [f"torch.roll({x}, 1, {d})", f"{x}.flip({d})", f"torch.roll({x}, -2, dims={d})", f"torch.flip({x}, [{d}])",
             f"{x}.roll(1)", f"{x}.narrow({d}, 0, 1)", f"{x}.unfold({d}, 1, 1)"]  # fmt: skip
    if b[x].dim() >= 2:
        forms += [f"{x}.tril()", f"{x}.triu(1)", f"torch.tril({x}, diagonal=-1)", f"{x}.diagonal(0, -2, -1)", f"torch.rot90({x}, 1, [0, 1])",
                  f"torch.flip({x}, [0, -1])", f"torch.diag_embed({x})", f"torch.roll({x}, (1, 2), (0, 1))"]  # fmt: skip
    if b.fixed(x, d) and b[x].shape[d] >= 2:
        forms += [f"{x}.unfold({d}, 2, 1)", f"{x}.unfold({d}, 2, 2)", f"{x}.narrow({d}, 1, {b[x].shape[d] - 1})"] * 2
    return b.rng.choice(forms)


def pad(b: Builder) -> str:
    x = b.floating(1, 4)
    return b.rng.choice(("F.pad({x}, (1, 1))", "F.pad({x}, (0, 2), value=0.5)", "F.pad({x}, (2, 0, 1, 0))", "F.pad({x}, (-1, 1))",
                         "F.pad({x}, (1, 1), mode='replicate')", "F.pad({x}, (1, 1), mode='reflect')", "F.pad({x}, (1, 0), mode='circular')",
                         "F.pad({x}, (1, 1, 0, 1), mode='replicate')", "F.pad({x}, (0, 0, 1, 0))")).format(x=x)  # fmt: skip


def join(b: Builder) -> str:
    x = b.pick(lambda each: each.dim() >= 1)
    d = b.dim(x)
    rank, same = b[x].dim(), b[x].shape
    place = d % rank

    def fits(other: Any) -> bool:
        return other.dim() == rank and all(at == place or other.shape[at] == same[at] for at in range(rank))

    y = b.pick(fits)
    forms = [f"torch.cat([{x}, {y}], {d})", f"torch.cat(({x}, {y}, {x}), dim={d})", f"torch.cat([{x}, {y}[:1]], 0)"]
    if b[y].shape == same:
        forms += [f"torch.stack([{x}, {y}], {b.rng.randrange(rank + 1)})", f"torch.stack(({x}, {y}), dim=-1)", f"torch.stack([{x}, {y}])",
                  f"torch.hstack([{x}, {y}])", f"torch.vstack([{x}, {y}])", f"torch.dstack([{x}, {y}])"]  # fmt: skip
    return b.rng.choice(forms)


def split(b: Builder) -> list[str]:
    x = b.pick(lambda each: each.dim() >= 1)
    d = b.dim(x)
    size = b[x].shape[d]
    first, second = b.fresh(), b.fresh()
    if b.fixed(x, d) and size >= 2:
        cut = b.rng.randrange(1, size)
        forms = [
            f"{first}, {second} = {x}.split([{cut}, {size - cut}], {d})",
            f"{first}, {second} = torch.tensor_split({x}, [{cut}], dim={d})",
        ]
        if size == 2:
            forms += [f"{first}, {second} = {x}.unbind({d})"] * 2
        forms += [
            f"{first}, {second} = {x}.chunk(2, dim={d})",
            f"{first}, {second} = torch.tensor_split({x}, 2, dim={d})",
        ]
        if size % 2 == 0:
            forms += [f"{first}, {second} = torch.split({x}, {size // 2}, dim={d})"]
        return [b.rng.choice(forms)]
    forms = [f"{first} = {x}.split(1, {d})[0]", f"{first} = torch.cat({x}.chunk(3, {d}), {d})", f"{first} = {x}.chunk(2, {d})[0]",
             f"{first} = {x}.unbind({d})[0]", f"{first} = torch.stack({x}.unbind({d}))", f"{first} = {x}.tensor_split(2, {d})[0]"]  # fmt: skip
    return [b.rng.choice(forms)]


def sequence_like(b: Builder) -> str:
    """The reshapes of attention heads and patches."""
    x = b.pick(lambda each: each.dim() == 3)
    if not b.fixed(x, 2) or b[x].shape[2] % 2:
        raise Rejected
    n, s, w = (b.size(x, at) for at in range(3))
    half = b[x].shape[2] // 2
    return b.rng.choice((f"{x}.view({n}, {s}, 2, {half}).transpose(1, 2)", f"{x}.reshape({n}, {s}, 2, -1).permute(0, 2, 1, 3)",
                         f"{x}.reshape({n} * {s}, 2, {half}).sum(1)", f"{x}.view({n}, -1, 2).mean(1)",
                         f"{x}.transpose(0, 1).reshape({s}, {n} * 2, {half})",
                         f"{x}.view({n}, {s}, 2, {half}).transpose(1, 2).reshape({n}, {s}, {w})"))  # fmt: skip


WRITERS: list[tuple[int, Any]] = [
    (8, reshape), (5, permute), (5, ones), (4, expand), (5, move), (2, pad), (5, join), (4, split), (3, sequence_like),
]  # fmt: skip
