"""Layers of torch.nn, and functions that networks are built of."""

from __future__ import annotations

from typing import Any

import torch

from ..builder import Builder, Rejected


def _cast(b: Builder, x: str) -> str:
    """What moves a layer to the type of its input."""
    dtype = b[x].dtype
    return "" if dtype is torch.float32 else f".to({dtype})"


def _channels(b: Builder, x: str, place: int) -> int:
    if not b.fixed(x, place):
        raise Rejected
    return b[x].shape[place]


def linear(b: Builder) -> str:
    x = b.floating(1)
    width, out = _channels(b, x, -1), b.rng.choice((1, 3, 4, 6))
    made = b.rng.choice((f"nn.Linear({width}, {out})", f"nn.Linear({width}, {out}, bias=False)", f"nn.Sequential(nn.Linear({width}, {out}), nn.ReLU())",
                         f"nn.Sequential(nn.LayerNorm({width}), nn.Linear({width}, {out}), nn.GELU(), nn.Linear({out}, {width}))"))  # fmt: skip
    return f"{b.layer(made + _cast(b, x))}({x})"


def convolution(b: Builder) -> str:
    x = b.floating(2, 4)
    rank = b[x].dim()
    if rank == 2:
        x, rank = f"{x}[:, None]", 3
        base = x.split("[")[0]
        channels, cast = 1, _cast(b, base)
    else:
        channels, cast = _channels(b, x, 1), _cast(b, x)
    word = "Conv1d" if rank == 3 else "Conv2d"
    out = b.rng.choice((channels, 2, 4))
    options = b.rng.choice((", padding=1", "", ", stride=2, padding=1", ", padding=2, dilation=2", ", padding='same'", f", padding=1, groups={channels}",
                            ", padding=1, padding_mode='circular'", ", bias=False, padding=1", ", padding=1, padding_mode='reflect'"))  # fmt: skip
    kernel = b.rng.choice((1, 2, 3, 3))
    if b.rng.random() < 0.25:
        options = b.rng.choice(("", ", stride=2", ", stride=2, padding=1, output_padding=1", ", padding=1"))
        word = word.replace("Conv", "ConvTranspose")
    if "groups" in options:
        out = channels
    return f"{b.layer(f'nn.{word}({channels}, {out}, {kernel}{options}){cast}')}({x})"


def norm(b: Builder) -> str:
    x = b.floating(2, 4)
    cast, rank = _cast(b, x), b[x].dim()
    kinds = [
        f"nn.LayerNorm({_channels(b, x, -1)})",
        f"nn.RMSNorm({b[x].shape[-1]})",
        f"nn.LayerNorm({b[x].shape[-1]}, elementwise_affine=False)",
    ]
    if b.fixed(x, 1):
        channels = b[x].shape[1]
        kinds += [
            f"nn.BatchNorm{'1d' if rank < 4 else '2d'}({channels})",
            f"nn.GroupNorm({channels}, {channels})",
            f"nn.GroupNorm(1, {channels})",
        ]
        if rank > 2:
            kinds += [
                f"nn.InstanceNorm{rank - 2}d({channels})",
                f"nn.InstanceNorm{rank - 2}d({channels}, affine=True)",
                f"nn.PReLU({channels})",
            ]
    return f"{b.layer(b.rng.choice(kinds) + cast)}({x})"


def pool(b: Builder) -> str:
    x = b.floating(3, 4)
    n = b[x].dim() - 2
    kinds = [f"nn.MaxPool{n}d(2)", f"nn.AvgPool{n}d(2)", f"nn.AdaptiveAvgPool{n}d(1)", f"nn.AdaptiveMaxPool{n}d(1)", f"nn.MaxPool{n}d(3, stride=1, padding=1)",
             f"nn.AvgPool{n}d(3, stride=2, padding=1)", f"nn.MaxPool{n}d(2, ceil_mode=True)", f"nn.AvgPool{n}d(2, ceil_mode=True)",
             f"nn.AvgPool{n}d(3, 1, 1, count_include_pad=False)", f"nn.LPPool{n}d(2, 2)", f"nn.AdaptiveAvgPool{n}d(2)"]  # fmt: skip
    forms = [f"{b.layer(b.rng.choice(kinds))}({x})"]
    if n == 2:
        forms += [f"F.interpolate({x}, scale_factor=2)", f"F.interpolate({x}, scale_factor=2.0, mode='bilinear', align_corners=False)",
                  f"F.interpolate({x}, size=(4, 4), mode='nearest')", f"F.interpolate({x}, size=({b.size(x, 2)} * 2, {b.size(x, 3)}), mode='bilinear', align_corners=True)",
                  f"F.pixel_unshuffle({x}, 1)", f"F.unfold({x}, 2)", f"F.max_pool2d({x}, 2, 1)"]  # fmt: skip
    else:
        forms += [
            f"F.interpolate({x}, scale_factor=2, mode='linear')",
            f"F.interpolate({x}, size={b.size(x, 2)} + 1)",
            f"F.max_pool1d({x}, 2, 1)",
        ]
    if b.rng.random() < 0.4:
        b.pending.clear()
        return b.rng.choice(forms[1:])
    return forms[0]


def recurrent(b: Builder) -> list[str]:
    x = b.pick(
        lambda each: each.is_floating_point() and each.dim() in (2, 3) and each.dtype in (torch.float32, torch.float64)
    )
    width, cast = _channels(b, x, -1), _cast(b, x)
    kind = b.rng.choice(("LSTM", "GRU", "RNN"))
    options = b.rng.choice(
        (
            "",
            ", batch_first=True",
            ", num_layers=2",
            ", bidirectional=True",
            ", batch_first=True, bidirectional=True",
            ", bias=False",
        )
    )
    layer, out, state = b.layer(f"nn.{kind}({width}, 3{options}){cast}"), b.fresh(), b.fresh()
    if b.rng.random() < 0.3:
        return [f"{out} = {layer}({x})[0]"]
    return [f"{out}, ({state}, {b.fresh()}) = {layer}({x})"] if kind == "LSTM" else [f"{out}, {state} = {layer}({x})"]


def cell(b: Builder) -> list[str]:
    """A loop over a fixed number of steps with a recurrent cell."""
    x = b.pick(lambda each: each.dtype is torch.float32 and each.dim() == 2)
    width = _channels(b, x, 1)
    layer, h = b.layer(f"nn.GRUCell({width}, 3)"), b.fresh()
    return [f"{h} = torch.zeros({b.size(x, 0)}, 3)", "for i in range(2):", f"    {h} = {layer}({x}, {h})"]


def attention(b: Builder) -> list[str] | str:
    x = b.pick(lambda each: each.is_floating_point() and each.dim() in (3, 4))
    width, cast, out = _channels(b, x, -1), _cast(b, x), b.fresh()
    forms = [f"{out} = F.scaled_dot_product_attention({x}, {x}, {x})", f"{out} = F.scaled_dot_product_attention({x}, {x}, {x}, is_causal=True)",
             f"{out} = torch.softmax({x} @ {x}.transpose(-1, -2) / math.sqrt({width}), dim=-1) @ {x}"]  # fmt: skip
    if b[x].dim() == 3 and width % 2 == 0:
        options = b.rng.choice(("", ", batch_first=True"))
        if b.rng.random() < 0.5:
            return [f"{out} = {b.layer(f'nn.MultiheadAttention({width}, 2{options}){cast}')}({x}, {x}, {x})[0]"]
        if b.rng.random() < 0.5:
            made = f"nn.TransformerEncoderLayer({width}, 2, dim_feedforward=6, dropout=0.0{options}){cast}"
            return [f"{out} = {b.layer(made)}({x})"]
    return [b.rng.choice(forms)]


def embedding(b: Builder) -> str:
    i = b.pick(lambda each: each.dtype in (torch.int64, torch.int32) and each.dim() <= 2)
    if b[i].dim() == 2 and b.rng.random() < 0.3:
        return f"{b.layer('nn.EmbeddingBag(7, 4)')}({i} % 7)"
    options = b.rng.choice(("", ", padding_idx=0"))
    return f"{b.layer(f'nn.Embedding(7, 4{options})')}({i} % 7)"


def shared(b: Builder) -> list[str]:
    """One layer in several places, and lists of layers."""
    x = b.floating(2, 3)
    width, cast, out = _channels(b, x, -1), _cast(b, x), b.fresh()
    if b.rng.random() < 0.5:
        layer = b.layer(f"nn.Linear({width}, {width}){cast}")
        return [b.rng.choice((f"{out} = {layer}(torch.tanh({layer}({x})))", f"{out} = {layer}({x}) + {layer}({x}.flip(0))",
                              f"{out} = F.linear({x}, {layer}.weight) + {layer}({x})", f"{out} = F.linear({layer}({x}), {layer}.weight.t())"))]  # fmt: skip
    layer = b.layer(f"nn.ModuleList([nn.Linear({width}, {width}) for _ in range(3)]){cast}")
    return [
        f"{out} = {x}",
        f"for layer in {layer}:",
        f"    {out} = {b.rng.choice(('torch.relu', 'torch.tanh', 'F.gelu'))}(layer({out})){b.rng.choice(('', f' + {out}'))}",
    ]


def activation(b: Builder) -> str:
    x = b.floating(1)
    kind = b.rng.choice(("ReLU()", "GELU()", "SiLU()", "Softmax(-1)", "LogSoftmax(-1)", "ELU()", "Hardswish()", "LeakyReLU(0.1)", "Softplus()", "Tanh()", "PReLU()",
                         "GLU()", "Identity()", "Flatten()", "Dropout(0.0)", "ReLU(inplace=True)", "Hardtanh()", "Mish()", "Softsign()", "Threshold(0.1, 0.5)"))  # fmt: skip
    if "inplace" in kind:
        b.writing = True
    return f"{b.layer(f'nn.{kind}' + (_cast(b, x) if 'PReLU' in kind else ''))}({x})"


WRITERS: list[tuple[int, Any]] = [
    (8, linear), (6, convolution), (5, norm), (5, pool), (4, recurrent), (1, cell), (4, attention), (3, embedding), (4, shared), (4, activation),
]  # fmt: skip
