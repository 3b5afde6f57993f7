"""Operators of onnxruntime's own: it is the judge. Those on quantised tensors are in test_qlinear.py."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from onward.backend import BackendError, prepare

from .judge import assert_same, one_node

MS = "com.microsoft"
RANDOM = np.random.default_rng(0)


def f(*shape: int) -> Any:
    return RANDOM.standard_normal(shape, np.float32)


def n(high: int, *shape: int, dtype: Any = np.int64) -> Any:
    return RANDOM.integers(0, high, shape).astype(dtype)


def whole(*values: Any, dtype: Any = np.int32) -> Any:
    return np.array(values, dtype=dtype)


PAIR = np.linalg.qr(f(4, 4))[0][None] + np.eye(4, dtype=np.float32) * 3
COS, SIN = np.cos(f(16, 4)), np.sin(f(16, 4))
COS8, SIN8 = np.cos(f(16, 8)), np.sin(f(16, 8))
MASK = whole([1, 1, 1, 1, 0], [1, 1, 0, 0, 0])
BERT = [f(2, 5, 12), f(12, 36), f(36)]  # 3 heads of 4
CROSS = [f(2, 3, 12), f(2, 5, 12), f(2, 5, 12)]
LENGTHS = whole(4, 4)

# operator, inputs (None is left out), attributes, which outputs
Row = tuple[str, list[Any], dict[str, Any], tuple[int, ...]]
ROWS: list[Row] = [
    ("Gelu", [f(2, 4)], {}, (0,)),
    ("BiasGelu", [f(2, 4), f(4)], {}, (0,)),
    ("FastGelu", [f(2, 4), f(4)], {}, (0,)),
    ("QuickGelu", [f(2, 4)], {"alpha": 1.5}, (0,)),
    ("ScaledSiLU", [f(2, 4)], {"alpha": 1.5}, (0,)),
    ("ScaledSiLU", [f(2, 4), np.array(0.7, np.float32)], {}, (0,)),
    ("FusedMatMul", [f(2, 4, 3), f(2, 5, 4)], {"alpha": 0.5, "transA": 1, "transB": 1}, (0,)),
    ("FusedMatMul", [f(3, 2, 4), f(2, 4, 5)], {"transBatchA": 1}, (0,)),
    ("FusedMatMul", [f(2, 3, 4), f(4, 2, 5)], {"transBatchB": 1}, (0,)),
    ("FusedMatMul", [f(4), f(5, 4)], {"transB": 1}, (0,)),
    ("TransposeMatMul", [f(2, 3, 4), f(2, 5, 4)], {"transB": 1}, (0,)),
    ("SkipLayerNormalization", [f(2, 3, 4), f(2, 3, 4), f(4), f(4), f(4)], {"epsilon": 1e-5}, (0, 3)),
    ("SkipSimplifiedLayerNormalization", [f(2, 3, 4), f(2, 3, 4), f(4)], {"epsilon": 1e-5}, (0, 3)),
    *[
        ("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)],
         {"activation": name, "pads": [1, 1, 1, 1], **({"activation_params": numbers} if numbers else {})}, (0,))
        for name, numbers in [("Relu", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.5]), ("Tanh", []), ("Sigmoid", []),
                              ("HardSigmoid", [0.3, 0.4])]
    ],
    ("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4), f(1, 4, 4, 4)], {"activation": "Relu"}, (0,)),
    *[
        ("FusedGemm", [f(3, 4), f(5, 4), f(5)], {"transB": 1, "alpha": 0.5, "activation": name, **numbers}, (0,))
        for name, numbers in [("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.3}), ("Tanh", {}), ("Sigmoid", {}),
                              ("Elu", {"activation_alpha": 0.7})]
    ],
    ("EmbedLayerNormalization",
     [n(9, 2, 5, dtype=np.int32), n(2, 2, 5, dtype=np.int32), f(9, 4), f(7, 4), f(2, 4), f(4), f(4), MASK], {}, (0, 1)),
    ("EmbedLayerNormalization",
     [n(9, 2, 5, dtype=np.int32), None, f(9, 4), f(7, 4), None, f(4), f(4), None, n(7, 2, 5, dtype=np.int32)],
     {"epsilon": 1e-5}, (0, 1, 2)),
    # Attention
    ("Attention", BERT, {"num_heads": 3}, (0,)),
    ("Attention", BERT, {"num_heads": 3, "unidirectional": 1, "scale": 0.3}, (0,)),
    ("Attention", [*BERT, MASK], {"num_heads": 3}, (0,)),
    ("Attention", [*BERT, MASK], {"num_heads": 3, "unidirectional": 1, "mask_filter_value": -5.0}, (0,)),
    ("Attention", [*BERT, whole(4, 2)], {"num_heads": 3}, (0,)),
    ("Attention", [*BERT, whole(4, 3, 1, 0)], {"num_heads": 3}, (0,)),
    ("Attention", [*BERT, n(2, 2, 5, 5, dtype=np.int32)], {"num_heads": 3}, (0,)),
    ("Attention", [*BERT, None, f(2, 2, 3, 4, 4)], {"num_heads": 3, "unidirectional": 1}, (0, 1)),
    ("Attention", [*BERT, None, None, f(2, 3, 5, 5)], {"num_heads": 3}, (0,)),
    ("Attention", [f(2, 5, 12), f(12, 30), f(30)], {"num_heads": 3, "qkv_hidden_sizes": [12, 12, 6]}, (0,)),
    ("MultiHeadAttention", CROSS, {"num_heads": 3}, (0,)),
    ("MultiHeadAttention", [*CROSS, f(36)], {"num_heads": 3, "scale": 0.4}, (0,)),
    ("MultiHeadAttention", [*CROSS, None, MASK], {"num_heads": 3}, (0,)),
    ("MultiHeadAttention", [*CROSS, None, whole(4, 2)], {"num_heads": 3}, (0,)),
    ("MultiHeadAttention", [*CROSS, None, None, f(1, 3, 3, 5)], {"num_heads": 3}, (0,)),
    ("MultiHeadAttention", [f(2, 3, 12), f(2, 3, 5, 4), f(2, 3, 5, 4)], {"num_heads": 3}, (0,)),
    ("MultiHeadAttention", [f(2, 3, 12), f(2, 3, 12), f(2, 3, 12), None, None, None, f(2, 3, 6, 4), f(2, 3, 6, 4)],
     {"num_heads": 3, "unidirectional": 1}, (0, 1, 2)),
    *[
        ("GroupQueryAttention", [f(2, 5, 96), f(2, 5, 32), f(2, 5, 32), None, None, LENGTHS, whole(5), *more],
         {"num_heads": 6, "kv_num_heads": 2, **attributes}, (0, 1, 2))
        for more, attributes in [([], {}), ([], {"local_window_size": 2}), ([], {"softcap": 2.0, "scale": 0.7}),
                                 ([COS8, SIN8], {"do_rotary": 1}),
                                 ([COS8, SIN8], {"do_rotary": 1, "rotary_interleaved": 1}),
                                 ([], {"smooth_softmax": 1})]
    ],
    ("GroupQueryAttention", [f(2, 5, 80), None, None, None, None, LENGTHS, whole(5)],
     {"num_heads": 6, "kv_num_heads": 2}, (0, 1, 2)),
    ("GroupQueryAttention",
     [f(2, 1, 96), f(2, 1, 32), f(2, 1, 32), f(2, 2, 4, 16), f(2, 2, 4, 16), LENGTHS, whole(5), COS8, SIN8],
     {"num_heads": 6, "kv_num_heads": 2, "do_rotary": 1}, (0, 1, 2)),
    ("GroupQueryAttention",
     [f(1, 3, 96), f(1, 3, 32), f(1, 3, 32), f(1, 2, 4, 16), f(1, 2, 4, 16), whole(6), whole(7)],
     {"num_heads": 6, "kv_num_heads": 2}, (0, 1, 2)),
    ("RotaryEmbedding", [f(2, 5, 24), n(16, 2, 5), COS, SIN], {}, (0,)),
    ("RotaryEmbedding", [f(2, 5, 24), np.array([3]), COS, SIN], {"interleaved": 1}, (0,)),
    ("RotaryEmbedding", [f(2, 3, 5, 8), n(16, 2, 5), COS, SIN], {}, (0,)),
    ("RotaryEmbedding", [f(2, 5, 36), n(16, 2, 5), COS, SIN], {"num_heads": 3, "rotary_embedding_dim": 8}, (0,)),
    # Few bits
    *[
        ("MatMulNBits",
         [f(3, K), n(256, 6, -(-K // block), block * bits // 8, dtype=np.uint8), f(6 * -(-K // block)), zeros, None,
          bias], {"K": K, "N": 6, "block_size": block, "bits": bits}, (0,))
        for K, block, bits, zeros, bias in [
            (64, 32, 4, None, None), (64, 32, 4, n(256, 6, dtype=np.uint8), None), (40, 16, 4, None, f(6)),
            (80, 16, 4, n(256, 6 * 3, dtype=np.uint8), None), (64, 32, 4, f(6, 2), None),
            (64, 32, 8, None, None), (64, 16, 8, n(256, 6 * 4, dtype=np.uint8), None),
        ]
    ],
    ("GatherBlockQuantized", [n(256, 6, 32, dtype=np.uint8), n(6, 2, 3), f(6, 2)],
     {"bits": 8, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}, (0,)),
    ("GatherBlockQuantized", [n(256, 6, 16, dtype=np.uint8), n(6, 2, 3), f(6, 2), n(256, 6, 1, dtype=np.uint8)],
     {"bits": 4, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}, (0,)),
    *[
        ("MatMulBnb4", [f(3, 32), n(256, 32 * 4 // 2, dtype=np.uint8), np.abs(f(8))],
         {"K": 32, "N": 4, "block_size": 16, "quant_type": kind}, (0,)) for kind in (0, 1)
    ],
    *[
        ("DynamicQuantizeLSTM",
         [f(6, 3, 4), n(200, d, 4, 20, dtype=np.int8), n(200, d, 5, 20, dtype=np.int8), f(d, 40), lengths, f(d, 3, 5),
          f(d, 3, 5), peep, np.abs(f(d, *each)) / 50, n(1 if each else 3, d, *each, dtype=np.int8),
          np.abs(f(d, *each)) / 50, n(1 if each else 3, d, *each, dtype=np.int8)],
         {"hidden_size": 5, "direction": direction}, (0, 1, 2))
        for d, direction, lengths, peep, each in [
            (1, "forward", None, None, ()), (1, "reverse", None, None, (20,)), (2, "bidirectional", None, f(2, 15), ()),
            (1, "forward", whole(6, 3, 5), None, ()),
        ]
    ],
    # The rest
    ("Inverse", [PAIR], {}, (0,)),
    ("Trilu", [f(4, 5), np.array(1)], {"upper": 0}, (0,)),
    ("Unique", [np.array([2, 1, 1, 3, 2, 5], np.float32)], {}, (0, 1, 2)),
    ("GridSample", [f(1, 2, 4, 5), np.clip(f(1, 3, 3, 2), -1.5, 1.5)], {"padding_mode": "border"}, (0,)),
    ("GridSample", [f(1, 2, 4, 5), f(1, 3, 3, 2)], {"mode": "nearest", "align_corners": 1}, (0,)),
    ("GridSample", [f(1, 2, 4, 5), f(1, 3, 3, 2)], {"mode": "bicubic"}, (0,)),
    ("CDist", [f(3, 4), f(5, 4)], {"metric": "euclidean"}, (0,)),
    ("CDist", [f(3, 4), f(5, 4)], {"metric": "sqeuclidean"}, (0,)),
    ("ExpandDims", [f(3, 4), whole(1).reshape(())], {}, (0,)),
    ("UnfoldTensor", [f(3, 9)], {"size": 4, "step": 2, "dim": 1}, (0,)),
    ("Range", [whole(2).reshape(()), whole(9).reshape(())], {}, (0,)),
    ("Pad", [f(2, 3), np.array([1, 0, 0, 2]), np.array(7, np.float32)], {}, (0,)),
    ("GatherND", [f(3, 4, 5), n(3, 2, 2)], {}, (0,)),
    ("NGramRepeatBlock", [whole([1, 2, 3, 1, 2], [0, 1, 0, 1, 0], dtype=np.int64), f(2, 6)], {"ngram_size": 3}, (0,)),
    ("CropAndResize", [f(2, 3, 8, 9), np.array([[0.1, 0.2, 0.7, 0.9], [-0.2, 0, 1.1, 1]], np.float32), whole(1, 0),
                       whole(4, 5)], {"extrapolation_value": 0.5}, (0,)),
    ("CropAndResize", [f(2, 3, 8, 9), np.array([[0.1, 0.2, 0.7, 0.9]], np.float32), whole(1), whole(3, 4)],
     {"mode": "nearest"}, (0,)),
    ("NhwcMaxPool", [n(255, 1, 6, 6, 2, dtype=np.uint8)], {"kernel_shape": [2, 2], "strides": [2, 2]}, (0,)),
    ("MatMulInteger16", [n(999, 3, 4, dtype=np.int16), n(999, 4, 5, dtype=np.int16)], {}, (0,)),
]  # fmt: skip
RESULTS = {
    ("EmbedLayerNormalization", 1): T.INT32, ("Unique", 1): T.INT64, ("Unique", 2): T.INT64, ("Range", 0): T.INT32,
    ("NhwcMaxPool", 0): T.UINT8, ("MatMulInteger16", 0): T.INT32,
}  # fmt: skip


def model(op_type: str, inputs: list[Any], attributes: dict[str, Any], outputs: tuple[int, ...]) -> Any:
    names = [f"x{place}" if value is not None else "" for place, value in enumerate(inputs)]
    results = [f"y{place}" if place in outputs else "" for place in range(max(outputs) + 1)]
    node = helper.make_node(op_type, names, results, domain=MS, **attributes)
    feeds = {name: value for name, value in zip(names, inputs, strict=True) if name}
    types = {f"y{place}": RESULTS.get((op_type, place), T.FLOAT) for place in outputs}
    return one_node(node, feeds, types, {"": 21, MS: 1}), feeds


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "outputs"), ROWS, ids=[row[0] for row in ROWS])
def test_against_onnxruntime(op_type: str, inputs: Any, attributes: dict[str, Any], outputs: tuple[int, ...]) -> None:
    assert_same(*model(op_type, inputs, attributes, outputs), rtol=1e-4, atol=2e-5)


def test_gather_blocks_of_a_weight_in_the_file() -> None:
    """g_idx says which block's scale a column has."""
    order = RANDOM.permutation(64) // 32
    inputs = [f(3, 64), n(256, 6, 2, 16, dtype=np.uint8), f(12), None, order.astype(np.int32)]
    assert_same(*model("MatMulNBits", inputs, {"K": 64, "N": 6, "block_size": 32, "bits": 4}, (0,)), atol=2e-4)


@pytest.mark.parametrize("dtype", (ml_dtypes.uint4, ml_dtypes.int4))
def test_gather_of_four_bits(dtype: Any) -> None:
    """onnxruntime takes no such inputs from numpy: they are in the file."""
    table, zeros = (n(16, 6, 32) - 8).astype(dtype), n(8, 6, 2).astype(dtype)
    inputs = [table, n(6, 2, 3), f(6, 2), zeros]
    made, feeds = model("GatherBlockQuantized", inputs, {"block_size": 16, "quantize_axis": 1}, (0,))
    for name in ("x0", "x3"):
        made.graph.initializer.append(numpy_helper.from_array(feeds.pop(name), name))
    declared = [value for value in made.graph.input if value.name in feeds]
    del made.graph.input[:]
    made.graph.input.extend(declared)
    assert_same(made, feeds)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "text"),
    [
        ("FusedGemm", [f(3, 4), f(4, 5)], {"activation": "Gelu"}, "there is no activation 'Gelu'"),
        ("Attention", BERT, {"num_heads": 3, "do_rotary": 1}, "Attention with do_rotary"),
        ("MatMulNBits", [f(3, 64), n(9, 6, 2, 8, dtype=np.uint8), f(12)], {"K": 64, "N": 6, "block_size": 32},
         "a weight of [6, 2, 8] bytes has no 6 rows of 64 numbers of 4 bits"),
        ("Attention", BERT, {"num_heads": 3, "unheard_of": 1}, "the attribute unheard_of=1 is not supported"),
    ],
)  # fmt: skip
def test_what_is_refused(op_type: str, inputs: Any, attributes: dict[str, Any], text: str) -> None:
    made, feeds = model(op_type, inputs, attributes, (0,))
    with pytest.raises(BackendError) as caught:
        prepare(made).run(feeds)
    assert text in str(caught.value)


# onnxruntime has no kernel of these for CPUs


def ran(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    made, feeds = model(op_type, inputs, attributes, (0,))
    return torch.from_numpy(prepare(made).run(feeds)[0])


def test_group_norm() -> None:
    x, gamma, beta = f(2, 5, 5, 8), f(8), f(8)
    norm = torch.nn.GroupNorm(4, 8, eps=1e-5)
    norm.load_state_dict({"weight": torch.from_numpy(gamma), "bias": torch.from_numpy(beta)})
    wanted = torch.nn.functional.silu(norm(torch.from_numpy(x).movedim(-1, 1))).movedim(1, -1)
    torch.testing.assert_close(ran("GroupNorm", [x, gamma, beta], {"groups": 4, "activation": 1}), wanted)
    half = (x / 2).astype(np.float32)
    got = ran("SkipGroupNorm", [half, gamma, beta, half], {"groups": 4, "activation": 1})
    torch.testing.assert_close(got, wanted)


def test_packed_attention_is_attention_without_padding() -> None:
    x, weights, bias = BERT
    rows = np.concatenate([x[0, :4], x[1, :2]])
    packed = ran("PackedAttention", [rows, weights, bias, n(1, 2, 5, dtype=np.int32), whole(0, 4, 6)], {"num_heads": 3})
    for start, end, each in ((0, 4, x[:1, :4]), (4, 6, x[1:, :2])):
        torch.testing.assert_close(packed[start:end], ran("Attention", [each, weights, bias], {"num_heads": 3})[0])


def test_channels_last() -> None:
    x, weight, bias = f(1, 6, 6, 3), f(4, 3, 3, 3), f(4)
    wanted = ran("FusedConv", [np.moveaxis(x, -1, 1).copy(), weight, bias], {"activation": "Relu"}).movedim(1, -1)
    last = np.moveaxis(weight, 1, -1).copy()
    torch.testing.assert_close(ran("NhwcFusedConv", [x, last, bias], {"activation": "Relu"}), wanted)


def test_bias_split_gelu() -> None:
    x, bias = f(2, 3, 8), f(8)
    left, right = torch.from_numpy(x + bias).chunk(2, -1)
    torch.testing.assert_close(ran("BiasSplitGelu", [x, bias], {}), left * torch.nn.functional.gelu(right))
