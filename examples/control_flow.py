"""Loops and branches that depend on data: plain Python stays in the file, as Loop and If.

    python examples/control_flow.py [loop.onnx] [branch.onnx]

More of the kind: newton.py (torch.while_loop), scan_rnn.py (scan), greedy_decoding.py (a scripted decoder).
"""

from __future__ import annotations

import sys
import warnings

import torch
from torch import Tensor, nn

import onward


class Loop(nn.Module):
    """Adds up 0..n-1, `n` being data."""

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        for i in range(int(n)):
            x = x + i
        return x


class Branch(nn.Module):
    """One of two sides, and then as many turns as it takes."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            x = x.sqrt()
        else:
            x = -x
        while x.max() > 1:
            x = x / 2
        return x


class Lookup(nn.Module):
    """Looks a number from data up in a list of Python's, of which a file knows nothing."""

    scales = (0.5, 1.0, 3.0)

    def forward(self, x: Tensor, kind: Tensor) -> Tensor:
        return x * self.scales[int(kind)]


def main(loop_path: str = "loop.onnx", branch_path: str = "branch.onnx") -> None:
    loop = onward.export(Loop(), (torch.ones(1), torch.tensor(5)), loop_path, verify=True)
    print(f"the loop is kept: {[node.op_type for node in loop.model.graph]}")
    x, n = torch.ones(1), torch.tensor(9)
    print(f"  n = 9: {loop(x, n).item():g}, and PyTorch says {Loop()(x, n).item():g}")

    branch = onward.export(Branch(), (torch.ones(3),), branch_path, verify=True)
    print(f"so are the branch and the while: {[node.op_type for node in branch.model.graph]}")
    for value in (9.0, -5.0):
        x = torch.full((3,), value)
        print(f"  {value:g} -> {branch(x).tolist()}, and PyTorch says {Branch()(x).tolist()}")

    with warnings.catch_warnings(record=True) as caught:  # what cannot be kept is never passed over in silence
        warnings.simplefilter("always")
        onward.export(Lookup(), (torch.ones(1), torch.tensor(2)))
    print(f"warned: {caught[0].message}")


if __name__ == "__main__":
    main(*sys.argv[1:])
