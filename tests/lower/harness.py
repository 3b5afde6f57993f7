"""One runner for operator tests: a function goes through export, checker and onnxruntime, and is held against eager.

CASES = [
    case("relu", torch.relu, [f32(2, 3)]),
    case("sum over an axis", lambda x: x.sum(1), [f32(2, 3)], dynamic={0: {0: "batch"}}),
]

@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    run(case)
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import onnx
import pytest
import torch

import onward
from onward import api, export_steps
from onward.export_steps import Taken
from onward.lower import registry_for
from onward.lower.registry import Registry
from onward.options import ExportOptions
from onward.verify import Session, compare
from tests.opsets import ALL as ALL_OPSETS
from tests.opsets import NEWEST

# Where forms change most: 9 oldest, 11 and 13 the big revisions, 18 reductions, 21/23 newer types and ops.
SOME_OPSETS = (9, 10, 11, 12, 13, 15, 18, 21, 23, NEWEST)
OTHER_SIZES = (1, 5)


@dataclass(frozen=True)
class Case:
    """A function of tensors, example tensors, the axes that vary, and where it applies."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    dynamic: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    opsets: tuple[int, ...] = ALL_OPSETS
    sizes: tuple[int, ...] = OTHER_SIZES
    inputs_at: Callable[[int], Sequence[Any]] | None = None  # inputs at another size, where resampling will not do
    warns: str = ""  # what the export has to warn of

    def __str__(self) -> str:
        return self.name


def case(
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    *,
    dynamic: Mapping[int, Mapping[int, str]] | None = None,
    since: int = 9,
    opsets: Sequence[int] | None = None,
    sizes: Sequence[int] = OTHER_SIZES,
    inputs_at: Callable[[int], Sequence[Any]] | None = None,
    warns: str = "",
) -> Case:
    """`since` is the first opset in which ONNX can express the case: older ones must be refused, and that is tested."""
    chosen = tuple(opsets) if opsets is not None else ALL_OPSETS
    return Case(
        name,
        function,
        tuple(args),
        dynamic or {},
        tuple(o for o in chosen if o >= since),
        tuple(sizes),
        inputs_at,
        warns,
    )


class _Wrapped(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        if isinstance(function, torch.nn.Module):
            self.inner = function
        self._function = function

    def forward(self, *args: Any) -> Any:
        return self._function(*args)


def run(case: Case) -> None:
    """Export at every opset of the case; compare on the example, on other values, and at other sizes."""
    judged: set[Hashable] = set()
    module = _Wrapped(case.function).eval()
    # What a capture warns of is looked for at every opset.
    with contextlib.nullcontext() if case.warns else _captured_once():
        for opset in case.opsets:
            check(case, opset, judged, module)


@contextlib.contextmanager
def _captured_once() -> Iterator[None]:
    """A model that is exported at one opset after the other is captured again only where that could make a difference.

    Capture knows nothing of opsets but whether an operator has a lowering. If an opset gives the same answer to all
    that a capture has asked, the capture would be the same.
    """
    known: list[tuple[Taken, dict[tuple[Any, bool], bool]]] = []
    lowers = Registry.has_lowering

    def once(model: Any, args: Any, kwargs: Any, options: ExportOptions) -> Taken:
        registry = registry_for(options.custom_translation_table)
        for taken, answers in known:
            if all(lowers(registry, op, options.opset_version, of) is said for (op, of), said in answers.items()):
                return taken
        asked: dict[tuple[Any, bool], bool] = {}

        def heard(registry: Registry, op: Any, opset: int, of_complex: bool = False) -> bool:
            asked[op, of_complex] = lowers(registry, op, opset, of_complex)
            return asked[op, of_complex]

        with patch.object(Registry, "has_lowering", heard):
            taken = export_steps.capture(model, args, kwargs, options)
        known.append((taken, asked))
        return taken

    with patch.object(api, "capture", once):
        yield


def check(
    case: Case, opset: int, judged: set[Hashable] | None = None, module: torch.nn.Module | None = None
) -> onnx.ModelProto:
    """One opset of one case. Returns the file's protobuf.

    `judged` holds the graphs that earlier opsets gave: the same graph of the same versions of its operators means the
    same, so that it is not run again.
    """
    module = module or _Wrapped(case.function).eval()
    names = [f"in_{i}" for i in range(len(case.args))]
    tensors = [i for i, value in enumerate(case.args) if isinstance(value, torch.Tensor)]
    axes = {f"in_{tensors.index(i)}": dict(named) for i, named in case.dynamic.items()}
    with contextlib.ExitStack() as stack:
        if case.warns:
            stack.enter_context(pytest.warns(onward.CaptureWarning, match=case.warns))
        else:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("error", onward.CaptureWarning)
        program = onward.export(
            module,
            case.args,
            input_names=names[: len(tensors)],
            dynamic_axes=axes,
            opset_version=opset,
            allow_constant_outputs=True,  # a product of nothing is zeros, whatever the inputs are
        )
    proto = program.proto()
    if judged is not None:
        meaning = (proto.graph.SerializeToString(deterministic=True), _versions(proto))
        if meaning in judged:
            return proto
        judged.add(meaning)
    onnx.checker.check_model(proto, full_check=True)
    session = Session(program.model)
    _compare(case, opset, session, module, case.args, "example")
    _compare(case, opset, session, module, _other_values(case.args), "other values")
    if case.dynamic:
        for size in case.sizes:
            at_size = case.inputs_at(size) if case.inputs_at else _resized(case, size)
            _compare(case, opset, session, module, at_size, f"size {size}")
    return proto


def _versions(proto: onnx.ModelProto) -> frozenset[tuple[str, str, int]]:
    """Every operator of the file, subgraphs included, with the version that the file's opset gives it."""
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    found: set[tuple[str, str, int]] = set()
    waiting = [proto.graph, *proto.functions]
    while waiting:
        for node in waiting.pop().node:
            version = opsets[node.domain]
            if onnx.defs.has(node.op_type, version, node.domain):
                version = onnx.defs.get_schema(node.op_type, version, node.domain).since_version
            found.add((node.domain, node.op_type, version))
            waiting.extend(graph for each in node.attribute for graph in (each.g, *each.graphs) if graph.node)
    return frozenset(found)


def _compare(
    case: Case, opset: int, session: Session, module: torch.nn.Module, args: Sequence[Any], label: str
) -> None:
    with torch.no_grad():
        expected = module(*[value.clone() if isinstance(value, torch.Tensor) else value for value in args])
    wanted = _tensors(expected)
    actual = session.run([value for value in args if isinstance(value, torch.Tensor)])
    assert len(actual) == len(wanted), f"{case} at opset {opset}, {label}: {len(actual)} outputs, not {len(wanted)}"
    for index, (want, got) in enumerate(zip(wanted, actual, strict=True)):
        result = compare(want, got, f"output {index}")
        assert result.ok, f"{case} at opset {opset}, {label}: {result}"


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for each in value for tensor in _tensors(each)]
    return []


def _other_values(args: Sequence[Any]) -> list[Any]:
    """The same shapes with values in another order: shows whether the graph holds the example's."""
    return [
        value.flip(tuple(range(value.dim()))).contiguous() if isinstance(value, torch.Tensor) and value.dim() else value
        for value in args
    ]


def _resized(case: Case, size: int) -> list[Any]:
    """Every dynamic axis at another size, different axes at different sizes, with the example's values repeated."""
    labels = sorted({label for named in case.dynamic.values() for label in named.values()})
    wanted = {label: size + offset for offset, label in enumerate(labels)}
    result = list(case.args)
    for index, named in case.dynamic.items():
        tensor = result[index]
        for axis, label in named.items():
            repeats = max(1, -(-wanted[label] // tensor.size(axis)))
            tensor = torch.cat([tensor] * repeats, dim=axis).narrow(axis, 0, wanted[label])
        result[index] = tensor.contiguous()
    return result


def f32(*size: int, seed: int = 0) -> torch.Tensor:
    return floats(*size, dtype=torch.float32, seed=seed)


def floats(*size: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Normally distributed values, the same in every dtype up to rounding."""
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def ints(*size: int, low: int = -9, high: int = 10, dtype: torch.dtype = torch.int64, seed: int = 0) -> torch.Tensor:
    return torch.randint(low, high, size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def bools(*size: int, seed: int = 0) -> torch.Tensor:
    return ints(*size, low=0, high=2, seed=seed).bool()
