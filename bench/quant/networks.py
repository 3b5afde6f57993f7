"""Networks that people ship, at a batch of one: how fast in integers, and whether evaluation gives what the file gives.

Weights are random and batch norms have seen a few pictures; nothing here is about accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

import onward
from onward.quant import QuantConfig
from tests.models._torchvision import torchvision_models
from tests.models._weights import keep_signal, seeded

from .measure import agreement, eagerly, graph, interleaved, run, session
from .methods import OPSET, quantised, reason
from .peers import quantise_statically

SIDE = 224
NETWORKS = (
    "mobilenet_v2",
    "mobilenet_v3_small",
    "mobilenet_v3_large",
    "mnasnet0_5",
    "shufflenet_v2_x0_5",
    "squeezenet1_1",
    "efficientnet_b0",
    "regnet_y_400mf",
    "resnet18",
    "densenet121",
    "googlenet",
    "convnext_tiny",
    "vit_b_16",
)
EXACT = frozenset(NETWORKS) - {"vit_b_16"}  # convolutional: every element has to be equal
_SETTLED = 64  # pixels of the pictures that batch norms are measured on
_OPTIONS: dict[str, dict[str, Any]] = {"googlenet": {"init_weights": False}}


def network(name: str) -> nn.Module:
    """A classifier of torchvision in evaluation mode, whose signal reaches the end."""

    def make() -> nn.Module:
        model: nn.Module = torchvision_models().get_model(name, weights=None, **_OPTIONS.get(name, {}))
        return keep_signal(model) if name == "vit_b_16" else model

    pictures = torch.randn(4, 3, _SETTLED, _SETTLED, generator=torch.Generator().manual_seed(7))
    return seeded(make, settle_on=None if name == "vit_b_16" else (pictures,)).eval()


def measure_network(name: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Milliseconds per run in float, in our integers and in onnxruntime's, one thread, in turn."""
    model = network(name)
    pictures = list(torch.randn(4, 1, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)))
    plain, ours, theirs = (folder / f"{name}{kind}.onnx" for kind in ("", "_ours", "_theirs"))
    onward.export(model, (pictures[0],), plain, opset_version=OPSET)
    aware = quantised(model, pictures, QuantConfig())
    onward.export(aware, (pictures[0],), ours, opset_version=OPSET)
    failed = _reason_of(lambda: quantise_statically(plain, theirs, pictures))
    found = agreement(run(session(ours), torch.cat(pictures)), eagerly(aware, torch.cat(pictures), 1))
    paths = [plain, ours] if failed else [plain, ours, theirs]
    times = dict(zip(("float_ms", "int8_ms", "static_ms"), interleaved(paths, pictures[0], seconds), strict=False))
    about = {"name": name, "exact": name in EXACT, "left_in_float": graph(ours).left_in_float, "static_error": failed}
    for path in paths:
        path.unlink()
    return {**about, **asdict(found), **times, "faster": times["float_ms"] / times["int8_ms"]}


def _reason_of(work: Callable[[], None]) -> str | None:
    try:
        work()
    except Exception as error:  # a tool that fails is a result, told in the table
        return reason(error)
    return None
