"""Mismatch hunting: which operator of a file is wrong, or whether it is only rounding."""

from onward.hunt.findings import Culprit, Explanation
from onward.hunt.search import explain
from onward.hunt.tied_indices import judge_of

__all__ = ["Culprit", "Explanation", "explain", "judge_of"]
