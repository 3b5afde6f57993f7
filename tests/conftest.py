"""What holds for every test: `--sample N` takes a part of every table of cases (`make check` uses it),
and a test that leaves PyTorch in another state than it found fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", type=int, default=1, metavar="N", help="of every parametrized test, each Nth case")


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    every = config.getoption("--sample")
    if every < 1:
        raise pytest.UsageError(f"--sample is {every}; it has to be at least 1")
    if every == 1:
        return
    seen: Counter[str] = Counter()
    kept, left = [], []
    for item in items:
        test = item.nodeid.split("[")[0]
        (left if seen[test] % every else kept).append(item)
        seen[test] += 1
    items[:] = kept
    config.hook.pytest_deselected(items=left)


def _state() -> dict[str, Any]:
    """What PyTorch keeps for the whole process, and an export has to put back."""
    return {
        "gradients are recorded": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "calls of __torch_function__": torch._C._is_torch_function_enabled(),
        "dispatch keys that are left out": repr(torch._C._dispatch_tls_local_exclude_set()),
        "dispatch keys that are added": repr(torch._C._dispatch_tls_local_include_set()),
        "default dtype": torch.get_default_dtype(),
        "the fast path of attention": torch.backends.mha.get_fastpath_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
    }


@pytest.fixture(autouse=True)
def _state_is_put_back() -> Iterator[None]:
    before = _state()
    yield
    after = _state()
    if after != before:
        torch.set_grad_enabled(before["gradients are recorded"])  # the next test begins as this one did
        changed = {name: (value, after[name]) for name, value in before.items() if after[name] != value}
        pytest.fail(f"the test left PyTorch changed, from (before) to (after): {changed}")
