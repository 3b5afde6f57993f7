"""A 4-layer bidirectional LSTM, `nn.LSTM` itself, over sequences of any length: four LSTM nodes, no loop written out.

python examples/bidirectional_lstm.py [lstm.onnx]
"""

from __future__ import annotations

import sys
from collections import Counter

import torch
from torch import nn

import onward

LAYERS, WIDTH = 4, 20


def main(path: str = "lstm.onnx") -> None:
    torch.manual_seed(0)
    model = nn.LSTM(10, WIDTH, num_layers=LAYERS, bidirectional=True).eval()
    state = torch.randn(LAYERS * 2, 3, WIDTH), torch.randn(LAYERS * 2, 3, WIDTH)
    program = onward.export(
        model,
        (torch.randn(5, 3, 10), state),
        path,
        input_names=["input", "h0", "c0"],
        output_names=["output", "hn", "cn"],
        dynamic_axes={"input": {0: "sequence"}},
        verify=True,
    )
    print(repr(program))
    print(f"nodes: {dict(Counter(node.op_type for node in program.model.graph))}")
    for length in (1, 40):
        x = torch.randn(length, 3, 10)
        output, (hn, _) = program(x, state)
        expected, (expected_hn, _) = model(x, state)
        error = max((output - expected).abs().max().item(), (hn - expected_hn).abs().max().item())
        print(f"length {length}: off by {error:.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
