"""Loops and branches that depend on data: plain Python, a script, and torch.cond.

    python examples/control_flow.py [loop.onnx] [branch.onnx]

More of the kind: newton.py (torch.while_loop), scan_rnn.py (scan), greedy_decoding.py (a scripted decoder).
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

import onward


class Loop(nn.Module):
    """Adds up 0..n-1, `n` being data."""

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        for i in range(int(n)):
            x = x + i
        return x


@torch.jit.script
def scripted_loop(x: Tensor, n: Tensor) -> Tensor:
    for i in range(int(n)):
        x = x + i
    return x


class Mixed(nn.Module):
    """Traced, except for the function that it calls."""

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        return scripted_loop(x * 2, n)


class Branch(nn.Module):
    """One of two sides, chosen when the file runs."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sqrt(), lambda x: -x, (x,))


def main(loop_path: str = "loop.onnx", branch_path: str = "branch.onnx") -> None:
    example = torch.ones(1), torch.tensor(5)
    plain = onward.export(Loop(), example, verify=True)
    print(f"the loop in plain Python is kept: {[node.op_type for node in plain.model.graph]}")
    print(f"  noted: {plain.warnings[0]}")

    kept = onward.export(Mixed(), example, loop_path, verify=True)
    print(f"the scripted loop is kept: {[node.op_type for node in kept.model.graph]}")
    x, n = torch.ones(1), torch.tensor(9)
    print(f"  n = 9: {kept(x, n).item():g}, and PyTorch says {Mixed()(x, n).item():g}")

    branch = onward.export(Branch(), (torch.ones(3),), branch_path, verify=True)
    print(f"torch.cond is an If: {[node.op_type for node in branch.model.graph]}")
    for value in (4.0, -4.0):
        print(f"  {value:g} -> {branch(torch.full((3,), value)).tolist()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
