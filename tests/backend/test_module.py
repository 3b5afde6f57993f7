"""The backend's module: compiled as one graph, trained, and with nothing kept that nobody needs."""

from __future__ import annotations

import shutil
import weakref
from pathlib import Path
from typing import Any

import onnx.parser
import pytest
import torch
import torch._dynamo
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import bench.backend
import onward
from onward.backend import prepare
from tests.models._weights import seeded

from .test_round_trip import CASES

COMPILED = ("resnet", "mobilenet v2", "vit", "bert", "bert, fixed", "lstm", "gru", "resize", "branch", "sizes")


def both(name: str, tmp_path: Path) -> tuple[nn.Module, nn.Module, tuple[Tensor, ...]]:
    """A module, the backend's of its file, and its arguments."""
    case = CASES[name]
    torch.manual_seed(0)
    module, args = seeded(case.make), case.args()
    file, names = tmp_path / "m.onnx", ["a", "b"][: len(args)]
    onward.export(module, args, file, input_names=names, dynamic_axes=case.axes, verify=False)
    return module, prepare(file).module, args


def tensors(results: Any) -> list[Tensor]:
    return pytree.tree_leaves(results)


@pytest.mark.parametrize("name", COMPILED)
def test_it_compiles_as_one_graph(name: str, tmp_path: Path) -> None:
    module, again, args = both(name, tmp_path)
    torch._dynamo.reset()
    compiled = torch.compile(again, fullgraph=True, backend="aot_eager" if name == "branch" else "eager")
    others = [CASES[name].args(*CASES[name].other)] if name in ("bert", "lstm", "sizes") else []
    for given in (args, *others):
        with torch.no_grad():
            for got, want in zip(tensors(compiled(*given)), tensors(module(*given)), strict=True):
                torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a C++ compiler")
def test_inductor_compiles_it() -> None:
    module = seeded(lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU6(), nn.Flatten()))
    x = torch.randn(5, 2, 4)
    torch._dynamo.reset()
    compiled = torch.compile(prepare(onward.export(module, x)).module, fullgraph=True)
    torch.testing.assert_close(compiled(x), module(x))


@pytest.mark.parametrize(
    ("name", "compiles"),
    [(name, False) for name in ("bert", "lstm", "gru", "vit", "embedding")] + [("lstm", True), ("embedding", True)],
)
def test_gradients_are_those_of_the_original(name: str, compiles: bool, tmp_path: Path) -> None:
    """By name where a weight is in the file as it was, otherwise through what it became: sums are the same."""
    module, again, args = both(name, tmp_path)
    torch._dynamo.reset()
    called = torch.compile(again, fullgraph=True, backend="aot_eager") if compiles else again
    for each in (module, called):
        sum((result**2).sum() for result in tensors(each(*args))).backward()
    before = {name: each.grad for name, each in module.named_parameters() if each.grad is not None}
    after = {name: each.grad for name, each in again.named_parameters() if each.grad is not None}
    same = [name for name in before if name in after and before[name].shape == after[name].shape]
    assert len(same) > 0 or name in ("lstm", "gru")
    for each in same:
        torch.testing.assert_close(after[each], before[each], rtol=1e-3, atol=1e-4)
    total = [sum(float((each**2).sum()) for each in found.values()) for found in (before, after)]
    assert total[1] == pytest.approx(total[0], rel=1e-3)


def test_learning_lowers_the_loss() -> None:
    module = seeded(lambda: nn.LSTM(4, 5))
    x, wanted = torch.randn(6, 2, 4), torch.zeros(6, 2, 5)
    again = prepare(onward.export(module, x)).module
    optimizer = torch.optim.SGD(again.parameters(), lr=0.5)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = ((again(x)[0] - wanted) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_gates_are_put_in_order_again_when_weights_change(layer: Any) -> None:
    module = seeded(lambda: layer(3, 4))
    x = torch.randn(5, 2, 3)
    again = prepare(onward.export(module, x)).module
    other = prepare(onward.export(seeded(lambda: layer(3, 4), seed=1), x)).module
    with torch.no_grad():
        first = again(x)[0]
        torch.testing.assert_close(first, module(x)[0])
        again.load_state_dict(other.state_dict())
        torch.testing.assert_close(again(x)[0], other(x)[0])
        for each in again.parameters():
            each.data = each.data.double()
        torch.testing.assert_close(again(x.double())[0], other(x)[0].double())


class Alive(TorchDispatchMode):
    """How many elements are held at most in tensors that operators made."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._made: list[weakref.ref[Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        self._made += [weakref.ref(each) for each in pytree.tree_leaves(results) if isinstance(each, Tensor)]
        held = [made for each in self._made if (made := each()) is not None]
        self._made = [weakref.ref(each) for each in held]
        storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() // 4 for each in held}
        self.peak = max(self.peak, sum(storages.values()))
        return results


def graph(body: str) -> str:
    return f'<ir_version: 10, opset_import: ["" : 20]> g (float[1000] x) => (float[1000] y) {{ {body} }}'


CHAIN = " ".join(f"v{place + 1} = Exp (v{place}) w{place} = Neg (v{place + 1})" for place in range(20))
MEMORY = {
    # body: how many tensors of 1000 elements are held at most
    "chain": (f"v0 = Neg (x) {CHAIN} y = Tanh (v20)", 2),
    "reshaped": (
        "s = Constant <value_ints = [10, 100]> () f = Constant <value_ints = [-1]> () "
        + " ".join(
            f"r{p} = Reshape ({'x' if p == 0 else f'e{p - 1}'}, s) t{p} = Exp (r{p}) e{p} = Reshape (t{p}, f)"
            for p in range(10)
        )
        + " y = Neg (e9)",
        2,
    ),
    "loop": (
        """n = Constant <value_int = 12> () c = Constant <value = bool {1}> ()
        y = Loop (n, c, x) <body = b (int64 i, bool g, float[1000] s) => (bool k, float[1000] t) {
            k = Identity (g) a = Exp (s) b = Neg (a) t = Tanh (b) }>""",
        3,
    ),
}


@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_released_as_values_die(name: str) -> None:
    body, most = MEMORY[name]
    module, x = prepare(onnx.parser.parse_model(graph(body))).module, torch.zeros(1000)
    with torch.no_grad(), Alive() as alive:
        module(x)
    assert 1000 <= alive.peak < 1000 * most + 500  # and a few numbers


def test_the_bench_judges_ratios_and_errors() -> None:
    figures = bench.backend.judge({"eager": 1.0, "module": 1.2, "run": 1.4}, 1e-5)
    assert [(each.name, each.reached) for each in figures] == [
        ("module over eager", True),
        ("run over eager", False),
        ("relative error", True),
    ]


def test_inputs_keep_their_names(tmp_path: Path) -> None:
    """In calls, and when the module is exported again; what Python does not allow in a name is an underscore."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    f (float[N, 3] pixels, float[N, 3] mask_1) => (float[N, 3] y) { y = Mul(pixels, mask_1) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.input[1].name = proto.graph.node[0].input[1] = "mask.1"
    module = onward.backend.prepare(proto).module
    x, mask = torch.randn(2, 3), torch.rand(2, 3)
    assert torch.equal(module(x, mask_1=mask), x * mask)
    assert torch.equal(module(pixels=x, mask_1=mask), x * mask)
    with pytest.raises(TypeError, match="mask"):
        module(x, mask=mask)
    program = onward.export(module, (x, mask), dynamic_axes={"pixels": {0: "n"}, "mask_1": {0: "n"}}, verify=True)
    assert [port.name for port in program.inputs] == ["pixels", "mask_1"]
