"""Which operators are asked for: PyTorch's operator database, without what no inference graph can be judged by."""

from __future__ import annotations

import functools
import re
from typing import Any

import torch

# Pattern on the operator's key -> why it is left out.
LEFT_OUT = {
    r"(^|\.)_(?!_)": "internal",
    r"^(cauchy|exponential|geometric|log_normal|normal|uniform|multinomial|bernoulli)\b": "random",
    r"^rand(n|int)?(_like)?\b": "random",
    r"^(sparse\.|to_sparse)": "sparse tensors",
    r"^(new_)?empty": "contents are arbitrary",
    r"_backward$": "training",
    r"^jiterator|:(triton_optimized|cutedsl)$": "kernels for other devices",
}


@functools.cache
def database() -> dict[str, Any]:
    """Every operator in scope by its key, `name` or `name:variant`."""
    from torch.testing._internal import common_methods_invocations as methods

    # Some entries set the seed around the call, which is nothing to export and would hide what is random.
    methods.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    keyed = {f"{info.name}:{info.variant_test_name}".rstrip(":"): info for info in methods.op_db}
    return {key: info for key, info in keyed.items() if why_left_out(key) is None}


def why_left_out(key: str) -> str | None:
    return next((reason for pattern, reason in LEFT_OUT.items() if re.search(pattern, key)), None)


def chosen(names: list[str] | None) -> dict[str, Any]:
    """The operators with these names (all variants of them) or keys; all without names."""
    found = database()
    if not names:
        return found
    wanted = {key: info for key, info in found.items() if key in names or info.name in names}
    unknown = [name for name in names if name not in wanted and all(info.name != name for info in wanted.values())]
    if unknown:
        reasons = {name: why_left_out(name) for name in unknown}
        shown = ", ".join(f"{name} ({reason})" if reason else name for name, reason in reasons.items())
        raise SystemExit(f"not among the operators in scope: {shown}")
    return wanted


def takes(info: Any, dtype: torch.dtype) -> bool:
    """Whether eager PyTorch has the operator for a dtype on the CPU."""
    return dtype in info.supported_dtypes("cpu")
