"""Inputs and weights that have no form in ONNX, and names that no file can hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import onward

Tensor = torch.Tensor
X = torch.ones(2, 3)


class Twice(torch.nn.Module):
    def __init__(self, held: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("held", held)

    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def _nested(layout: torch.layout) -> Tensor:
    return torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=layout)


DENSE = ", and inputs of an ONNX model are dense\n  pass a dense tensor, and convert it inside the model if need be"
INPUTS: dict[str, tuple[Any, str]] = {
    "nested": (lambda: _nested(torch.strided), f"the tensor for 'x' is nested{DENSE}"),
    "jagged": (lambda: _nested(torch.jagged), f"the tensor for 'x' is nested{DENSE}"),
    "mkldnn": (lambda: torch.ones(2, 3).to_mkldnn(), f"the tensor for 'x' is mkldnn{DENSE}"),
    "sparse": (lambda: torch.eye(3).to_sparse(), f"the tensor for 'x' is sparse_coo{DENSE}"),
    **{
        name: (
            lambda name=name: torch.zeros(2, 4, dtype=torch.uint8).view(getattr(torch, name)),
            f"the tensor for 'x' is of torch.{name}, which PyTorch has no operators for\n"
            "  pass it as torch.uint8, and take the bits apart inside the model",
        )
        for name in ("uint4", "int1", "bits8", "bits16", "float4_e2m1fn_x2")
    },
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("axes", [None, {"x": {0: "batch"}}])
@pytest.mark.parametrize("name", INPUTS)
def test_an_input_without_a_form(name: str, axes: Any) -> None:
    make, text = INPUTS[name]
    with pytest.raises(onward.InputError) as caught:
        onward.export(Twice(), (make(),), dynamic_axes=axes)
    assert str(caught.value) == text


def test_a_lazy_module_is_called_first() -> None:
    model = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.ReLU())
    with pytest.raises(onward.InputError) as caught:
        onward.export(model, (X,))
    assert str(caught.value) == (
        "the parameter '0.weight' has no shape yet: it belongs to a lazy module that was never called\n"
        "  call the model once first, with inputs like the example's"
    )
    model(X)
    torch.testing.assert_close(onward.export(model, (X,))(X), model(X))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("nested", lambda: _nested(torch.strided)),
        ("sparse_coo", lambda: torch.eye(3).to_sparse()),
        ("sparse_csr", lambda: torch.eye(3).to_sparse_csr()),
        ("mkldnn", lambda: torch.eye(3).to_mkldnn()),
    ],
)
def test_a_buffer_without_a_form(kind: str, make: Any) -> None:
    with pytest.raises(onward.InputError, match=f"the buffer 'held' is a {kind} tensor"):
        onward.export(Twice(make()), (X,))


@pytest.mark.parametrize("dtype", [torch.float4_e2m1fn_x2, torch.bits8, torch.uint2])
def test_a_constant_of_a_dtype_without_a_form(dtype: torch.dtype) -> None:
    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, torch.empty(2, dtype=dtype)

    with pytest.raises(onward.LoweringError, match=str(dtype).rpartition(".")[2]):
        onward.export(model, (X,), allow_constant_outputs=True)


def test_the_default_device_meta() -> None:
    text = "the default device is \"meta\", on which tensors have no data, and the example is on 'cpu'"
    with torch.device("meta"), pytest.raises(onward.InputError, match=text):
        onward.export(Twice(), (X,), dynamic_axes={"x": {0: "batch"}})


@pytest.mark.parametrize(
    "options",
    [{"input_names": ["a\ud800"]}, {"output_names": ["a\ud800"]}, {"dynamic_axes": {"x": {0: "a\ud800"}}}],
    ids=str,
)
def test_a_name_that_a_user_chose_has_a_form_in_utf8(options: dict[str, Any]) -> None:
    with pytest.raises(onward.InputError, match=r"has the name 'a\\ud800', which has no form in UTF-8"):
        onward.export(Twice(), (X,), **options)


def test_names_that_the_model_has_are_written_out(tmp_path: Path) -> None:
    source = (
        "import torch\n"
        "class Odd(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self._modules['part\\ud800'] = torch.nn.Linear(3, 3)\n"
        "    def forward(self, x):\n"
        "        return {'key\\ud800': self._modules['part\\ud800'](x['in\\ud800'])}\n"
    )
    space: dict[str, Any] = {"__name__": "odd"}
    exec(compile(source, "odd\udcff.py", "exec"), space)
    model = space["Odd"]()
    onward.export(model, ({"in\ud800": X}, {}), tmp_path / "odd.onnx", verify=True)
    graph = onnx.load(tmp_path / "odd.onnx").graph
    assert [graph.input[0].name, graph.output[0].name] == ["x_in\\ud800", "key\\ud800"]
    assert {each.name for each in graph.initializer} == {"part\\ud800.weight", "part\\ud800.bias"}
