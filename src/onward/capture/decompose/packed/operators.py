"""Recurrent layers over padded sequences with their lengths: what a packed layer is recorded as.

PyTorch has no such operator: its layers take packed rows. ONNX's do, as `sequence_lens`. In PyTorch they are made of
packing, the packed layer and unpacking, which is also how they run for the example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

_LIBRARY = torch.library.Library("onward", "FRAGMENT")
_REST = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"


def _define(name: str, states: str, results: str, layer: Any, packed_layer: Any) -> Any:
    """An operator: PyTorch's layer over [sequence, batch, features], in which each sequence ends at its length."""

    def run(x: Tensor, lengths: Tensor, hx: Any, *rest: Any) -> Sequence[Tensor]:
        ordered, order = lengths.sort(descending=True, stable=True)
        inverse = order.argsort()
        before = [each[:, order] for each in hx] if isinstance(hx, (list, tuple)) else hx[:, order]
        data, sizes = aten._pack_padded_sequence.default(x[:, order], ordered, False)
        made, *after = packed_layer(data, sizes, before, *rest)
        padded, _ = aten._pad_packed_sequence.default(made, sizes, False, 0.0, x.shape[0])
        return padded[:, inverse], *(each[:, inverse] for each in after)

    def sizes_alone(x: Tensor, lengths: Tensor, hx: Any, *rest: Any) -> Sequence[Tensor]:
        """There are no lengths to look at, and the sizes are those of the layer over all steps."""
        return layer(x, hx, *rest, False)

    _LIBRARY.define(f"{name}(Tensor input, Tensor lengths, {states}, {_REST}) -> ({results})")
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    _LIBRARY.impl(name, sizes_alone, "Meta")
    return getattr(torch.ops.onward, name).default


# For every packed layer, the same over padded sequences.
PADDED: dict[Any, Callable[..., Any]] = {
    aten.lstm.data: _define("padded_lstm", "Tensor[] hx", "Tensor, Tensor, Tensor", aten.lstm.input, aten.lstm.data)
}
for _name in ("gru", "rnn_tanh", "rnn_relu"):
    _layer = getattr(aten, _name)
    PADDED[_layer.data] = _define(f"padded_{_name}", "Tensor hx", "Tensor, Tensor", _layer.input, _layer.data)
