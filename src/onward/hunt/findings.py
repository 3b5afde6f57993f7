"""What a hunt found, as objects and in words."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onward.verify import Comparison

_NAMED = 3
_HINTS = {
    "wrong operator": "this is a defect of the export, worth reporting",
    "optimizer": "run it with graph_optimization_level = ORT_DISABLE_ALL, and report it to onnxruntime",
    "rounding": "give inputs as the model will see them, or export it in float64 (model.double())",
}


@dataclass(frozen=True)
class Spot:
    """A value of the file and where it comes from.

    value   its name; `node` and `op_type` are of the ONNX node that computes it
    nodes   the names of all nodes between it and the values before it that PyTorch has too
    aten    the operator of the captured program that it stands for; `module` and `source` say where that was called
    """

    value: str
    node: str
    op_type: str
    nodes: tuple[str, ...] = ()
    aten: str = ""
    module: str = ""
    source: str = ""

    def __str__(self) -> str:
        others = [name for name in self.nodes if name != self.node]
        listed = ", ".join(map(repr, others[:_NAMED])) + (f" and {len(others) - _NAMED} more" * (len(others) > _NAMED))
        beside = f" with {listed}" if others else ""
        return f"'{self.value}', which {self.op_type} node '{self.node}' computes{beside}{self.where}"

    @property
    def where(self) -> str:
        """From which operator, at which line, in which module."""
        origin = f" from {self.aten}" if self.aten else ""
        line = f" at {self.source}" if self.source else ""
        module = f" in {self.module}" if self.module else ""
        return f"{origin}{line}{module}"


@dataclass(frozen=True)
class Culprit:
    """An operator of the file that gives something else than PyTorch's for PyTorch's own inputs.

    alone         its result for PyTorch's inputs, compared with PyTorch's; None if onnxruntime refuses to compute it
    refused       why it does
    in_run        the same value in a run of the whole file; `inputs` are the values that it is computed from
    differences   what a fresh export has in its place
    """

    spot: Spot
    alone: Comparison | None = None
    refused: str | None = None
    in_run: Comparison | None = None
    inputs: tuple[Comparison, ...] = ()
    differences: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        found = [f"the first value that is wrong is {self.spot}"]
        if self.refused is not None:
            found.append(f"given PyTorch's inputs alone, {self.refused}")
        if self.in_run is not None:
            found.append(f"in the whole model its {_error(self.in_run)}, and {_inputs(self.inputs)}")
        if self.alone is not None:
            found.append(f"given PyTorch's inputs alone, its {_error(self.alone)}: the operator is wrong, not rounding")
        return [*found, *(f"unlike a fresh export: {each}" for each in self.differences)]


@dataclass(frozen=True)
class Explanation:
    """Why a file and PyTorch disagree.

    verdict   "wrong operator", "capture", "optimizer", "rounding", "unexplained", or "right"
    culprits  the operators that are wrong by themselves, in the order of the graph
    compared  how many values of the file were compared with PyTorch's
    notes     the verdict in words, where no operator is to blame
    """

    verdict: str
    culprits: tuple[Culprit, ...] = ()
    compared: int = 0
    notes: tuple[str, ...] = ()
    spot: Spot | None = None  # where rounding first grows beyond the tolerance

    @property
    def culprit(self) -> Culprit | None:
        return self.culprits[0] if self.culprits else None

    @property
    def hint(self) -> str | None:
        """What to do about it; None where the error says it already."""
        if any(each.differences for each in self.culprits):
            return "the file is not what an export of the model writes: export it again"
        return _HINTS.get(self.verdict)

    def lines(self) -> list[str]:
        if not self.culprits:
            return list(self.notes)
        others = [f"'{each.spot.node}' ({each.spot.op_type})" for each in self.culprits[1:]]
        more = f" and {len(others) - _NAMED} more" * (len(others) > _NAMED)
        also = [f"wrong by themselves as well: {', '.join(others[:_NAMED])}{more}"] if others else []
        return [*self.culprits[0].lines(), *also, *self.notes]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _error(comparison: Comparison) -> str:
    if comparison.problem is not None:
        return comparison.problem.removeprefix("the ")
    return f"error is {comparison.max_abs_error:.3g} ({comparison.max_scaled_error:.2g} of its scale)"


def _inputs(inputs: tuple[Comparison, ...]) -> str:
    if not inputs:
        return "it is computed from the model's inputs and weights alone"
    worst = max(inputs, key=lambda each: (each.problem is not None, each.max_scaled_error))
    if worst.problem is not None:
        return f"that of its input '{worst.name}' is wrong too: {worst.problem}"
    return f"the largest of its inputs is {worst.max_abs_error:.3g} ({worst.max_scaled_error:.2g} of its scale)"


def node_name(node: ir.Node) -> str:
    """A node's name, or that of its first result."""
    return str(node.name or next((value.name for value in node.outputs if value.name), "?"))
