"""`Gradient` of ai.onnx.preview.training: derivatives of a part of the graph, by autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from onnx import helper

from onward.backend import BackendError, prepare

TRAINING = "ai.onnx.preview.training"
X = np.array([[1.0, -2.0], [0.5, 3.0]], dtype=np.float32)
W = np.array([[0.3, 0.2], [-1.0, 2.0]], dtype=np.float32)


def model(body: str, gradients: list[tuple[list[str], list[str], dict[str, Any]]], results: list[str]) -> Any:
    """A graph in ONNX's text, and Gradient nodes behind it: inputs, outputs, attributes."""
    text = f"""<ir_version: 10, opset_import: ["" : 20, "{TRAINING}" : 1]>
    g (float[2, 2] x, float[2, 2] w) => (float[2, 2] y) {{ {body} }}"""
    proto = onnx.parser.parse_model(text)
    proto.graph.node.extend(
        helper.make_node("Gradient", inputs, outputs, domain=TRAINING, **attributes)
        for inputs, outputs, attributes in gradients
    )
    del proto.graph.output[:]
    proto.graph.output.extend(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in results)
    return proto


def test_of_a_layer() -> None:
    body = "h = MatMul (x, w)  r = Relu (h)  y = Mul (r, r)"
    made = model(body, [(["x", "w"], ["dx", "dw"], {"xs": ["x", "w"], "y": "y"})], ["y", "dx", "dw"])
    y, dx, dw = prepare(made).run([X, W])
    x, w = torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)
    result = torch.relu(x @ w) ** 2
    result.sum().backward()
    np.testing.assert_allclose(y, result.detach())
    np.testing.assert_allclose(dx, x.grad)
    np.testing.assert_allclose(dw, w.grad)


def test_of_what_lies_between_and_at_other_values() -> None:
    """The inputs of the node say where: here h is given as x, and w is not differentiated by."""
    body = "h = MatMul (x, w)  s = Sigmoid (h)  y = Mul (s, w)"
    made = model(body, [(["x", "w"], ["dh"], {"xs": ["h"], "zs": ["w"], "y": "y"})], ["dh"])
    sigmoid = 1 / (1 + np.exp(-X))
    np.testing.assert_allclose(prepare(made).run([X, W])[0], W * sigmoid * (1 - sigmoid), rtol=1e-5)


def test_twice() -> None:
    body = "s = Mul (x, x)  t = Mul (s, x)  y = Mul (t, w)"
    once = (["x", "w"], ["d"], {"xs": ["x"], "zs": ["w"], "y": "y"})
    twice = (["x", "w"], ["dd"], {"xs": ["x"], "zs": ["w"], "y": "d"})
    d, dd = prepare(model(body, [once, twice], ["d", "dd"])).run([X, W])
    np.testing.assert_allclose(d, 3 * X**2 * W, rtol=1e-5)
    np.testing.assert_allclose(dd, 6 * X * W, rtol=1e-5)


def test_what_does_not_matter_has_the_derivative_0() -> None:
    made = model("y = Exp (x)", [(["x", "w"], ["dx", "dw"], {"xs": ["x", "w"], "y": "y"})], ["dx", "dw"])
    dx, dw = prepare(made).run([X, W])
    np.testing.assert_allclose(dx, np.exp(X), rtol=1e-6)
    np.testing.assert_array_equal(dw, np.zeros_like(W))


def test_through_a_branch() -> None:
    body = """c = Constant <value = bool {1}> ()
    y = If (c) <then_branch = a () => (float[2, 2] p) { p = Mul (x, x) },
                else_branch = b () => (float[2, 2] q) { q = Identity (w) }>"""
    made = model(body, [(["x"], ["dx"], {"xs": ["x"], "y": "y"})], ["dx"])
    np.testing.assert_allclose(prepare(made).run([X, W])[0], 2 * X)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ((["x"], ["d"], {"xs": ["x"], "y": "nowhere"}), "Gradient names 'nowhere', which nothing before it computes"),
        ((["x"], ["d"], {"xs": ["x", "w"], "y": "y"}), "Gradient of 2 xs and 0 zs with 1 inputs"),
    ],
)
def test_malformed(node: Any, text: str) -> None:
    with pytest.raises(BackendError, match=text):
        prepare(model("y = Exp (x)", [node], ["d"]))
