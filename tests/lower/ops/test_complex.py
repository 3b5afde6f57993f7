"""Complex numbers: pairs of reals in the file, Complex between the operators."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import onward
from onward.errors import LoweringError

from ..harness import NEWEST, Case, bools, case, check, f32, floats, ints, run

OPSETS = (9, 13, 17, NEWEST)


def c64(*size: int, dtype: torch.dtype = torch.complex64, seed: int = 0) -> torch.Tensor:
    return torch.complex(floats(*size, dtype=torch.float64, seed=seed), floats(*size, seed=seed + 50).double()).to(
        dtype
    )


def row(name: str, function: Callable[..., Any], args: list[Any], **options: Any) -> Case:
    """A case with a dynamic first axis wherever a tensor has one of 3."""
    tensors = enumerate(args)
    axes = {place: {0: "batch"} for place, x in tensors if isinstance(x, torch.Tensor) and x.dim() and x.size(0) == 3}
    return case(name, function, args, **{"opsets": OPSETS, "dynamic": axes, **options})


X, Y, R = c64(3, 4), c64(3, 4, seed=1), f32(3, 4, seed=2)
SQUARE, WIDE, KERNEL, BIAS = c64(4, 4, seed=7), c64(5, 4), c64(2, 1, 3), c64(5)

ARITHMETIC = [
    row("mul", lambda x, y: x * y, [X, Y]),
    row("mul by a real tensor", lambda x, y: x * y, [X, R]),
    row("real by an imaginary number", lambda x: x * 2j, [R]),
    row("numbers", lambda x: 2 * x + 1 - 3j, [X]),
    row("add with alpha", lambda x, y: torch.add(x, y, alpha=2j), [X, Y]),
    row("add a larger real", lambda x, y: x[:1] + y, [X, R], sizes=(5,)),
    row("sub", lambda x, y: (x - y, y - x, x - 1, 1 - x), [X, R]),
    row("rsub with alpha", lambda x: torch.rsub(x, 3, alpha=2), [X]),
    row("div", lambda x, y: (x / y, 1 / x, x / 2), [X, Y]),
    row("div by real", lambda x, y: (x / y, y / x), [X, R]),
    row("addcmul", lambda x, y: torch.addcmul(x, y, x, value=2 - 1j), [X, Y]),
    row("lerp", lambda x, y: torch.lerp(x, y, 0.25), [X, Y]),
    row("promotes to complex128", lambda x, y: x * y, [X, R.double()]),
    row("complex128", lambda x, y: x * y / (x + y), [X.to(torch.complex128), Y.to(torch.complex128)]),
    row("real or imaginary alone", lambda x: (x.real * 1, x.imag * 1, torch.real(x).exp()), [X]),
    row("length and angle", lambda x: (x.abs(), x.angle(), abs(x) ** 2), [X]),
    row("length of very small and very large numbers", lambda x: ((x * 1e-25).abs(), (x * 1e25).abs()), [X]),
    row("sign", lambda x: (x * (x.real > 0)).sgn(), [X]),
    row("angle of reals", torch.angle, [R]),
    row("angle of integers", torch.angle, [ints(3, 4)]),
    row("conjugate", lambda x: (x.conj() * x, x.conj().imag * 1, x.conj().conj(), torch.view_as_real(x.conj().clone())),
        [X]),
    row("conjugate, resolved", lambda x: torch.view_as_real(x.conj().resolve_conj()), [X]),
    row("conj_physical", torch.conj_physical, [X]),
    row("polar", lambda r, a: torch.polar(r, a), [R.abs(), R]),
    row("complex of parts", lambda r, i: torch.complex(r, i * 2), [R, R]),
    row("to and from real", lambda x: x.to(torch.complex64) + x.to(torch.complex64).real, [R]),
    row("to complex128", lambda x: x.to(torch.complex128), [X]),
    row("to bool", lambda x: (x * (x.real > 0)).bool(), [X]),
    row("view as floats", lambda x: x.view(torch.float32), [X]),
    row("floats viewed as complex", lambda x: x.view(torch.complex64), [R]),
]  # fmt: skip

FUNCTIONS = [
    row(name, getattr(torch, name), [X])
    for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh",
        "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sigmoid", "square", "reciprocal", "neg", "isnan",
        "isinf", "isfinite", "logical_not",
    )
]  # fmt: skip
FUNCTIONS += [row(f"{name} in complex128", getattr(torch, name), [X.to(torch.complex128)], opsets=(9, 20))
              for name in ("sqrt", "log", "acosh", "tanh")]  # fmt: skip
FUNCTIONS += [
    row(f"to the power of {exponent}", lambda x, n=exponent: x**n, [X], opsets=(9, NEWEST))
    for exponent in (0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 7, 1.5, 1 + 1j)
]
FUNCTIONS += [
    row("to a complex power", lambda x, y: x**y, [X, Y]),
    row("a number to a complex power", lambda x: 2**x, [X]),
    row("roots and powers of zero", lambda x: ((x * 0).sqrt(), (x * 0) ** 2, (x * 0) ** (1 + 1j)), [X]),
    row(
        "roots on both sides of the cut",
        torch.sqrt,
        [torch.complex(torch.tensor([-4.0, -4.0, 4.0]), torch.tensor([0.0, -0.0, -0.0]))],
    ),
    row("tanh of large numbers", lambda x: torch.tanh(x * 100), [X]),
    row("expm1 and log1p of small numbers", lambda x: (torch.expm1(x * 1e-5), torch.log1p(x * 1e-5)), [X]),
]

COMPARISONS = [
    row("eq", lambda x, y: x == torch.where(y > 0, x, 1j), [X, R]),
    row("ne", lambda x, y: x != torch.where(y > 0, x, 1j), [X, R]),
    row("eq with a number", lambda x: torch.round(x.real) + 0j == 1, [X]),
    row("any and all", lambda x: ((x * (x.real > 0)).any(1), (x * (x.real > 0)).all(1)), [X]),
    row("count_nonzero", lambda x: torch.count_nonzero(x * (x.real > 0), 1), [X]),
    row("isclose", lambda x, y: torch.isclose(x, x + y * 1e-9), [X, Y]),
]

SHAPES = [
    row("reshape", lambda x: x.reshape(-1, 2), [X]),
    row("transpose and permute", lambda x: (x.t(), x[None].permute(2, 0, 1), x.mT), [X]),
    row("conjugate transpose", lambda x: (x.mH, x.H), [X]),
    row("cat", lambda x, y: torch.cat([x, y], 1), [X, Y]),
    row("cat with real and integer", lambda x, y, z: torch.cat([x, y, z], 1), [X, R, ints(3, 4)]),
    row("stack", lambda x, y: torch.stack([x, y], -1), [X, Y]),
    row("slices", lambda x: (x[:, 1:3], x[..., 0], x[:, ::2], x[:, -1]), [X]),
    row("index", lambda x, i: x[:, i], [X, ints(5, low=0, high=4)]),
    row("index_select, gather", lambda x, i: (x.index_select(1, i), x.gather(1, i.expand(x.shape[0], 5))),
        [X, ints(5, low=0, high=4)]),
    row("masked_select", lambda x, m: x[m], [X, bools(3, 4)]),
    row("expand, repeat, tile", lambda x: (x[:, None].expand(-1, 2, -1), x.repeat(1, 2), x.tile(2, 1)), [X]),
    row("flip and roll", lambda x: (x.flip(1), x.roll(1, 1), x.roll((1, 1), (0, 1))), [X]),
    row("pad", lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 2), value=3)), [X]),
    row("reflect", lambda x: F.pad(x[None], (1, 2), mode="reflect")[0], [X]),
    row("squeeze", lambda x: x[:, None].squeeze(1).unsqueeze(0), [X]),
    row("split and chunk", lambda x: (*x.split(2, 1), *x.chunk(2, 1), *x.unbind(1)), [X]),
    row("where", lambda x, m: (torch.where(m, x, 1j), torch.where(m, x, x.real), torch.where(m, 2, x)),
        [X, bools(3, 4)]),
    row("masked_fill", lambda x, m: (x.masked_fill(m, 1 + 2j), x.masked_fill(m, 3)), [X, bools(3, 4)]),
    row("triangles and diagonals", lambda x: (x.tril(), x.triu(1), x.diagonal(), torch.diag_embed(x)), [X]),
    row("unfold", lambda x: x.unfold(1, 2, 1), [X]),
    row("new tensors", lambda x: (torch.zeros_like(x) + x, torch.ones_like(x) * x, torch.full_like(x, 2j)), [X]),
    row("filled", lambda x: (x.new_full(x.shape, 1 - 1j), x.new_zeros(x.shape[0]), torch.full(x.shape, 2j)), [X]),
    row("meshgrid", lambda x: torch.meshgrid(x[:, 0], x[0], indexing="ij"), [X]),
    row("written through the real part", lambda x: _written(x), [X]),
    row("slice written", lambda x: _sliced(x), [X]),
    row("index_put", lambda x, i: x.index_put((torch.arange(2), i), x[0, :2] * 2), [X, ints(2, low=0, high=4)],
        sizes=(5,)),
]  # fmt: skip


def _written(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.real.add_(1)
    torch.view_as_real(y)[..., 1].mul_(2)
    return y


def _sliced(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(x.shape[0], 6, dtype=x.dtype)
    y[:, 1:5] = x
    y[:, 0] = 1j
    return y


SCATTERS = [
    row("scatter", lambda x, i: (x.scatter(1, i, x * 2), x.scatter(1, i, 1j), x.scatter_add(1, i, x)),
        [X, torch.tensor([[0, 1], [2, 3], [1, 0]])], opsets=(13, 16, NEWEST)),
    row("scatter, added up", lambda x, i: x.scatter(1, i, x, reduce="add"), [X, torch.tensor([[0, 0], [2, 3], [1, 0]])],
        opsets=(16, NEWEST)),
    row("index_add", lambda x, y: x.index_add(1, torch.tensor([0, 2, 2, 1]), y), [X, Y], opsets=(16, NEWEST)),
]  # fmt: skip

PRODUCTS = [
    row("matmul", lambda x, y: x @ y.mH, [X, Y]),
    row("mm with a constant", lambda x: x @ WIDE.mT, [X]),
    row("bmm", lambda x, y: torch.bmm(x[None], y.mT[None]), [X, Y]),
    row("linear", lambda x: F.linear(x, WIDE, BIAS), [X]),
    row("conv1d", lambda x: F.conv1d(x[:, None], KERNEL, BIAS[:2]), [X]),
    row("addmm", lambda x, y: torch.addmm(BIAS[:3], x, y.mT, beta=2, alpha=1j), [X, Y], dynamic={}),
    row("addbmm", lambda x, y: torch.addbmm(BIAS[:3], x[None], y.mT[None], beta=2, alpha=1j), [X, Y], dynamic={}),
    row("outer and dot", lambda x, y: (torch.outer(x[0], y[0]), torch.dot(x[0], y[0])), [X, Y]),
    row("vdot", lambda x, y: torch.vdot(x[0], y[0]), [X, Y]),
    row("einsum of one, and with a real", lambda x, y: (torch.einsum("bi->i", x), torch.einsum("bi,bi->b", x, y)),
        [X, R.to(torch.complex64)]),
    row("einsum", lambda x, y: torch.einsum("bi,ci->bc", x, y), [X, Y]),
    row("einsum of three", lambda x, y: torch.einsum("bi,ij,cj->bc", x, SQUARE, y), [X, Y]),
    row("tensordot", lambda x, y: torch.tensordot(x, y, dims=([1], [1])), [X, Y]),
]  # fmt: skip

REDUCTIONS = [
    row("sum and mean", lambda x: (x.sum(), x.sum(1), x.mean(0, keepdim=True), x.mean()), [X]),
    row("sum of reals as complex", lambda x: x.sum(1, dtype=torch.complex64), [R]),
    row("prod", lambda x: (x.prod(1), x.prod(1, keepdim=True)), [X]),
    row("cumsum and cumprod", lambda x: (x.cumsum(1), x.cumprod(1)), [X], opsets=(11, 14, NEWEST)),
    row("var and std", lambda x: (x.var(1), x.std(1, correction=0), x.var()), [X]),
    row("var_mean", lambda x: (*torch.var_mean(x, 1), *torch.std_mean(x, 1)), [X]),
    row("norms", lambda x: (torch.linalg.vector_norm(x, dim=1), x.norm(), torch.linalg.vector_norm(x, 1)), [X]),
]


@pytest.mark.parametrize(
    "row", ARITHMETIC + FUNCTIONS + COMPARISONS + SHAPES + SCATTERS + PRODUCTS + REDUCTIONS, ids=str
)
def test_operators(row: Case) -> None:
    run(row)


# The file


def types(proto: onnx.ModelProto) -> dict[str, tuple[int, list[Any]]]:
    shapes = {each.name: each.type.tensor_type for each in (*proto.graph.input, *proto.graph.output)}
    return {
        name: (kind.elem_type, [dim.dim_param or dim.dim_value for dim in kind.shape.dim])
        for name, kind in shapes.items()
    }


def test_complex_inputs_and_outputs_have_a_last_axis_of_two(tmp_path: Path) -> None:
    program = onward.export(
        lambda x, y: {"out": x * y}, (X, Y), tmp_path / "m.onnx", input_names=["x", "y"], output_names=["out"],
        dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, verify=True,
    )  # fmt: skip
    assert types(program.proto()) == {name: (onnx.TensorProto.FLOAT, ["batch", 4, 2]) for name in ("x", "y", "out")}
    assert program.inputs[0].dtype is torch.complex64
    answer = program(X, Y)["out"]
    assert answer.dtype is torch.complex64
    torch.testing.assert_close(answer, X * Y)
    by_hand = onward.verify.Session(tmp_path / "m.onnx").run(
        [torch.view_as_real(X), torch.view_as_real(Y.conj_physical())]
    )
    torch.testing.assert_close(torch.view_as_complex(by_hand[0]), X * Y.conj())


def test_a_pair_that_is_only_passed_on_is_not_taken_apart() -> None:
    program = onward.export(lambda x: torch.view_as_real(x), (X,))
    assert [node.op_type for node in program.model.graph] == ["Identity"]
    there_and_back = onward.export(lambda x: torch.view_as_complex(torch.view_as_real(x)).real.exp(), (X,))
    assert [node.op_type for node in there_and_back.model.graph] == ["Gather", "Exp"]


def test_real_times_complex_is_two_products() -> None:
    table = c64(4)
    program = onward.export(lambda x: torch.view_as_real(x * table), (R,))
    assert [node.op_type for node in program.model.graph].count("Mul") == 2


def test_einsum_of_two_is_four_products() -> None:
    program = onward.export(lambda x, y: torch.einsum("bi,ci->bc", x, y), (X, Y))
    assert [node.op_type for node in program.model.graph].count("Einsum") == 4


def test_parts_are_named_after_the_module_and_the_operator() -> None:
    class Turn(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x

    program = onward.export(nn.Sequential(Turn()), (X,), input_names=["x"])
    assert {"x.real", "x.imag", "0.mul.real", "0.mul.imag"} <= {node.name for node in program.model.graph}


def test_a_complex_buffer_is_stored_as_its_parts() -> None:
    class Rotate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turn", torch.polar(torch.ones(16, 8), floats(16, 8)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * self.turn[: x.shape[1]]).flatten(2)

    rotate = Rotate()
    program = onward.export(rotate, (f32(2, 5, 16),), dynamic_axes={"x": {0: "batch", 1: "time"}}, verify=True)
    assert set(program.model.graph.initializers) >= {"turn.real", "turn.imag"}
    other = torch.polar(torch.ones(16, 8), floats(16, 8, seed=9))
    x = f32(1, 3, 16)
    program.apply_weights({"turn": other})
    rotate.turn = other
    torch.testing.assert_close(program(x), rotate(x))


def test_a_complex_parameter_as_an_input() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(c64(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    program = onward.export(Scale(), (R,), export_params=False, verify=True)
    assert types(program.proto())["scale"] == (onnx.TensorProto.FLOAT, [4, 2])


def test_complex_state() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4, dtype=torch.complex64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total = self.total + x
            return self.total.abs()

    program = onward.export(Sum(), (X[0],), mutable_buffers=True, verify=True)
    program(X[0])
    torch.testing.assert_close(program(X[1]), (X[0] + X[1]).abs())
    assert program.state["total"].dtype is torch.complex64


def test_branches_and_loops_hand_complex_numbers_over() -> None:
    class Choose(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.cond(x.real.sum() > 0, lambda z: z * 1j, lambda z: z.conj() + 1, (x,))
            turned = torch.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * y), (torch.tensor(0), x))
            return turned[1] + y

    for x in (X, -X):
        program = onward.export(Choose(), (X,), dynamic_axes={"x": {0: "batch"}}, verify=True)
        torch.testing.assert_close(program(x), Choose()(x))


def test_modules_as_functions() -> None:
    class Turn(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 1j

    model = nn.Sequential(Turn(), Turn())
    program = onward.export(model, (X,), export_modules_as_functions={Turn}, verify=True)
    torch.testing.assert_close(program(X), model(X))


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(LoweringError, match="complex numbers seen as torch.int64"):
        onward.export(lambda x: x.view(torch.int64), (X,))


def test_a_users_function_gets_pairs() -> None:
    def conjugate(g: Any, x: Any) -> Any:
        return g.op.Mul(x, g.const([1.0, -1.0]))

    table = {torch.ops.aten.conj_physical.default: conjugate}
    program = onward.export(lambda x: torch.conj_physical(x), (X,), custom_translation_table=table, verify=True)
    assert [node.op_type for node in program.model.graph] == ["Mul"]


def test_nothing_is_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(row("all of it", lambda x: (x.conj() * x).real, [X]), 20)
