"""What a run of the model holds on to while it goes on."""

from __future__ import annotations

import gc
import weakref

import torch

from .tracing import traced


def test_a_run_lets_go_of_each_tensor_that_the_model_lets_go_of() -> None:
    """An export keeps Python's collector of cycles off: a tensor in a cycle would stay until the export is done."""
    alive: list[int] = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        made = []
        for _ in range(4):
            x = torch.relu(x) * 2.0 + torch.ones(1)
            made.append(weakref.ref(x.example))  # type: ignore[attr-defined]
        alive.append(sum(each() is not None for each in made))
        return x.sum()

    gc.collect()
    gc.disable()
    try:
        traced(forward, torch.ones(2, 3), {"x": {0: "rows"}})
    finally:
        gc.enable()
    assert alive and set(alive) == {1}  # the last one, which the model still holds
