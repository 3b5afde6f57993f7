"""The compiler: loaded for the first time in the middle of an export, and as able afterwards as ever."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

START = """
    import sys
    import warnings

    import torch

    import onward

    assert "torch._dynamo" not in sys.modules, "the test needs a process that has not loaded the compiler"
    warnings.simplefilter("error", onward.CaptureWarning)
    linear, x = torch.nn.Linear(4, 4), torch.ones(2, 4)
"""
COND = """
    def forward(x):
        return torch.cond(x.sum() > 0, lambda x: linear(x).relu(), lambda x: x * 3, (x,))
"""
COMPILED = """
    def forward(x):
        return torch.compile(linear, backend="eager")(x) * 2
"""
END = """
    program = onward.export(forward, (x,), dynamic_axes={"x": {0: "batch"}})
    stance = torch._dynamo.eval_frame._stance.stance
    assert stance == "default", stance

    seen = []
    def compiled(graph, inputs):
        seen.append(graph)
        return graph.forward
    for given in (torch.ones(3, 4), -torch.ones(3, 4)):
        expected = forward(given)
        torch.testing.assert_close(program(given), expected)
        torch.testing.assert_close(torch.compile(forward, backend=compiled, fullgraph=True)(given), expected)
    assert seen, "nothing was compiled"
"""


@pytest.mark.parametrize("model", [COND, COMPILED], ids=["cond", "compiled in the forward"])
def test_loaded_by_the_model(model: str) -> None:
    script = "".join(map(textwrap.dedent, (START, model, END)))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
