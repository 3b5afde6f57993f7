"""E3: an autograd.Function with a static `symbolic` is exported as that; one without is traced through."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch.autograd import Function

import onward
from onward.onnx.symbolic_helper import parse_args
from tests.opsets import NEWEST

from .running import assert_same, load, run, shapes


class MyElu(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, alpha: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.alpha = alpha
        return torch.where(x > 0, x, alpha * (x.exp() - 1))

    @staticmethod
    def symbolic(g: Any, x: Any, alpha: float) -> Any:
        assert type(alpha) is float
        return g.op("Elu", x, alpha_f=alpha)


my_elu = MyElu.apply  # taken aside before anything is exported, as most code does


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return my_elu(self.linear(x), 0.5) * 2


def kinds(program: onward.Program) -> list[str]:
    return [f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in program.model.graph]


@pytest.mark.parametrize("opset", [9, 13, 17, 20, NEWEST])
def test_it_is_written_as_its_symbolic(tmp_path: Path, opset: int) -> None:
    file, model = tmp_path / "model.onnx", Model()
    program = onward.export(model, torch.randn(2, 3), file, dynamic_axes={"x": {0: "batch"}}, opset_version=opset)
    assert "Elu" in kinds(program) and "Where" not in kinds(program)
    proto = load(file)
    assert shapes(proto.graph.output) == {"output": ("batch", 4)}
    for batch in (2, 1, 5):
        x = torch.randn(batch, 3)
        assert_same(run(file, [x]), [model(x)])


def test_its_node_has_a_name_a_module_and_a_line() -> None:
    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Model()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    program = onward.export(Outer(), torch.randn(2, 3))
    (node,) = [node for node in program.model.graph if node.op_type == "Elu"]
    assert node.name == "inner.MyElu"
    assert node.metadata_props["onward.aten"] == "MyElu"
    assert node.metadata_props["onward.scope"] == "inner"


def test_nothing_changes_outside_an_export() -> None:
    before = dict(vars(torch.autograd.function._SingleLevelFunction))
    model = Model()
    x = torch.randn(2, 3, requires_grad=True)
    onward.export(model, x)
    with pytest.raises(onward.LoweringError):
        onward.export(lambda x: Failing.apply(x), x)
    assert dict(vars(torch.autograd.function._SingleLevelFunction)) == before
    assert my_elu(x, 0.5).grad_fn is not None


class Failing(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        raise ZeroDivisionError("no luck")


def test_a_symbolic_that_fails_is_named_with_both_places() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        return Failing.apply(x)

    with pytest.raises(onward.LoweringError) as caught:
        onward.export(call, torch.randn(2))
    assert str(caught.value) == (
        "the symbolic function of Failing failed: ZeroDivisionError: no luck\n"
        f"  at {__file__}:{call.__code__.co_firstlineno + 1}\n"
        f"  it is written at {__file__}:{Failing.symbolic.__code__.co_firstlineno}"
    )


class Mark(Function):
    seen: tuple[Any, ...] = ()

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, *rest: Any) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def symbolic(g: Any, x: Any, *rest: Any) -> Any:
        Mark.seen = rest
        return g.op("mine::Mark", x, kind_s=rest[0], size_i=rest[1], **rest[3])


def test_what_is_no_tensor_reaches_symbolic_as_it_is() -> None:
    anything = object()
    program = onward.export(
        lambda x: Mark.apply(x, "boxes", (3, 4), None, {"id_i": 7, "deep_s": "yes"}, anything, [1, "two"]),
        torch.randn(2),
    )
    assert Mark.seen == ("boxes", (3, 4), None, {"id_i": 7, "deep_s": "yes"}, anything, [1, "two"])
    assert Mark.seen[4] is anything and type(Mark.seen[1]) is tuple
    (node,) = program.proto().graph.node
    assert {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} == {
        "kind": b"boxes", "size": [3, 4], "id": 7, "deep": b"yes",
    }  # fmt: skip
    onnx.checker.check_model(program.proto(), full_check=True)


class Join(Function):
    @staticmethod
    def forward(ctx: Any, tensors: list[torch.Tensor], axis: int) -> torch.Tensor:
        return torch.cat(tensors, axis)

    @staticmethod
    def symbolic(g: Any, tensors: Any, axis: int) -> Any:
        return g.op("Concat", *tensors, axis_i=axis)


def test_tensors_in_a_list() -> None:
    axes = {"x": {0: "a"}, "y": {0: "b"}}
    program = onward.export(
        lambda x, y: Join.apply([x, y], 0), (torch.randn(2, 3), torch.randn(4, 3)), dynamic_axes=axes, verify=True
    )
    assert kinds(program) == ["Concat"]


class TopTwo(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = x.topk(2)
        ctx.mark_non_differentiable(indices)
        return values, indices

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("TopK", x, torch.tensor([2]), axis_i=-1, outputs=2)


def test_several_results(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    onward.export(TopTwo.apply, torch.randn(2, 5), file, input_names=["x"], dynamic_axes={"x": {0: "n", 1: "m"}})
    for size in ((2, 5), (4, 3)):
        x = torch.randn(size)
        assert_same(run(file, [x]), TopTwo.apply(x))


class Halve(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, rows: int) -> torch.Tensor:
        return x[:rows]

    @staticmethod
    def symbolic(g: Any, x: Any, rows: Any) -> Any:
        start = torch.zeros(1, dtype=torch.int64)
        return g.op("Slice", x, start, g.op("Unsqueeze", rows, axes_i=[0]), start)


def test_a_size_that_varies_is_a_value(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"

    def half(x: torch.Tensor) -> torch.Tensor:
        return Halve.apply(x, x.shape[0] // 2)

    onward.export(half, torch.randn(6, 2), file, dynamic_axes={"x": {0: "n"}})
    for rows in (6, 9, 2):
        x = torch.randn(rows, 2)
        assert_same(run(file, [x]), [half(x)])


class NewStyle(Function):
    @staticmethod
    def forward(x: torch.Tensor, factor: float = 3.0) -> torch.Tensor:
        return x * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    @parse_args("v", "f")
    def symbolic(g: Any, x: Any, factor: float) -> Any:
        return g.op("Mul", x, torch.tensor(factor))


def test_setup_context_and_defaults() -> None:
    program = onward.export(lambda x: NewStyle.apply(x), torch.randn(2), verify=True)
    assert kinds(program) == ["Mul"]


class AddOne(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Add", x, torch.ones(1))


def test_mark_dirty_changes_the_tensor_that_was_given() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        y = x * 3
        AddOne.apply(y)
        AddOne.apply(y)
        return y

    x = torch.randn(2, 3)
    program = onward.export(twice, x, dynamic_axes={"x": {0: "n"}}, verify=True)
    assert kinds(program) == ["Mul", "Add", "Add"]


class Sneaky(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x.zero_()
        return x + 1

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("my::Sneaky", x)


def test_a_write_that_is_not_declared_is_an_error_and_spares_the_example() -> None:
    x = torch.ones(2)
    with pytest.raises(onward.CaptureError) as caught:
        onward.export(lambda x: Sneaky.apply(x), x)
    assert str(caught.value).startswith("Sneaky changes its tensor argument 0 in place and does not return it\n")
    assert "ctx.mark_dirty" in str(caught.value)
    assert x.tolist() == [1, 1]


class Quantize(Function):
    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, scale: float) -> torch.Tensor:
        return (weight / scale).round() * scale

    @staticmethod
    def symbolic(g: Any, weight: Any, scale: float) -> Any:
        return g.op("my::FakeQuantize", weight, scale_f=scale)


def test_a_function_of_parameters_alone_is_kept_too() -> None:
    class Quantized(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(x, Quantize.apply(self.weight, 0.1))

    program = onward.export(Quantized(), torch.randn(2, 3))
    assert kinds(program)[0] == "my::FakeQuantize"
    assert list(program.model.graph.initializers) == ["weight"]


class Data(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        array = x.numpy()  # leaves PyTorch, as compiled code does
        assert array.ctypes.data != 0
        return torch.from_numpy(array[:, ::2].copy())

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("my::EverySecond", x)


def test_a_forward_that_needs_data_gives_dynamic_sizes_all_the_same() -> None:
    program = onward.export(
        lambda x: Data.apply(x) + 1, torch.randn(2, 6), dynamic_axes={"x": {0: "n"}}, output_names=["y"]
    )
    assert program.outputs[0].shape == ("n", 3)


class Nested(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return MyElu.apply(x, 1.0) + 1

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("my::Nested", x)


class Plain(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        y = x.sigmoid()
        ctx.mark_non_differentiable(y)
        return MyElu.apply(y, 0.25)


def test_functions_inside_functions() -> None:
    assert kinds(onward.export(lambda x: Nested.apply(x), torch.randn(3))) == ["my::Nested"]
    program = onward.export(lambda x: Plain.apply(x), torch.randn(3), dynamic_axes={"x": {0: "n"}}, verify=True)
    assert kinds(program) == ["Sigmoid", "Elu"]  # without a symbolic, it is what it computes


def test_a_size_that_python_froze_is_thawed(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"

    def half(x: torch.Tensor) -> torch.Tensor:
        return Halve.apply(x, int(x.shape[0] * 0.5))

    onward.export(half, torch.randn(6, 2), file, dynamic_axes={"x": {0: "n"}})
    for rows in (6, 9, 2):
        x = torch.randn(rows, 2)
        assert_same(run(file, [x]), [half(x)])


def test_another_thread_is_left_alone() -> None:
    seen: list[Any] = []

    class Threaded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            worker = threading.Thread(target=lambda: seen.append(MyElu.apply(torch.ones(1, requires_grad=True), 1.0)))
            worker.start()
            worker.join()
            return MyElu.apply(x, 0.5)

    onward.export(Threaded(), torch.randn(2))
    assert type(seen[0]) is torch.Tensor and seen[0].grad_fn is not None


def test_half_precision() -> None:
    program = onward.export(lambda x: MyElu.apply(x, 0.5), torch.randn(3).half(), verify=True)
    assert kinds(program) == ["Elu"]


def test_a_symbolic_that_calls_pytorchs_own() -> None:
    theirs = pytest.importorskip("torch.onnx.symbolic_opset9")

    class MaskedSoftmax(Function):  # as transformers' DeBERTa had it for years
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, mask: torch.Tensor, dim: int) -> torch.Tensor:
            hidden = ~mask.bool()
            return x.masked_fill(hidden, torch.finfo(x.dtype).min).softmax(dim).masked_fill(hidden, 0)

        @staticmethod
        def symbolic(g: Any, x: Any, mask: Any, dim: int) -> Any:
            import torch.onnx.symbolic_helper as helper

            whole = g.op("Cast", mask, to_i=helper.cast_pytorch_to_onnx["Long"])
            one = g.op("Constant", value_t=torch.tensor(1, dtype=torch.int64))
            hidden = g.op("Cast", g.op("Sub", one, whole), to_i=helper.cast_pytorch_to_onnx["Bool"])
            low = g.op("Constant", value_t=torch.tensor(torch.finfo(x.type().dtype()).min))
            shown = theirs.softmax(g, theirs.masked_fill(g, x, hidden, low), dim)
            return theirs.masked_fill(g, shown, hidden, g.op("Constant", value_t=torch.tensor(0, dtype=torch.bool)))

    example = (torch.randn(2, 4), torch.tensor([[1, 1, 0, 1], [1, 0, 1, 1]]))
    axes = {"x": {0: "n"}, "mask": {0: "n"}}
    program = onward.export(lambda x, mask: MaskedSoftmax.apply(x, mask, -1), example, dynamic_axes=axes, verify=True)
    assert "Softmax" in kinds(program)


class Rows(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0], -1)

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Reshape", x, torch.tensor([x.type().sizes()[0], -1]))


def test_a_symbolic_that_takes_a_varying_size_for_a_number_is_told_so() -> None:
    onward.export(lambda x: Rows.apply(x), torch.randn(2, 3, 4), verify=True)
    with pytest.raises(onward.LoweringError) as caught:
        onward.export(lambda x: Rows.apply(x), torch.randn(2, 3, 4), dynamic_axes={"x": {0: "n"}})
    assert "the sizes of its argument 0 are [None, 3, 4]: an axis that varies has no number; compute with" in str(
        caught.value
    )


class Detections(Function):  # as exports of detectors have it: forward is only there to have a shape
    @staticmethod
    def forward(ctx: Any, boxes: torch.Tensor, scores: torch.Tensor, most: int = 100, version: str = "1") -> Any:
        batch = scores.shape[0]
        return torch.randint(0, most, (batch, 1), dtype=torch.int32), torch.randn(batch, most, 4)

    @staticmethod
    def symbolic(g: Any, boxes: Any, scores: Any, most: int = 100, version: str = "1") -> Any:
        return g.op(
            "TRT::EfficientNMS_TRT", boxes, scores, max_output_boxes_i=most, plugin_version_s=version, outputs=2
        )


def test_a_plugin_of_a_runtime() -> None:
    class Detector(torch.nn.Module):
        def forward(self, boxes: torch.Tensor, scores: torch.Tensor) -> Any:
            count, found = Detections.apply(boxes, scores)
            return count, found * 2

    program = onward.export(
        Detector(),
        (torch.randn(2, 20, 4), torch.rand(2, 20, 3)),
        output_names=["count", "found"],
        dynamic_axes={"boxes": {0: "batch"}, "scores": {0: "batch"}},
    )
    assert [str(port) for port in program.outputs] == ["int32[batch, 1]", "float32[batch, 100, 4]"]
    assert kinds(program) == ["TRT::EfficientNMS_TRT", "Mul"]
    onnx.checker.check_model(program.proto(), full_check=True)
