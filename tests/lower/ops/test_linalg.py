"""Matrix products, triangles, diagonals and distances against eager."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ..harness import NEWEST, SOME_OPSETS, bools, case, f32, floats, ints, run

FEW = (9, 13, NEWEST)


def layer(*sizes: int, dtype: torch.dtype = torch.float32, **settings: bool) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(*sizes, dtype=dtype, **settings)


BATCH = {0: {0: "b"}}
PRODUCTS = [
    case("linear of a matrix", layer(4, 3), [f32(2, 4)], dynamic=BATCH),
    case("linear of three axes", layer(4, 3), [f32(2, 3, 4)], dynamic={0: {0: "b", 1: "s"}}),
    case("linear of a vector", layer(4, 3), [f32(4)], opsets=SOME_OPSETS),
    case("linear without bias", layer(4, 3, bias=False), [f32(2, 4)], opsets=SOME_OPSETS),
    case("linear with a weight of one axis", lambda x, w: F.linear(x, w), [f32(2, 4), f32(4)], opsets=FEW),
    case("linear of computed weights", F.linear, [f32(2, 4), f32(3, 4), f32(3)], opsets=FEW),
    case("linear float16", layer(4, 3, dtype=torch.float16), [floats(2, 4, dtype=torch.float16)], opsets=FEW),
    case(
        "linear bfloat16", layer(4, 3, dtype=torch.bfloat16), [floats(2, 4, dtype=torch.bfloat16)], opsets=(13, NEWEST)
    ),
    case("linear float64", layer(4, 3, dtype=torch.float64), [floats(2, 4, dtype=torch.float64)], opsets=FEW),
    case("linear int64", F.linear, [ints(2, 4), ints(3, 4), ints(3)], opsets=FEW),
    case("mm", torch.mm, [f32(2, 4), f32(4, 3)], dynamic=BATCH),
    case("mm int32", torch.mm, [ints(2, 4, dtype=torch.int32), ints(4, 3, dtype=torch.int32)], opsets=FEW),
    case("mm of big int64", torch.mm, [ints(2, 4) + 2**53, ints(4, 3)], opsets=FEW),
    case("mm uint8", torch.mm, [ints(2, 4, dtype=torch.uint8), ints(4, 3, dtype=torch.uint8)], opsets=FEW),
    case("bmm", torch.bmm, [f32(2, 3, 4), f32(2, 4, 5)], dynamic={0: {0: "b"}, 1: {0: "b"}}),
    case(
        "bmm float16",
        torch.bmm,
        [floats(2, 3, 4, dtype=torch.float16), floats(2, 4, 3, dtype=torch.float16)],
        opsets=FEW,
    ),
    *[
        case(f"matmul of {len(a)} and {len(b)} axes", torch.matmul, [f32(*a), f32(*b)], opsets=FEW)
        for a, b in [
            ((4,), (4,)),
            ((4,), (4, 3)),
            ((2, 4), (4,)),
            ((2, 4), (4, 3)),
            ((4,), (2, 4, 3)),
            ((2, 3, 4), (4,)),
            ((2, 3, 4), (4, 5)),
            ((3, 4), (2, 4, 5)),
            ((2, 1, 3, 4), (5, 4, 2)),
        ]
    ],
    case("matmul, dynamic", torch.matmul, [f32(2, 3, 4), f32(4, 5)], dynamic={0: {0: "b", 1: "s"}}),
    case("mv", torch.mv, [f32(2, 4), f32(4)], opsets=SOME_OPSETS),
    case("dot", torch.dot, [f32(4), f32(4)], opsets=SOME_OPSETS),
    case("inner", torch.inner, [f32(2, 4), f32(3, 4)], opsets=FEW),
    case("outer", torch.outer, [f32(2), f32(3)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("outer of two types", torch.outer, [f32(2), ints(3)], opsets=FEW),
    case("addmm", torch.addmm, [f32(3), f32(2, 4), f32(4, 3)]),
    case("addmm scaled", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), [f32(2, 3), f32(2, 4), f32(4, 3)]),
    case("addmm of a scalar", torch.addmm, [f32(), f32(2, 4), f32(4, 3)], opsets=FEW),
    case("addmm of a column", torch.addmm, [f32(2, 1), f32(2, 4), f32(4, 3)], opsets=FEW),
    case("addmm, beta 0", lambda c, a, b: torch.addmm(c, a, b, beta=0), [f32(3) / 0, f32(2, 4), f32(4, 3)], opsets=FEW),
    case(
        "addmm of transposed", lambda c, a, b: torch.addmm(c, a.t(), b.t()), [f32(3), f32(4, 2), f32(3, 4)], opsets=FEW
    ),
    case(
        "addmm int64",
        lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3),
        [ints(3), ints(2, 4), ints(4, 3)],
        opsets=FEW,
    ),
    case("addmv", lambda c, a, b: torch.addmv(c, a, b, alpha=2), [f32(2), f32(2, 4), f32(4)], opsets=FEW),
    case("addr", lambda c, a, b: torch.addr(c, a, b, beta=2), [f32(2, 3), f32(2), f32(3)], opsets=FEW),
    case(
        "baddbmm",
        lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2),
        [f32(2, 3, 5), f32(2, 3, 4), f32(2, 4, 5)],
        opsets=SOME_OPSETS,
    ),
    case("addbmm", torch.addbmm, [f32(3, 5), f32(2, 3, 4), f32(2, 4, 5)], opsets=SOME_OPSETS),
    case("einsum", lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b), [f32(2, 2, 3, 4), f32(2, 2, 5, 4)]),
    case(
        "einsum, dynamic",
        lambda a, b: torch.einsum("bij,jk->bik", a, b),
        [f32(2, 3, 4), f32(4, 5)],
        dynamic=BATCH,
        opsets=SOME_OPSETS,
    ),
    case("einsum, result not named", lambda a, b: torch.einsum("ij, jA", a, b), [f32(3, 4), f32(4, 5)], opsets=FEW),
    *(
        case(
            f"einsum {equation} of any size",
            lambda *x, e=equation: torch.einsum(e, *x),
            [f32(*s) for s in sizes],
            dynamic={
                place: dict(enumerate(term.replace("...", "xyz"[-len(s) - 3 + len(term) :])))
                for place, (term, s) in enumerate(zip(equation.split("->")[0].split(","), sizes, strict=True))
            },
            sizes=(1, 4),
            opsets=(12, NEWEST),
        )
        for equation, sizes in (
            ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
            ("ij,jk->ki", [(2, 3), (3, 4)]),
            ("ij,ij->", [(2, 3), (2, 3)]),
            ("ij->j", [(2, 3)]),
            ("i,j->ji", [(2,), (3,)]),
            ("abc,bcd->da", [(2, 3, 4), (3, 4, 5)]),
            ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
            ("abi,cdi->abcd", [(2, 3, 4), (5, 6, 4)]),
        )
    ),
    case(
        "einsum with dots of other ranks",
        lambda a, b: torch.einsum("...ij,...jk->...ik", a, b),
        [f32(2, 3, 4), f32(4, 5)],
        opsets=(12, NEWEST),
    ),
    case(
        "einsum with dots and an axis of 1",
        lambda a, b: torch.einsum("...i,...i->...", a, b),
        [f32(2, 3, 1), f32(3, 1)],
        dynamic={0: {0: "n"}},
        opsets=(12, NEWEST),
    ),
    case(
        "einsum that stretches an axis of 1",
        lambda a, b: torch.einsum("ij,jk->ik", a, b),
        [f32(3, 1), f32(4, 5)],
        dynamic={1: {1: "n"}},
        opsets=(12, NEWEST),
    ),
    case("einsum of a diagonal", lambda a: torch.einsum("ii->i", a), [f32(3, 3)], opsets=FEW),
    case(
        "einsum with dots",
        lambda a, b: torch.einsum("...ij,...jk->...ik", a, b),
        [f32(2, 3, 4), f32(2, 4, 5)],
        opsets=FEW,
    ),
    case(
        "einsum of three",
        lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c),
        [f32(2, 3), f32(3, 4), f32(4, 5)],
        opsets=FEW,
    ),
    case(
        "einsum float16",
        lambda a, b: torch.einsum("ij,kj->ik", a, b),
        [floats(2, 3, dtype=torch.float16), floats(4, 3, dtype=torch.float16)],
        opsets=FEW,
    ),
    case(
        "tensordot", lambda a, b: torch.tensordot(a, b, dims=2), [f32(2, 3, 4), f32(3, 4, 5)], dynamic=BATCH, opsets=FEW
    ),
    case("kron", torch.kron, [f32(2, 3), f32(3, 2)], opsets=FEW),
    case("multi_dot", lambda a, b, c: torch.linalg.multi_dot([a, b, c]), [f32(2, 3), f32(3, 4), f32(4, 5)], opsets=FEW),
    case("matrix_power", lambda a: torch.linalg.matrix_power(a, 3), [f32(3, 3)], opsets=FEW),
    case("vecdot", torch.linalg.vecdot, [f32(2, 3), f32(2, 3)], opsets=FEW),
]

SQUARE = {0: {0: "r", 1: "c"}}
MATRICES = [
    case("tril", torch.tril, [f32(3, 4)]),
    case("triu, dynamic", torch.triu, [f32(3, 4)], dynamic=SQUARE),
    case("tril above", lambda x: x.tril(1), [f32(2, 3, 4)], dynamic={0: {1: "r", 2: "c"}}, opsets=SOME_OPSETS),
    case("triu below", lambda x: x.triu(-1), [f32(2, 3, 4)], opsets=SOME_OPSETS),
    case("triu by a size", lambda x: x.triu(x.shape[1] - 2), [f32(3, 4)], dynamic=SQUARE, sizes=(3, 5), opsets=FEW),
    *[
        case(f"tril {dtype}", torch.tril, [ints(3, 3, low=0).to(dtype)], opsets=FEW)
        for dtype in (
            torch.bool,
            torch.int32,
            torch.uint8,
            torch.int8,
            torch.int16,
            torch.int64,
            torch.float16,
            torch.float64,
        )
    ],
    case("trace", torch.trace, [f32(3, 4)], opsets=SOME_OPSETS),
    case("trace int32, dynamic", torch.trace, [ints(3, 4, dtype=torch.int32)], dynamic=SQUARE, opsets=FEW),
    case("diagonal", torch.diagonal, [f32(3, 4)]),
    case("diagonal, dynamic", torch.diagonal, [f32(3, 4)], dynamic=SQUARE, opsets=SOME_OPSETS),
    case(
        "diagonal of a square, dynamic",
        lambda x: torch.diagonal(x, -1),
        [f32(3, 3)],
        dynamic={0: {0: "n", 1: "n"}},
        sizes=(2, 5),
        opsets=FEW,
    ),
    case("diagonal aside", lambda x: torch.diagonal(x, -1, 2, 0), [f32(3, 2, 4)], opsets=FEW),
    case("diagonal above", lambda x: torch.diagonal(x, 2), [f32(3, 4)], dynamic=SQUARE, sizes=(4, 6), opsets=FEW),
    case("diag of a vector", torch.diag, [f32(3)], dynamic={0: {0: "n"}}, opsets=SOME_OPSETS),
    case("diag of a matrix", lambda x: torch.diag(x, 1), [f32(3, 3)], opsets=FEW),
    case("diag_embed", lambda x: torch.diag_embed(x, -1, 0, 2), [f32(2, 3)], opsets=SOME_OPSETS),
    case("diag_embed above", lambda x: torch.diag_embed(x, 1), [ints(2, 3)], dynamic={0: {1: "n"}}, opsets=FEW),
    case("diag_embed bool", torch.diag_embed, [bools(2, 3)], opsets=FEW),
    case(
        "cross",
        lambda x, y: torch.linalg.cross(x, y),
        [f32(2, 3), f32(2, 3, seed=1)],
        dynamic={0: {0: "b"}, 1: {0: "b"}},
    ),
    case("cross broadcast", lambda x, y: torch.linalg.cross(x, y, dim=0), [f32(3, 2), f32(3, 1, seed=1)], opsets=FEW),
    case(
        "cross of the first axis of three",
        lambda x, y: torch.cross(x, y, dim=1),
        [ints(2, 3), ints(2, 3, seed=1)],
        opsets=FEW,
    ),
]

INFINITE = float("inf")
LENGTHS = [
    case("norm", torch.norm, [f32(2, 3)]),
    case("norm over axes", lambda x: torch.norm(x, dim=(0, -1), keepdim=True), [f32(2, 3, 4)], dynamic=BATCH),
    *[
        case(
            f"vector_norm {p}",
            lambda x, p=p: torch.linalg.vector_norm(x, p, dim=1),
            [f32(2, 3, 4).round(decimals=0)],
            dynamic=BATCH,
            opsets=FEW,
        )
        for p in (0, 1, 2, 3, 0.5, 2.5, -1, INFINITE, -INFINITE)
    ],
    case("norm p=1", lambda x: torch.norm(x, 1, dim=-1), [f32(2, 3)], opsets=SOME_OPSETS),
    case("norm with dtype", lambda x: torch.norm(x, 2, dim=0, dtype=torch.float64), [f32(2, 3)], opsets=FEW),
    case("norm float16", lambda x: torch.norm(x, dim=1), [floats(2, 3, dtype=torch.float16) * 200], opsets=FEW),
    case("norm float64", lambda x: torch.norm(x, dim=1), [floats(2, 3, dtype=torch.float64)], opsets=FEW),
    case("norm of a scalar", torch.norm, [f32() - 3], opsets=FEW),
    case("vector_norm with dtype", lambda x: torch.linalg.vector_norm(x, dtype=torch.float64), [f32(2, 3)], opsets=FEW),
    case("linalg.norm", torch.linalg.norm, [f32(2, 3)], opsets=FEW),
    case("linalg.norm of columns", lambda x: torch.linalg.norm(x, 1), [f32(2, 3)], opsets=FEW),
    case("matrix_norm", torch.linalg.matrix_norm, [f32(2, 3, 4)], opsets=FEW),
    case("matrix_norm inf", lambda x: torch.linalg.matrix_norm(x, INFINITE), [f32(2, 3, 4)], opsets=FEW),
    case("dist", torch.dist, [f32(2, 3), f32(3, seed=1)], opsets=FEW),
    case("cdist", torch.cdist, [f32(2, 3, 4), f32(2, 5, 4, seed=1)], dynamic={0: {1: "n"}}, opsets=SOME_OPSETS),
    *[
        case(f"pdist p={p}", lambda x, p=p: F.pdist(x, p), [f32(5, 4)], dynamic={0: {0: "n"}}, sizes=(2, 7), opsets=FEW)
        for p in (0, 1, 2, 3, float("inf"))
    ],
    case("pdist of a known number", F.pdist, [f32(5, 4)], opsets=FEW),
    case(
        "bilinear",
        lambda x, y, w, b: F.bilinear(x, y, w, b),
        [f32(2, 3, 4), f32(2, 3, 5, seed=1), f32(6, 4, 5, seed=2), f32(6, seed=3)],
        dynamic={0: {0: "n"}, 1: {0: "n"}},
        opsets=SOME_OPSETS,
    ),
    case("bilinear of vectors", F.bilinear, [f32(4), f32(5, seed=1), f32(6, 4, 5, seed=2)], opsets=FEW),
    case("cdist p=1", lambda x, y: torch.cdist(x, y, 1), [f32(3, 4), f32(5, 4, seed=1)], opsets=FEW),
    case(
        "pairwise_distance",
        F.pairwise_distance,
        [f32(3, 4), f32(3, 4, seed=1)],
        dynamic={0: {0: "b"}, 1: {0: "b"}},
        opsets=FEW,
    ),
    case("normalize", lambda x: F.normalize(x, dim=1), [f32(2, 3)], dynamic=BATCH),
    case("cosine_similarity", F.cosine_similarity, [f32(2, 3), f32(2, 3, seed=1)], dynamic={0: {0: "b"}, 1: {0: "b"}}),
    case("renorm bfloat16", lambda x: torch.renorm(x, 2, 0, 1.0), [f32(2, 3).bfloat16()], opsets=(13, 20, NEWEST)),
    case("renorm", lambda x: torch.renorm(x, 2, 0, 1.0), [f32(2, 3)], opsets=FEW),
]


@pytest.mark.parametrize("case", [*PRODUCTS, *MATRICES, *LENGTHS], ids=str)
def test_case(case):
    run(case)
