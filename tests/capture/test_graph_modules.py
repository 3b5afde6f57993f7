"""Generated code: which modules are run node by node, and where a node says it comes from."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onward
from onward.capture.frontends.graph_modules import class_name, has_origins, nested_like, source_of
from onward.capture.program.facts import Source


def traced(function: Any) -> torch.fx.GraphModule:
    return torch.fx.symbolic_trace(function)


def test_the_innermost_line_of_the_users_own() -> None:
    node = next(iter(traced(lambda x: x + 1).graph.nodes))
    node.meta["stack_trace"] = (
        '  File "/home/me/model.py", line 7, in forward\n    return self.layer(x)\n'
        '  File "/elsewhere/site-packages/torch/nn/modules/linear.py", line 134, in forward\n    return F.linear()\n'
    )
    assert source_of(node) == Source("/home/me/model.py", 7, "forward")
    node.meta["stack_trace"] = '  File "torch/fx/passes/runtime_assert.py", line 24, in insert_deferred\n'
    assert source_of(node) is None


@pytest.mark.parametrize("kind", (torch.nn.Linear, "torch.nn.modules.linear.Linear", "Linear"))
def test_a_class_by_any_name(kind: Any) -> None:
    assert class_name(kind) == "Linear"


def test_a_module_with_something_around_its_code_is_called_as_it_is() -> None:
    module = traced(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    assert has_origins(module)
    module.register_forward_hook(lambda module, args, result: result * 3)
    assert not has_origins(module)
    x = torch.randn(4, 2)
    program = onward.export(module, (x,), verify=True)
    torch.testing.assert_close(program(x), module(x))


def test_arguments_as_a_program_knows_them() -> None:
    _, spec = torch.utils._pytree.tree_flatten(((1, [2]), {"k": 3}))
    assert nested_like(spec, ["a", ["b"], "c"]) == (("a", ["b"]), {"k": "c"})
    _, flat = torch.utils._pytree.tree_flatten((1, 2))
    assert nested_like(flat, ["a", "b"]) == ("a", "b")


def test_a_value_is_let_go_after_its_last_use() -> None:
    """A value that is used twice in one node, and one that nobody uses."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        _ = x * 2
        return torch.cat([y, y]) * y.sum()

    x = torch.randn(3)
    program = onward.export(traced(forward), (x,), dynamic_axes={"x": {0: "n"}}, verify=True)
    torch.testing.assert_close(program(x), forward(x))
