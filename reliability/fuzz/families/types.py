"""Other types, and what they become when they meet."""

from __future__ import annotations

from typing import Any

import torch

from ..builder import Builder


def to_float(b: Builder) -> str:
    x = b.pick()
    return b.rng.choice(("{x}.float()", "{x}.to(torch.float32)", "{x}.double()", "{x}.to(torch.float64)", "{x}.half()", "{x}.to(torch.bfloat16)", "{x}.type(torch.float32)",
                         "{x}.float()", "{x}.to(torch.float16).float()")).format(x=x)  # fmt: skip


def to_integer(b: Builder) -> str:
    x = b.pick()
    return b.rng.choice(("({x} * 3).long()", "({x} * 3).int()", "({x} > 0.1).to(torch.int32)", "({x} * 2).to(torch.int64)", "{x}.bool()", "({x} > 0)", "({x} * 2).to(torch.int8)",
                         "({x} * 2).abs().to(torch.uint8)", "({x} * 3).to(torch.int16)", "({x} * 2).round().long()")).format(x=x)  # fmt: skip


def as_other(b: Builder) -> str:
    x, y = b.pick(), b.pick(lambda each: each.is_floating_point() or each.dtype is torch.int64)
    return b.rng.choice((f"{x}.to({y}.dtype)", f"{x}.type_as({y})", f"{x}.to({y})"))


def meets(b: Builder) -> str:
    """Two types in one operation."""
    x = b.pick()
    return b.rng.choice(("{x} + {x}.float()", "{x} * {x}.double()", "{x}.int() + {x}", "torch.where({x} > 0, {x}, 0)", "{x} + torch.tensor(1.5)", "{x} * torch.tensor(2)",
                         "torch.cat([{x}.flatten(), {x}.flatten().float()])", "{x} + torch.tensor([0.5], dtype=torch.float64)", "torch.where({x} > 0, 1, 0.5)", "{x}.long() * 1.5",
                         "torch.stack([{x}.float(), {x}.double()])", "{x}.half() * 2.0", "{x}.int() / {x}.abs().int().clamp(min=1)", "{x} + True")).format(x=x)  # fmt: skip


WRITERS: list[tuple[int, Any]] = [(4, to_float), (4, to_integer), (2, as_other), (4, meets)]
