"""Python's own control flow, decided by sizes and by constants."""

from __future__ import annotations

from typing import Any

from ..builder import Builder, Rejected

_CHANGES = (
    "{x} * 2",
    "{x} + 1",
    "torch.relu({x})",
    "{x} - {x}.mean()",
    "torch.tanh({x})",
    "{x}.abs()",
    "-{x}",
    "{x} * 0.5",
    "{x}.clamp(-1, 1)",
)


def _condition(b: Builder) -> str:
    x = b.pick(lambda each: each.dim() >= 1)
    n = b.size(x, b.rng.randrange(b[x].dim()))
    found = [name for name, value in b.variables.items() if type(value) is int]
    if found and b.rng.random() < 0.5:
        n = b.rng.choice(found)
    k = b.rng.choice((1, 2, 3, 4, 8))
    return b.rng.choice(
        (
            f"{n} > {k}",
            f"{n} == {k}",
            f"{n} % 2 == 0",
            f"{n} < {k}",
            f"{n} != 1",
            f"{n} >= {k} and {n} < {k + 4}",
            f"{n} // 2 > {k}",
            f"{x}.dim() == 3",
            f"{x}.numel() > {4 * k}",
            f"not {n} > {k}",
        )
    )


def branch(b: Builder) -> list[str]:
    x, out = b.floating(), b.fresh()
    first, second = b.rng.sample(_CHANGES, 2)
    return [f"if {_condition(b)}:", f"    {out} = {first.format(x=x)}", "else:", f"    {out} = {second.format(x=x)}"]


def one_sided(b: Builder) -> list[str]:
    x, out = b.floating(), b.fresh()
    return [f"{out} = {x}", f"if {_condition(b)}:", f"    {out} = {b.rng.choice(_CHANGES).format(x=out)}"]


def ternary(b: Builder) -> str:
    x = b.floating()
    first, second = b.rng.sample(_CHANGES, 2)
    return f"{first.format(x=x)} if {_condition(b)} else {second.format(x=x)}"


def loop(b: Builder) -> list[str]:
    x, out = b.floating(), b.fresh()
    count = b.rng.choice(("2", "3", "2"))
    change = b.rng.choice((*_CHANGES, "{x} * 0.5 + i", "{x} + {x}.mean() * i"))
    return [f"{out} = {x}", f"for i in range({count}):", f"    {out} = {change.format(x=out)}"]


def collected(b: Builder) -> list[str]:
    """A list that a loop fills."""
    x, out = b.floating(1), b.fresh()
    if not b.fixed(x, 0):
        raise Rejected
    items, count = f"items{out[1:]}", b[x].shape[0]
    return [
        f"{items} = []",
        f"for i in range({min(count, 4)}):",
        f"    {items}.append({x}[i] * {b.rng.choice(('2', '(i + 1)', '0.5'))})",
        f"{out} = torch.stack({items})",
    ]


def turning(b: Builder) -> list[str]:
    """A while loop on a size."""
    x, out, n = b.floating(1), b.fresh(), b.fresh("n")
    size = b.size(x, b.rng.randrange(b[x].dim()))
    return [
        f"{out} = {x}",
        f"{n} = {size}",
        f"while {n} > {b.rng.choice((2, 4, 8))}:",
        f"    {out} = {b.rng.choice(_CHANGES).format(x=out)}",
        f"    {n} = {n} // 2",
    ]


WRITERS: list[tuple[int, Any]] = [(5, branch), (4, one_sided), (4, ternary), (4, loop), (2, collected), (1, turning)]
