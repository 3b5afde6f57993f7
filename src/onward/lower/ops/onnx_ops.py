"""Operators of `torch.onnx.ops`: ONNX's own, and any, as calls in a model. Its names are there once it is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onward.lower.emitter import Emitter, Value
from onward.lower.registry import lowers
from onward.lower.symbolic.graph import SymbolicGraph


@lowers("onnx_symbolic::_symbolic", "onnx_symbolic::_symbolic_multi_out")
def _symbolic(
    g: Emitter,
    inputs: Sequence[Value | None],
    op_type: str,
    onnx_dtype: Any,
    *,
    attr_keys: Sequence[str],
    attr_types: Sequence[str],
    attr_pos: Sequence[Sequence[int]],
    attr_ints: Sequence[int],
    attr_floats: Sequence[float],
    attr_strs: Sequence[str],
    metadata_props_keys: Sequence[str],
    metadata_props_values: Sequence[str],
    domain: str = "",
    version: int | None = None,
    **sizes: Any,
) -> Any:
    """_symbolic(Tensor?[] inputs, str op_type, int onnx_dtype, *, SymInt[] shape, str[] attr_keys, ...) -> Tensor"""
    graph, first = SymbolicGraph(g), len(g.nodes)
    held = {"i": attr_ints, "f": attr_floats, "s": attr_strs}
    attributes: dict[str, Any] = {}
    for key, kind, (start, end) in zip(attr_keys, attr_types, attr_pos, strict=True):
        values = list(held[kind[0]][start:end])
        attributes[f"{key}_{kind[0]}"] = values if len(kind) == 2 else values[0]
    several = isinstance(onnx_dtype, (list, tuple))
    count = len(onnx_dtype) if several else 1
    if version is not None and domain not in ("", "ai.onnx", *g.opset_imports):
        g.opset_imports[domain] = version
    made = graph.unwrap(graph.op(f"{domain or 'onnx'}::{op_type}", *inputs, outputs=count, **attributes))
    for node in g.nodes[first:]:
        node.metadata_props.update(zip(metadata_props_keys, metadata_props_values, strict=True))
    return [made] if several and count == 1 else made


@lowers("onnx::RotaryEmbedding.opset23", since=23)
def rotary_embedding(
    g: Emitter,
    x: Value,
    cos: Value,
    sin: Value,
    positions: Value | None = None,
    *,
    interleaved: bool,
    num_heads: int,
    rotary_embedding_dim: int,
) -> Value:
    """RotaryEmbedding.opset23(Tensor x, Tensor cos_cache, Tensor sin_cache, Tensor? position_ids, ...) -> Tensor"""
    return g.op.RotaryEmbedding(
        x,
        cos,
        sin,
        positions,
        interleaved=interleaved,
        num_heads=num_heads,
        rotary_embedding_dim=rotary_embedding_dim,
    )
