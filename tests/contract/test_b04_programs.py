"""B4: ExportedPrograms of many kinds: control flow, sizes that depend on data, writes, wrappers, numbers as inputs."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch._higher_order_ops.invoke_subgraph import mark_compile_region
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

import onward

from .control import kinds

Tensor = torch.Tensor
N = ({0: Dim("n")},)


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        def inner(x: Tensor) -> Tensor:
            return torch.cond(x.max() > 1, lambda x: self.first(x), lambda x: x - 1, (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: self.second(x).relu(), (x,))


class Loop(torch.nn.Module):
    def forward(self, x: Tensor) -> Any:
        def going(count: Tensor, y: Tensor) -> Tensor:
            return ((y * y - x.abs()).abs().max() > 1e-3) & (count < 30)

        def better(count: Tensor, y: Tensor) -> Any:
            return count + 1, (y + x.abs() / y) * 0.5

        return while_loop(going, better, (torch.tensor(0), x.abs() + 1))


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.GRUCell(4, 4)

    def forward(self, x: Tensor) -> Any:
        def step(state: Tensor, row: Tensor) -> Any:
            state = self.cell(row[None], state)
            return state, state.sum(1)

        return scan(step, torch.zeros(1, 4), x)


class Mapped(torch.nn.Module):
    def forward(self, x: Tensor) -> Any:
        return torch_map(lambda row, y: (row.cumsum(0) * y, row.sum()), x, x[0] * 1)


class Found(torch.nn.Module):
    def forward(self, x: Tensor) -> Any:
        return x.nonzero(), x[x > 0] * 2


class Cut(torch.nn.Module):
    """A number from a tensor, with checks of it."""

    def forward(self, x: Tensor, count: Tensor) -> Any:
        n = count.item()
        torch._check(n >= 0)
        torch._check(n <= 4)
        return x[:, :n] + 1, torch.zeros(n)


class Wrapped(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = self.linear(x)
        with torch.enable_grad():
            y = y * 2
        return y + 1


class Cast(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        return y.float()


@mark_compile_region
def region(x: Tensor, y: Tensor) -> Tensor:
    return torch.sin(x) + y


class Regions(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return region(region(x, x * 2), x)


class Writes(torch.nn.Module):
    """To a buffer, to an input, and to a view of something in between; the written buffer is an output as well."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: Tensor) -> Any:
        self.total.add_(x.sum(0))
        x.mul_(2)
        y = x + self.total
        y[:, 1:3] = 7
        return y, self.total.clone(), x


class Number(torch.nn.Module):
    def forward(self, x: Tensor, n: int) -> Any:
        return x * n, torch.zeros(n) + x.sum()


class Half(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.half()

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x.half()))


class Images(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
        self.attention, self.norm = torch.nn.MultiheadAttention(8, 2, batch_first=True), torch.nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Any:
        y = torch.nn.functional.max_pool2d(self.stem(x), 2)
        tokens = y.flatten(2).transpose(1, 2)
        tokens = self.norm(tokens + self.attention(tokens, tokens, tokens)[0])
        return torch.nn.functional.interpolate(tokens.transpose(1, 2).reshape(y.shape), scale_factor=2), tokens.mean(1)


ROWS = [(torch.randn(rows, 4),) for rows in (2, 7)] + [(-torch.ones(3, 4),), (torch.full((5, 4), 3.0),)]
PIXELS = ({0: Dim("batch"), 2: 8 * Dim("h"), 3: 8 * Dim("w")},)

# model, example, dynamic_shapes, other inputs, what must be in the graph
CASES: dict[type, tuple[tuple, Any, Sequence[tuple], str]] = {
    Branches: ((torch.randn(3, 4),), N, ROWS, "If"),
    Loop: ((torch.randn(3, 4),), N, ROWS, "Loop"),
    Recurrent: ((torch.randn(3, 4),), N, ROWS, "Loop"),
    Mapped: ((torch.randn(3, 4),), N, ROWS, "Loop"),
    Found: ((torch.randn(3, 4),), N, ROWS, "NonZero"),
    Cut: ((torch.randn(3, 4), torch.tensor(2)), ({0: Dim("n")}, None),
          [(torch.randn(5, 4), torch.tensor(4)), (torch.randn(5, 4), torch.tensor(0))], "Slice"),
    Wrapped: ((torch.randn(3, 4),), N, ROWS, "Gemm"),
    Cast: ((torch.randn(3, 4),), N, ROWS, "Cast"),
    Regions: ((torch.randn(3, 4),), N, ROWS, "Sin"),
    Writes: ((torch.randn(3, 4),), N, ROWS, "Add"),
    Number: ((torch.randn(3, 4), 5), ({0: Dim("n")}, Dim.DYNAMIC), [(torch.randn(6, 4), 3)], "Mul"),
    Half: ((torch.randn(3, 4),), N, ROWS, "Gemm"),
    Images: ((torch.randn(2, 3, 16, 16),), PIXELS, [(torch.randn(3, 3, 24, 8),)], "Conv"),
}  # fmt: skip


def saved_and_loaded(exported: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    return torch.export.load(file)


FORMS: dict[str, tuple[bool, Callable[[ExportedProgram], ExportedProgram]]] = {
    "as it is": (False, lambda exported: exported),
    "strict": (True, lambda exported: exported),
    "decomposed": (False, lambda exported: exported.run_decompositions()),
    "loaded": (False, saved_and_loaded),
}


COMBINATIONS = [
    pytest.param(kind, form, id=f"{kind.__name__}, {form}")
    for kind in CASES
    for form in FORMS
    if form in ("as it is", "decomposed") or kind in (Branches, Recurrent, Writes, Number, Regions)
]


@pytest.mark.parametrize(("kind", "form"), COMBINATIONS)
def test_programs(kind: Any, form: str) -> None:
    example, shapes, others, node = CASES[kind]
    torch.manual_seed(0)
    model = kind().eval()
    strict, change = FORMS[form]
    exported = change(torch.export.export(model, _copies(example), dynamic_shapes=shapes, strict=strict))
    program = onward.export(exported, verify=True)
    program.check()
    assert node in kinds(program)
    for inputs in others:
        state = {name: value.clone() for name, value in model.state_dict().items()}
        with torch.no_grad():
            expected = model(*_copies(inputs))
        model.load_state_dict(state)
        tolerance = 2e-2 if kind in (Cast, Half) else 1e-4  # eight and eleven bits
        actual = program(*(each if isinstance(each, Tensor) else torch.tensor(each) for each in _copies(inputs)))
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def _copies(inputs: Any) -> Any:
    return pytree.tree_map_only(Tensor, Tensor.clone, inputs)


def test_a_program_stays_as_it_is() -> None:
    example, shapes, _, _ = CASES[Writes]
    exported = torch.export.export(Writes(), _copies(example), dynamic_shapes=shapes)
    given = [each.clone() for each in exported.example_inputs[0]]
    onward.export(exported, verify=True)
    assert torch.equal(exported.state_dict["total"], torch.zeros(4))
    assert all(torch.equal(a, b) for a, b in zip(given, exported.example_inputs[0], strict=True))


def test_nodes_inside_control_flow_come_from_the_original() -> None:
    example, shapes, _, _ = CASES[Branches]
    program = onward.export(torch.export.export(Branches(), example, dynamic_shapes=shapes, strict=True))
    line = Branches.forward.__code__.co_firstlineno
    listing = str(program)
    assert re.search(rf"onnx::If.*scope: Branches  # test_b04_programs.py:{line + 4}", listing)
    assert re.search(rf"Gemm.*scope: Branches/Linear\[first\]  # test_b04_programs.py:{line + 2}", listing)


def test_an_operator_without_a_lowering_is_reported_at_its_line() -> None:
    class Missing(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.segment_reduce(x, "mean", lengths=torch.tensor([1, 2]))

    exported = torch.export.export(Missing(), (torch.randn(3, 3),))
    with pytest.raises(onward.ExportError) as caught:
        onward.export(exported)
    assert f"test_b04_programs.py:{Missing.forward.__code__.co_firstlineno + 1}" in str(caught.value)


@pytest.mark.parametrize("kind", (Branches, Images), ids=lambda kind: kind.__name__)
def test_side_by_side_with_pytorch(kind: Any) -> None:
    """The same results as `torch.onnx.export(exported)`, in no more nodes."""
    example, shapes, others, _ = CASES[kind]
    torch.manual_seed(0)
    exported = torch.export.export(kind().eval(), example, dynamic_shapes=shapes)
    theirs = torch.onnx.export(exported, opset_version=20, verbose=False, external_data=False)
    ours = onward.export(exported, opset_version=20)
    session = onnxruntime.InferenceSession(theirs.model_proto.SerializeToString())
    for inputs in others:
        names = [value.name for value in session.get_inputs()]
        expected = session.run(None, dict(zip(names, (each.numpy() for each in inputs), strict=True)))
        actual = ours(*inputs)
        actual = actual if isinstance(actual, tuple) else (actual,)
        for a, b in zip(actual, expected, strict=True):
            torch.testing.assert_close(a, torch.from_numpy(b), rtol=1e-4, atol=1e-4)
    assert _count(ours.proto().graph) <= _count(theirs.model_proto.graph)


def _count(graph: onnx.GraphProto) -> int:
    """Nodes, in bodies too; constants are not counted, since some keep them apart."""
    inner = [each.g for node in graph.node for each in node.attribute if each.type == onnx.AttributeProto.GRAPH]
    return sum(node.op_type != "Constant" for node in graph.node) + sum(map(_count, inner))


@pytest.mark.parametrize("form", ("as it is", "decomposed"))
def test_written_buffers_as_outputs(form: str) -> None:
    """`buffers_to_mutate` of the program are pairs of an input and an output, if asked for; else it is said."""
    torch.manual_seed(0)
    example, shapes, _, _ = CASES[Writes]
    exported = FORMS[form][1](torch.export.export(Writes(), _copies(example), dynamic_shapes=shapes))
    program = onward.export(exported, mutable_buffers=True, verify=True)
    assert [port.name for port in program.inputs] == ["x", "total"]
    assert [port.name for port in program.outputs][-2:] == ["x_out", "total_out"]
    model = Writes()
    for rows in (2, 5, 3):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(program(x.clone()), model(x.clone()))
    with pytest.warns(onward.CaptureWarning, match="changes its buffer 'total'"):
        onward.export(exported)


class WritesInputs(torch.nn.Module):
    """To an input and to a view of a nested one, which are not returned; `x` is only read."""

    def forward(self, cache: Tensor, x: Tensor, more: dict[str, Tensor]) -> Tensor:
        cache[:, 1:3] = x
        more["count"].add_(1)
        return cache.sum(1) * more["count"]


@pytest.mark.parametrize("form", ("as it is", "decomposed"))
def test_written_inputs_as_outputs(form: str) -> None:
    """`user_inputs_to_mutate` of the program are outputs, if asked for; the caller's tensors stay."""
    torch.manual_seed(0)
    n = Dim("n")
    example = (torch.randn(2, 4), torch.randn(2, 2), {"count": torch.ones(())})
    shapes = ({0: n}, {0: n}, {"count": {}})
    exported = FORMS[form][1](torch.export.export(WritesInputs(), _copies(example), dynamic_shapes=shapes))
    program = onward.export(exported, mutable_buffers=True, verify=True)
    assert [port.name for port in program.inputs] == ["cache", "x", "more_count"]
    assert [f"{port.name} {port}" for port in program.outputs] == [
        "output float32[n]",
        "cache_out float32[n, 4]",
        "more_count_out float32[]",
    ]
    session = onnxruntime.InferenceSession(program.proto().SerializeToString())
    for rows in (1, 5):
        given = (torch.randn(rows, 4), torch.randn(rows, 2), {"count": torch.tensor(float(rows))})
        cache, x, more = _copies(given)
        wanted = WritesInputs()(cache, x, more)
        torch.testing.assert_close(program(*_copies(given)), wanted)
        fed = {"cache": given[0].numpy(), "x": given[1].numpy(), "more_count": given[2]["count"].numpy()}
        found = [torch.from_numpy(each) for each in session.run(None, fed)]
        torch.testing.assert_close(found, [wanted, cache, more["count"]])
    before = _copies(example)
    onward.export(exported, example, mutable_buffers=True)
    torch.testing.assert_close(example, before, rtol=0, atol=0)


def test_written_inputs_that_are_lost() -> None:
    example = (torch.randn(2, 4), torch.randn(2, 2), {"count": torch.ones(())})
    exported = torch.export.export(WritesInputs(), example).run_decompositions({})
    with pytest.warns(onward.CaptureWarning, match="changes its input"):
        program = onward.export(exported)
    assert [port.name for port in program.outputs] == ["output"]
    assert program.warnings[0] == (
        "the ExportedProgram changes its input 'cache', and the file does not return the change. The new content is "
        "lost. To avoid this, export with mutable_buffers=True, which makes an output of it."
    )
    assert len(program.warnings) == 2
