"""Tables looked up by number: embedding with its options, bags, one-hot."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import onward
from tests.lower.harness import SOME_OPSETS, case, check, f32, run
from tests.opsets import NEWEST

FEW = (9, 11, 13, 18, NEWEST)
TABLE = f32(10, 3)
IDS = torch.tensor([[1, 9, 0, 4], [4, 4, 2, 7]])
BATCH = {0: {0: "batch", 1: "length"}}
LENGTHS = torch.tensor([3, 0, 2, 3])  # the second bag is empty


def table(weight=TABLE, **options):
    return torch.nn.Embedding(10, 3, _weight=weight.clone(), **options)


def bag(mode, **options):
    return torch.nn.EmbeddingBag(10, 3, mode=mode, _weight=TABLE.clone(), **options)


def by_lengths(module):
    """Bags one after another: offsets that are right in any order of the lengths."""
    return lambda ids, lengths: module(ids, lengths.cumsum(0) - lengths)


CASES = [
    case("embedding", table(), [IDS]),
    case("embedding, dynamic", table(), [IDS], dynamic=BATCH),
    case("embedding, padding_idx", table(padding_idx=4), [IDS], dynamic=BATCH, opsets=SOME_OPSETS),
    case("embedding, one number", table(), [torch.tensor(3)], opsets=FEW),
    case("embedding, int32", table(), [IDS.int()], opsets=FEW),
    case("embedding, table as input", lambda w, i: F.embedding(i, w), [TABLE, IDS], opsets=FEW),
    case("embedding float16", table(TABLE.half()), [IDS], opsets=FEW),
    case("embedding bfloat16", lambda i: F.embedding(i, TABLE.bfloat16()).float(), [IDS], opsets=(13, NEWEST)),
    case("embedding float64", table(TABLE.double()), [IDS], opsets=FEW),
    *[
        case(f"embedding, max_norm by norm {norm}", table(max_norm=0.8, norm_type=norm), [IDS], dynamic=BATCH)
        for norm in (2.0, 1.0, 3.0, float("inf"))
    ],
    case(
        "embedding, max_norm and the table",
        lambda w, i: (F.embedding(i, w * 1, max_norm=0.5), F.embedding(i + 1, w * 1, max_norm=0.5)),
        [TABLE, IDS.clamp(max=8)],
        opsets=FEW,
    ),
    *[case(f"bag {mode} of two axes", bag(mode), [IDS], dynamic={0: {0: "b"}}) for mode in ("sum", "mean", "max")],
    *[
        case(f"bag {mode} by offsets", by_lengths(bag(mode)), [IDS.flatten(), LENGTHS])
        for mode in ("sum", "mean", "max")
    ],
    *[
        case(
            f"bag {mode} by offsets, dynamic",
            by_lengths(bag(mode)),
            [IDS.flatten(), LENGTHS],
            dynamic={0: {0: "n"}, 1: {0: "bags"}},
            inputs_at=lambda n: [IDS.flatten()[:n], torch.tensor([1] * n)],
            opsets=FEW,
        )
        for mode in ("sum", "mean", "max")
    ],
    *[case(f"bag {mode}, padding", bag(mode, padding_idx=4), [IDS], opsets=FEW) for mode in ("sum", "mean", "max")],
    case(
        "bag, last offset",
        lambda ids, o: bag("sum", include_last_offset=True)(ids, o.sort()[0]),
        [IDS.flatten(), torch.tensor([0, 3, 8])],
        opsets=FEW,
    ),
    case(
        "bag, weights",
        lambda i, n, w: F.embedding_bag(i, TABLE, n.cumsum(0) - n, mode="sum", per_sample_weights=w),
        [IDS.flatten(), LENGTHS, f32(8)],
        opsets=FEW,
    ),
    case("bag, max_norm", bag("mean", max_norm=0.8), [IDS], opsets=FEW),
    case("one_hot", lambda x: F.one_hot(x, 10), [IDS], dynamic=BATCH),
    case("one_hot of one number", lambda x: F.one_hot(x, 5), [torch.tensor(3)], opsets=FEW),
    case("one_hot as floats", lambda x: F.one_hot(x, 10).float() * 0.5, [IDS], opsets=FEW),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    run(case)


def test_max_norm_copies_no_table():
    proto = check(case("max_norm", table(max_norm=0.8), [IDS]), 18)
    assert "ScatterND" not in {node.op_type for node in proto.graph.node}


def test_max_norm_leaves_the_model_alone():
    model = table(max_norm=0.8).eval()
    onward.export(model, (IDS,))
    assert torch.equal(model.weight, TABLE)


def test_one_hot_of_a_script_without_classes_is_refused():
    """A traced model has as many classes as its data; a script's operator comes as it is."""

    @torch.jit.script
    def classes(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(x)

    with pytest.raises(onward.ExportError, match="give num_classes"):
        onward.export(classes, (IDS,))
