"""Tiny models of transformers whose layers loop over the sequence, over experts or over images, in Python.

`tests/contract/h_real.py` has larger ones, and those of other packages.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

import onward

from ..contract import h_real
from ._torchvision import torchvision_models
from ._weights import seeded

torchvision_models()  # before transformers, some of whose models import torchvision
pytest.importorskip("transformers")

SMALL = {"num_hidden_layers": 1, "num_local_experts": 3}
ROWS = [
    ("mamba", h_real.causal("Mamba", **{**h_real.MAMBA, **SMALL})),
    ("mixtral", h_real.causal("Mixtral", **{**h_real.MIXTRAL, **SMALL})),
]


@pytest.mark.parametrize("build", [pytest.param(build, id=name) for name, build in ROWS])
def test_sequences_of_other_lengths(build: Callable[[], nn.Module]) -> None:
    model = seeded(build).eval()
    program = onward.export(model, h_real.tokens(2, 5), dynamic_axes=h_real.SEQUENCE, verify=True)
    assert any("loop kept as Loop" in note for note in program.warnings)
    assert not any("keeps the example's" in note for note in program.warnings)
    for batch, length in ((1, 1), (3, 2), (1, 12)):
        ids = h_real.tokens(batch, length)
        torch.testing.assert_close(program(*ids), model(*ids), rtol=1e-4, atol=1e-5)


def test_images_of_a_text() -> None:
    """LLaVA puts `torch.cat(list(features))` into the text, and writes numbers of tokens into a message."""
    model = seeded(h_real.llava).eval()
    axes = {"input_ids": {0: "batch"}, "pixels": {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = onward.export(model, h_real.tokens_and_pictures(2), dynamic_axes=axes, verify=True)
    for batch in (1, 3):
        args = h_real.tokens_and_pictures(batch)
        torch.testing.assert_close(program(*args), model(*args), rtol=1e-4, atol=1e-5)
