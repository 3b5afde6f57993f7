"""E2: operators from C++ and from Python, with and without a fake kernel, in every way to define them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import cpp_extension

import onward
from onward.onnx.symbolic_helper import parse_args

from .running import assert_same, load, run, shapes

LIBRARY = torch.library.Library("onward_e02b", "DEF")


@parse_args("v", "v", "f", "i")
def scale(g: Any, x: Any, y: Any, factor: float, times: int) -> Any:
    return g.op("Mul", g.op("Add", x, y), g.op("Constant", value_t=torch.tensor(factor * times)))


def _scaled(x: torch.Tensor, y: torch.Tensor, factor: float, times: int) -> torch.Tensor:
    return (x + y) * factor * times


SCHEMA = "(Tensor x, Tensor y, float factor, int times) -> Tensor"
LIBRARY.define(f"for_cpu{SCHEMA}")
LIBRARY.impl("for_cpu", _scaled, "CPU")
LIBRARY.define(f"with_fake{SCHEMA}")
LIBRARY.impl("with_fake", _scaled, "CPU")
torch.library.register_fake("onward_e02b::with_fake", lambda x, y, factor, times: torch.empty_like(x), lib=LIBRARY)
LIBRARY.define(f"composite{SCHEMA}")
LIBRARY.impl("composite", _scaled, "CompositeImplicitAutograd")
torch.library.custom_op("onward_e02b::decorated", _scaled, mutates_args=())
_decorated = torch.library.custom_op("onward_e02b::decorated_with_fake", _scaled, mutates_args=())
_decorated.register_fake(lambda x, y, factor, times: torch.empty_like(x))
_decorated.register_autograd(lambda ctx, grad: (grad, grad, None, None))


class Model(torch.nn.Module):
    def __init__(self, op: Any) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.op(x.exp(), y, 0.5, 3).sum(1)


def exports(name: str, op: Any, file: Path) -> None:
    """Without a symbolic function it is named as missing; with one it is written and stays dynamic."""
    model = Model(op)
    axes = {"x": {0: "n", 1: "m"}, "y": {0: "n", 1: "m"}}
    example = (torch.randn(2, 3), torch.randn(2, 3))
    with pytest.raises(onward.UnsupportedOpError) as caught:
        onward.export(model, example, dynamic_axes=axes)
    assert f'onward.register_custom_op_symbolic("{name}", function, 20)' in str(caught.value)
    onward.register_custom_op_symbolic(name, scale, 9)
    try:
        onward.export(model, example, file, dynamic_axes=axes, output_names=["z"])
    finally:
        onward.unregister_custom_op_symbolic(name, 9)
    assert shapes(load(file).graph.output) == {"z": ("n",)}
    for size in ((2, 3), (1, 1), (4, 7)):
        inputs = [torch.randn(size), torch.randn(size)]
        assert_same(run(file, inputs), [model(*inputs)])


@pytest.mark.parametrize("name", ["for_cpu", "with_fake", "decorated", "decorated_with_fake"])
def test_an_operator_from_python(tmp_path: Path, name: str) -> None:
    exports(f"onward_e02b::{name}", getattr(torch.ops.onward_e02b, name), tmp_path / "model.onnx")


def test_one_that_is_made_of_others_needs_no_symbolic_function() -> None:
    model = Model(torch.ops.onward_e02b.composite)
    example = (torch.randn(2, 3), torch.randn(2, 3))
    program = onward.export(model, example, dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, verify=True)
    assert "Add" in [node.op_type for node in program.model.graph]


@pytest.mark.skipif(shutil.which("ninja") is None, reason="ninja is not installed")
@pytest.mark.skipif(shutil.which("c++") is None and shutil.which("g++") is None, reason="there is no C++ compiler")
def test_operators_from_a_compiled_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_JOBS", "1")
    cpp_extension.load(
        name="onward_custom_ops",
        sources=[str(Path(__file__).with_name("custom_ops.cpp"))],
        build_directory=str(tmp_path),
        extra_cflags=["-O0"],
        is_python_module=False,
    )
    for name in ("with_schema", "for_all"):
        exports(f"onward_cpp::{name}", getattr(torch.ops.onward_cpp, name), tmp_path / f"{name}.onnx")


def test_a_kernel_that_refuses_other_sizes_says_to_register_a_fake_one() -> None:
    LIBRARY.define("picky(Tensor x) -> Tensor")

    def picky(x: torch.Tensor) -> torch.Tensor:
        if not x.any():
            raise ValueError("nothing but zeros")
        return x * 2

    LIBRARY.impl("picky", picky, "CPU")
    onward.register_custom_op_symbolic("onward_e02b::picky", lambda g, x: g.op("my::Picky", x), 9)

    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.onward_e02b.picky(x)

    assert onward.export(call, torch.ones(2, 3)).outputs[0].shape == (2, 3)
    with pytest.raises(onward.CaptureError) as caught:
        onward.export(call, torch.ones(2, 3), dynamic_axes={"x": {0: "n"}})
    text = str(caught.value)
    assert "onward_e02b.picky.default: nothing but zeros" in text
    assert "has no fake kernel" in text and "torch.library.register_fake" in text
    torch.library.register_fake("onward_e02b::picky", torch.empty_like, lib=LIBRARY)
    assert onward.export(call, torch.ones(2, 3), dynamic_axes={"x": {0: "n"}}).outputs[0].shape == ("n", 3)
    onward.unregister_custom_op_symbolic("onward_e02b::picky", 9)


@torch.library.custom_op("onward_e02b::parts", mutates_args=())
def parts(xs: list[torch.Tensor], sizes: list[int], bias: torch.Tensor | None = None) -> list[torch.Tensor]:
    return [x.reshape(-1)[: sizes[0]].clone() for x in xs]


def test_lists_of_tensors_in_and_out() -> None:
    from onward.onnx import symbolic_helper

    def symbolic(g: Any, xs: Any, sizes: Any, bias: Any) -> Any:
        assert symbolic_helper._is_tensor_list(xs) and symbolic_helper._is_none(bias)
        assert symbolic_helper._maybe_get_const(sizes, "is") == [2]
        tensors = symbolic_helper._unpack_list(xs)
        return g.op("my::Parts", *tensors, sizes_i=[2], outputs=len(tensors))

    onward.register_custom_op_symbolic("onward_e02b::parts", symbolic, 9)
    try:
        program = onward.export(
            lambda x, y: sum(torch.ops.onward_e02b.parts([x, y], [2])), (torch.randn(3), torch.randn(4))
        )
    finally:
        onward.unregister_custom_op_symbolic("onward_e02b::parts", 9)
    assert next(node.op_type for node in program.model.graph) == "Parts"
    assert len(next(iter(program.model.graph)).outputs) == 2


@torch.library.custom_op("onward_e02b::bump", mutates_args={"x"})
def bump(x: torch.Tensor) -> None:
    x.add_(1)


class Bump(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        torch.ops.onward_e02b.bump(x)
        return x

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Add", x, 1)


def test_one_that_changes_its_argument_is_exported_by_way_of_a_function() -> None:
    def call(x: torch.Tensor, change: Any) -> torch.Tensor:
        y = x * 2
        change(y)
        return y

    with pytest.raises(onward.CaptureError) as caught:
        onward.export(lambda x: call(x, torch.ops.onward_e02b.bump), torch.randn(3))
    text = str(caught.value)
    assert text.startswith("onward_e02b.bump.default changes a tensor in place and has no functional form\n  at ")
    assert text.endswith(
        "call it inside a torch.autograd.Function with a static `symbolic`, which returns the changed tensor "
        "and says ctx.mark_dirty(tensor)"
    )
    program = onward.export(lambda x: call(x, Bump.apply), torch.randn(3), dynamic_axes={"x": {0: "n"}}, verify=True)
    assert [node.op_type for node in program.model.graph] == ["Mul", "Add"]
