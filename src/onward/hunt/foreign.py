"""A file of another exporter: its values have other names, and are matched with PyTorch's by what they hold.

A value that is right holds the same numbers on both sides, and is found by them. What is wrong holds numbers that
PyTorch never had, and so does all that is computed from it: the fault lies where values stop being found, in the file
and in the captured program. That is as close as it gets: an operator cannot be run alone where nobody knows what it
stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import onnx_ir as ir
import torch
from torch import fx

from onward.capture.program.execute import steps
from onward.capture.program.facts import CapturedProgram, Output
from onward.errors import VerifyError
from onward.hunt.case import Case
from onward.hunt.findings import Culprit, Explanation, Spot, node_name
from onward.hunt.pieces import FileGraph
from onward.hunt.whole_file_run import values_in_run
from onward.lower.origins import Origin
from onward.lower.registry import op_name
from onward.verify import Session, compare, compare_output

_SAMPLE = 64  # elements of a value that are kept to know it by
_FEWEST = 8  # elements that say something: smaller tensors hold the same numbers by chance
_AT_ONCE = 200  # values that one run gives
_NEXT = 3  # nodes that are named with the first

Key = tuple[torch.dtype, tuple[int, ...]]
Known = dict[Key, list[tuple[fx.Node, torch.Tensor]]]
Item = TypeVar("Item")


def explain_by_value(
    captured: CapturedProgram, model: ir.Model, inputs: Sequence[torch.Tensor], expected: Sequence[Output]
) -> Explanation:
    """Where the values of a file stop being PyTorch's; the file has the program's inputs and outputs, by name."""
    case = Case(captured, FileGraph(model), {}, inputs, expected=expected)
    try:
        answers = Session(model).run(case.fed)
    except VerifyError as error:
        return Explanation("unexplained", notes=(f"the file does not run, and has no values to match: {error.what}",))
    names = [str(value.name) for value in model.graph.outputs]
    ports = [port.name for port in captured.outputs]
    wrong = [
        each.name
        for name, answer in zip(names, answers, strict=True)
        for each in compare_output(expected[ports.index(name)], answer, name)
        if not each.ok
    ]
    if not wrong:
        return Explanation("right", compared=len(names), notes=("the outputs agree",))
    found = _matches(case, _samples_of_program(case))
    origin = f"of {model.producer_name}" if model.producer_name else "of another exporter"
    note = (
        f"the file is {origin}: {len(found)} of its values were found among PyTorch's by what they hold, so the fault "
        "lies at this node or shortly after it"
        if found
        else f"the file is {origin}, and none of its values was found among PyTorch's: it has other weights, or is "
        "wrong from here on"
    )
    return Explanation("wrong operator", (Culprit(_spot(case, found, wrong)),), len(found), (note,))


def _sample(tensor: torch.Tensor) -> torch.Tensor | None:
    """Elements from everywhere in a tensor; None of one that has nothing to be known by."""
    if tensor.numel() < _FEWEST:
        return None
    flat = tensor.detach().reshape(-1)
    sample = flat[torch.linspace(0, flat.numel() - 1, min(_SAMPLE, flat.numel())).long()].clone()
    return None if bool((sample == sample[0]).all()) else sample


def _samples_of_program(case: Case) -> Known:
    known: Known = {}
    for node, value in steps(case.captured, case.inputs):
        for place, each in enumerate(value if isinstance(value, (tuple, list)) else [value]):
            path = (place,) if isinstance(value, (tuple, list)) else ()
            tensor = Origin(node.name, path).pick(value) if isinstance(each, torch.Tensor) else None
            sample = _sample(tensor) if tensor is not None and node.op == "call_function" else None
            if tensor is not None and sample is not None:
                known.setdefault((tensor.dtype, tuple(tensor.shape)), []).append((node, sample))
    return known


def _matches(case: Case, known: Known) -> dict[str, fx.Node]:
    """The values of the file that PyTorch has too. The first that fits will do: equal values are equally right."""
    found: dict[str, fx.Node] = {}
    names = [name for name, value in case.file.values.items() if isinstance(value.type, ir.TensorType | None)]
    for start in range(0, len(names), _AT_ONCE):
        for name, tensor in values_in_run(case, names[start : start + _AT_ONCE]).items():
            sample = _sample(tensor)
            for node, held in known.get((tensor.dtype, tuple(tensor.shape)), ()) if sample is not None else ():
                if sample is not None and compare(held, sample, name).ok:
                    found[name] = node
                    break
    return found


def _never_found(
    items: Sequence[Item], is_found: Callable[[Item], bool], readers: Callable[[Item], Iterable[Item]]
) -> list[Item]:
    """The items, in order, that are not found themselves and lead to nothing that is."""
    leads: dict[Item, bool] = {}
    for item in reversed(items):
        leads[item] = is_found(item) or any(leads.get(reader, False) for reader in readers(item))
    return [item for item in items if not leads[item]]


def _spot(case: Case, found: dict[str, fx.Node], wrong: Sequence[str]) -> Spot:
    file = case.file
    needed = file.needed(wrong)
    nodes = [node for node in file.nodes if any(value.name in needed for value in node.outputs)]
    readers: dict[str, list[ir.Node]] = {}
    for node in nodes:
        for name in file.reads(node):
            readers.setdefault(name, []).append(node)
    lost = _never_found(
        nodes,
        lambda node: any(value.name in found for value in node.outputs),
        lambda node: [reader for value in node.outputs for reader in readers.get(str(value.name), ())],
    )
    # Sizes on their way to a Reshape are in no table of PyTorch's, right or wrong, and an Identity cannot be wrong.
    lost = [node for node in lost if node.inputs and not _is_small(node) and node.op_type != "Identity"] or lost
    matched = set(found.values())
    calls = [node for node in case.captured.graph.nodes if node.op == "call_function" and _is_tensor(node)]
    missing = _never_found(calls, matched.__contains__, lambda node: node.users)
    first, meta = lost[0], missing[0].meta if missing else {}
    scope, source = meta.get("scope"), meta.get("source")
    return Spot(
        str(first.outputs[0].name),
        node_name(first),
        first.op_type,
        tuple(map(node_name, lost[: 1 + _NEXT])),
        op_name(missing[0].target) if missing else "",
        scope.path if scope is not None else "",
        str(source) if source is not None else "",
    )


def _is_small(node: ir.Node) -> bool:
    dtype = node.outputs[0].dtype
    return dtype is not None and dtype.is_integer()


def _is_tensor(node: fx.Node) -> Any:
    fact = node.meta.get("val")
    return getattr(fact, "shape", ()) != () or isinstance(fact, (tuple, list))
