"""What docs/known-defects.md has a file for. A find that it explains is counted apart."""

from __future__ import annotations

import re

_DECOMPOSITIONS = r"linalg\.(cholesky|cond|inv|ldl|lstsq|lu|qr|solve|svd)\w*|lu|qr|geqrf|svd|norm:nuc"

# A pattern for "name: what was seen" -> the words by which the page is to be searched.
LISTED = {
    r"expected nan, got -?0": "The mean of no elements is 0",
    r"Invalid num_outputs value": "`Split` into a number of parts",
    r"pool_attributes\.h": "Pools of no channels or of empty planes",
    r"operand cannot broadcast": "`MatMul` of one matrix and an empty batch of matrices",
    r"Unexpected mode of 3": "`Pad` that wraps around",
    r"Integer modulo by zero": "`Mod` of integers by 0",
    r"reshape_helper\.h": "`Reshape` that infers a size beside a 0",
    r"^(__rmatmul__|addmv|addr|matmul|mv|bmm|baddbmm)\b.*differs in": "`MatMul` over an axis without elements",
    rf"^({_DECOMPOSITIONS})\b": "decompositions of matrices without rows",
    r"^nn\.functional\.conv\dd: no answer": "`Conv` of no channels with padding does not come back",
    r"^nn\.functional\.multi_head_attention_forward: exit code -8": "`MatMul` of a batch that a `Transpose` has moved",
    r"(?i)^nn\.(functional\.)?pixel_?unshuffle": "`pixel_unshuffle` gives its input back",
    r"^trap(z|ezoid): .*type is": "`trapezoid` of integers",
    r"^histogramdd": "The edges of `histogramdd`",
}


def listed(name: str, detail: str) -> str | None:
    """Where the page speaks of a find; None where it does not."""
    text = f"{name}: {detail}"
    return next((words for pattern, words in LISTED.items() if re.search(pattern, text)), None)
