"""The other way round: an ONNX file as an nn.Module, run, trained further, and exported again.

python examples/run_on_pytorch.py [model.onnx]
"""

from __future__ import annotations

import sys

import torch
from torch import nn

import onward
import onward.backend


def main(path: str = "model.onnx") -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).eval(), torch.randn(4, 8)
    options = dict(input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}})
    onward.export(model, (x,), path, **options)

    loaded = onward.backend.prepare(path)  # any ONNX file
    (y,) = loaded.run(x)
    print(f"{len(loaded.module.state_dict())} tensors: {', '.join(loaded.module.state_dict())}")
    print(f"off by {(y - model(x)).abs().max().item():.1e} from the model it came from")

    module = loaded.module  # its weights are parameters
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (module(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"trained on: {losses[0]:.3f} became {losses[-1]:.3f}")

    again = onward.export(module, (x,), path, **options, verify=True)
    print(repr(again))


if __name__ == "__main__":
    main(*sys.argv[1:])
