"""From which opset on a program with lists of tensors can be lowered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import fx

from onward.capture.program.facts import ListFact
from onward.capture.program.regions import branch, loop
from onward.errors import LoweringError

SEQUENCES = 11  # ONNX has them
SEQUENCES_THROUGH_BODIES = 13  # If and Loop take and give them


def check_lists(nodes: Iterable[fx.Node], opset: int) -> None:
    """Refuse a program whose lists have no form in this opset, with the opset that has one for all of them."""
    needed, first = 0, None
    for node in nodes:
        since = _needed(node)
        if since > needed:
            needed, first = since, node
    if first is None or needed <= opset:
        return
    source, scope = first.meta.get("source"), first.meta.get("scope")
    raise LoweringError(
        "a list of tensors whose length depends on data, and whose tensors differ in shape or are returned as a list, "
        f"has no form in opset {opset} (exists from {needed})",
        source=str(source) if source else None,
        module=(scope.path or None) if scope is not None else None,
        hint=f"try opset_version={needed}, or stack or concatenate tensors of one shape",
    )


def _needed(node: fx.Node) -> int:
    fact: Any = node.meta.get("val")
    if isinstance(fact, ListFact):
        return SEQUENCES
    through = node.target in (branch, loop) and any(isinstance(each, ListFact) for each in fact)
    return SEQUENCES_THROUGH_BODIES if through else 0
