"""Models of torchvision as scripts: the same file as from a trace, in number of nodes and in what it computes."""

from __future__ import annotations

import pytest
import torch

import onward

from ._torchvision import torchvision_models


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "googlenet"])
def test_a_scripted_model_is_as_good_as_the_traced_one(name: str) -> None:
    torch.manual_seed(0)
    options = {"init_weights": False} if name == "googlenet" else {}
    model = getattr(torchvision_models(), name)(weights=None, **options).eval()
    example = (torch.randn(2, 3, 64, 64),)
    axes = {"x": {0: "batch"}}
    scripted = onward.export(torch.jit.script(model), example, dynamic_axes=axes)
    traced = onward.export(model, example, dynamic_axes=axes)
    assert [node.op_type for node in scripted.model.graph] == [node.op_type for node in traced.model.graph]
    assert scripted.warnings == ()
    x = torch.randn(3, 3, 64, 64)
    result = scripted(x)
    if name == "googlenet":  # as a script it always returns the auxiliary outputs too, which are None
        result, *auxiliary = result
        assert auxiliary == [None, None]
    with torch.no_grad():
        torch.testing.assert_close(result, model(x), rtol=1e-3, atol=1e-4)
