"""Claims held against the truth: models of one node, onnxruntime itself, and ONNX's own checker.

Each test walks a part of the models; `python -m tests.files.test_compat_truth` walks all of them, in minutes.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter

import onnx
import onnxruntime
import pytest

from onward.files.compat import kernels, opsets
from onward.files.compat.answer import _typed
from onward.files.compat.facts import steps
from onward.files.compat.tables import table_of
from tests.files.single_nodes import single_nodes
from tests.opsets import NEWEST

SEMANTIC = ("without '", "before opset", "'axis' is negative", "'axes' is negative")
"""What the checker does not know: other defaults, other meanings, axes that are counted from the end."""


def kernel_verdict(model: onnx.ModelProto) -> str:
    table = table_of("onnxruntime")
    said = [verdict for step in steps(_typed(model)) for verdict, _, _ in kernels.judge(table, step)]
    return said[0] if said else "fine"


def loads(model: onnx.ModelProto) -> bool | None:
    """None: something else than a kernel is missing, since attributes and shapes here are made up."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return False if "NOT_IMPLEMENTED" in str(error) else None
    return True


def compare_kernels(opset: int, every: int = 1) -> tuple[Counter[tuple[str, bool | None]], list[str]]:
    counts: Counter[tuple[str, bool | None]] = Counter()
    wrong = []
    for label, model in itertools.islice(single_nodes(opset), 0, None, every):
        said, true = kernel_verdict(model), loads(model)
        counts[said, true] += 1
        if (said, true) in (("fine", False), ("problem", True)):
            wrong.append(f"{label}: {said}, and it {'loads' if true else 'does not load'}")
    return counts, wrong


@pytest.mark.parametrize(("opset", "every"), [(9, 7), (13, 11), (20, 10), (NEWEST, 13)])
def test_kernels_are_missing_where_onnxruntime_says_so(opset: int, every: int) -> None:
    counts, wrong = compare_kernels(opset, every)
    assert not wrong
    assert counts["fine", True] > 60 and counts["problem", False] > 10


def checker_says(model: onnx.ModelProto) -> str | None:
    """The checker's word on the node, and that of type inference; a whole model would need ranks that nobody knows."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = model.ir_version, {"": model.opset_import[0].version}
    try:
        onnx.checker.check_node(model.graph.node[0], context)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error)
    return None


def _refused_anyway(label: str, opset: int) -> bool:
    """Whether the same node written for that opset is refused too (onnx 1.23 cannot infer a MeanVarianceNormalization
    without axes from opset 13 on): then the opset is not the reason."""
    written = dict(single_nodes(opset))
    return label in written and checker_says(written[label]) is not None


def compare_opsets(here: int, there: int, every: int = 1) -> tuple[Counter[tuple[bool, bool]], list[str]]:
    """Each model that is right in its own opset, with the other opset written over it."""
    counts: Counter[tuple[bool, bool]] = Counter()
    wrong = []
    for more in ("", "attributes", "inputs"):
        for label, model in itertools.islice(single_nodes(here, more), 0, None, every):
            if checker_says(model) is not None:
                continue  # made up badly
            said = [text for step in steps(_typed(model)) for _, text, _ in opsets.judge(step, there)]
            said = [text for text in said if not text.startswith(SEMANTIC)]
            model.opset_import[0].version = there
            model.ir_version = onnx.helper.find_min_ir_version_for(model.opset_import)
            true = checker_says(model)
            if true is not None and not said and _refused_anyway(label, there):
                continue
            counts[bool(said), true is not None] += 1
            if bool(said) != (true is not None):
                wrong.append(f"{label} {more}: {said}, and the checker: {true}")
    return counts, wrong


@pytest.mark.parametrize(("here", "there", "every"), [(20, 13, 41), (NEWEST, 9, 43), (13, 7, 29), (11, 23, 23)])
def test_another_opset_is_a_problem_where_the_checker_says_so(here: int, there: int, every: int) -> None:
    counts, wrong = compare_opsets(here, there, every)
    assert not wrong
    assert counts[False, False] > 25 and (counts[True, True] > 25 or here < there)


def main() -> int:
    failures = 0
    for opset in (7, 9, 11, 13, 15, 17, 18, *range(20, NEWEST + 1)):
        counts, wrong = compare_kernels(opset)
        failures += len(wrong)
        print(f"kernels of opset {opset}: {dict(counts)}", *wrong, sep="\n  ", flush=True)
    for here, there in ((20, 13), (NEWEST, 9), (13, 7), (11, 23), (22, 17), (17, 22)):
        checked, wrong = compare_opsets(here, there)
        failures += len(wrong)
        print(f"opset {here} as {there}: {dict(checked)}", *wrong, sep="\n  ", flush=True)
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
