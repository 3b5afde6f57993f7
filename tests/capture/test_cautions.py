"""Every warning of capture, provoked through `onward.export` and compared word for word.

All have one form: the line (where there is one), what happened, what it means for the file, what to do instead.
"""

from __future__ import annotations

import operator
import random
import statistics
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onward

SCRIPT = (
    "use torch.where or torch.cond for a choice, or torch.jit.script on the function, which keeps loops and branches"
)


class Count(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.total += 1
        return x + self.total


class Loose(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(3)

    def forward(self, x: Tensor) -> Tensor:
        self.total += 1
        return x + self.total


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale if self.scale > 1 else x


class CountInPython(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


class WriteToParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        self.scale.data.add_(1)
        return x * self.scale


def draw_in_python(x: Tensor) -> Tensor:
    return x * random.random()


def branch_on_data(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x


def branch_on_one_line(x: Tensor) -> Tensor:
    if x.sum() > 0: return x * 2  # fmt: skip # noqa: E701
    return x - 1


def loop_over_data(x: Tensor) -> Tensor:
    for _ in range(int(x.abs().sum())):
        x = x + 1
    return x


def loop_over_found(x: Tensor) -> Tensor:
    found = x.flatten().nonzero()
    for _ in range(found.shape[0]):
        x = x + 1
    return x


def branch_with_two_ranks(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x.sum()


def deeper_with_data(x: Tensor) -> Tensor:
    for _ in range(int(x.abs().sum())):
        x = x.unsqueeze(0)
    return x


def deeper_with_found(x: Tensor) -> Tensor:
    found = x.flatten().nonzero()
    for _ in range(found.shape[0]):
        x = x.unsqueeze(0)
    return x


def deeper_with_rows(x: Tensor) -> Tensor:
    for _ in range(x.shape[0]):
        x = x.unsqueeze(0)
    return x


def fitting_mask(x: Tensor) -> Tensor:
    return x[x > 0].reshape(2, 3)


def through_numpy(x: Tensor) -> Tensor:
    return x + torch.from_numpy(x.numpy().cumsum(0))


def branch_on_size(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] > 1 else x[0]  # an If has results of one rank


def number_of_size(x: Tensor) -> Tensor:
    return x + operator.index(6 // x.shape[0])


def rows(x: Tensor) -> Tensor:
    return torch.stack([x[i] * 2 for i in range(x.shape[0])])


def together(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def appended(old: Tensor, new: Tensor, mask: Tensor) -> Tensor:
    return torch.cat([old, new]) * mask


def asserted(x: Tensor) -> Tensor:
    assert (x > 0).all(), "must be positive"
    return x * 2


def asserted_number(x: Tensor) -> Tensor:
    assert x.sum().item() > 0
    return x * 2


def asserted_count(x: Tensor) -> Tensor:
    assert x[x > 0].shape[0] == 6
    return x * 2


def asserted_by_torch(x: Tensor) -> Tensor:
    torch._assert((x > 0).all(), "must be positive")
    return x * 2


def refused(x: Tensor) -> Tensor:
    if (x < 0).any() or (x > 9).any():
        raise ValueError("must be between 0 and 9")
    return x * 2


def median_of_data(x: Tensor) -> Tensor:
    return x * statistics.median([1, 2, x.sum().item()])


def mode_of_data(x: Tensor) -> Tensor:
    return x * statistics.mode([1, x.sum().item()])


ONES = torch.ones(2, 3)
BATCH = {"dynamic_axes": {"x": {0: "batch"}}}

# model, inputs, what else export is given, the line of the function, the text
ROWS: list[tuple[Any, tuple[Tensor, ...], dict[str, Any], int, str]] = [
    (
        CountInPython(),
        (ONES,),
        {},
        1,
        "the model changes its attribute 'calls' from run to run, and the file keeps what the first run computes with "
        "it. Later runs of the model give something else than the file. To avoid this, keep it as a tensor in a buffer "
        "(self.register_buffer) and export with mutable_buffers=True, or pass it as an input.",
    ),
    (
        WriteToParameter(),
        (ONES,),
        {},
        1,
        "the model writes to its parameter 'scale', and the file does not keep the change. Every run starts from what "
        "the parameter holds now. To avoid this, make it a buffer (self.register_buffer) and export with "
        "mutable_buffers=True, or compute a new tensor in place of the write.",
    ),
    (
        draw_in_python,
        (ONES,),
        {},
        1,
        "a random number was drawn in Python (random), and the file keeps it. Every run of the file computes with the "
        "same number. To avoid this, draw it with PyTorch (torch.rand), which the file does too, or pass it as an "
        "input.",
    ),
    (
        branch_with_two_ranks,
        (ONES,),
        {},
        1,
        "a value was read out of a tensor (if, while, or bool()), and the file keeps the example's answer (True). "
        f"Inputs that would give another answer are computed wrongly. To avoid this, {SCRIPT}. It cannot be kept as an "
        "If or a Loop: its branches and loops have no form in the file: the two branches return tensors of different "
        "kinds, float32[2, 3] and float32[].",
    ),
    (
        deeper_with_data,
        (ONES,),
        {},
        1,
        "a value was read out of a tensor (.item(), int() or float()), and the file keeps the example's answer (6). "
        f"Inputs that would give another answer are computed wrongly. To avoid this, {SCRIPT}. It cannot be kept as an "
        "If or a Loop: its branches and loops have no form in the file: the loop turns a carried tensor float32[2, 3] "
        "into float32[1, 2, 3].",
    ),
    *(
        (
            function,
            (ONES,),
            {},
            1,
            f"what a tensor holds is checked here ({kind}), and the file does not check it. Inputs that fail the check "
            "are computed like all others. To avoid this, check them before the file is run, or return the condition "
            "as one more output.",
        )
        for function, kind in (
            (asserted, "assert"),
            (asserted_number, "assert"),
            (asserted_count, "assert"),
            (asserted_by_torch, "torch._assert"),
            (refused, "an if that raises an error"),
        )
    ),
    (  # the line is the model's, not that of the standard library
        mode_of_data,
        (ONES,),
        {},
        1,
        "a value was read out of a tensor (.item(), int() or float()), and the file keeps the example's answer (6.0)"
        f". Inputs that would give another answer are computed wrongly. To avoid this, {SCRIPT}.",
    ),
    (
        deeper_with_found,
        (ONES,),
        {},
        2,
        "how large a tensor is depends on data here, and the file keeps its size in the example (`nonzero_1` is 6). "
        "Inputs that would give another size are computed wrongly. To avoid this, compute with the size itself (no "
        "int(), range() or if on it), or use torch.jit.script on the function, which keeps loops and branches. It "
        "cannot be kept as an If or a Loop: its branches and loops have no form in the file: the loop turns a carried "
        "tensor float32[2, 3] into float32[1, 2, 3].",
    ),
    (
        fitting_mask,
        (ONES,),
        {},
        1,
        "how large the result of nonzero is depends on data, and the model works only where it is as large as in the "
        "example (6), so the file is made for that size. Inputs that would give another size are computed wrongly. To "
        "avoid this, use no fixed number where the size is meant, for example x.shape[0] or -1 in a reshape.",
    ),
    (
        through_numpy,
        (ONES,),
        {},
        1,
        "a tensor was read out of PyTorch (numpy), and the file keeps the example's values. Inputs that would give "
        "other values are computed wrongly. To avoid this, stay with torch operations on tensors that depend on the "
        "inputs.",
    ),
    (
        branch_on_size,
        (torch.ones(8, 3),),
        BATCH,
        1,
        "a branch depends on the size of axis 'batch': the file holds where `batch > 1` is True, and batch = 1 would "
        "take the other branch. The file refuses such inputs. To avoid this, use torch.cond, or keep to sizes on "
        "this side of the branch.",
    ),
    (
        number_of_size,
        (torch.ones(8, 3),),
        BATCH,
        1,
        "a number depends on the size of axis 'batch': the file holds where `6 // batch` is 0, and batch = 6 gives "
        "another. The file refuses such inputs. To avoid this, use an example of another size, or keep to sizes "
        "where it holds.",
    ),
    (
        Scaled(),
        (ONES,),
        {"export_params": False},
        1,
        "a value was read out of a weight (if, while, or bool()), and the file keeps the answer (True). When other "
        "weights are fed, those that would give another answer are computed with wrongly. To avoid this, compute with "
        "the tensor itself, or leave the weights in the file.",
    ),
    (
        Count(),
        (ONES,),
        {},
        0,
        "the model changes its buffer 'total', and the file does not keep the change. Every run starts from what the "
        "buffer holds now. To avoid this, export with mutable_buffers=True, which makes an input and an output of it.",
    ),
    (
        Loose(),
        (ONES,),
        {},
        0,
        "the model changes a tensor that is no buffer (total), and the file does not keep the change. Every run starts "
        "from what the tensor holds now. To avoid this, make it a buffer (self.register_buffer) and export with "
        "mutable_buffers=True.",
    ),
    (
        nn.BatchNorm1d(3),
        (ONES,),
        {"training": True},
        0,
        "the running statistics of the model are updated by the model in training, and not by the file. It normalises "
        "by the statistics of each batch. To avoid this, put these modules in eval mode and export with "
        "training=onward.TrainingMode.PRESERVE.",
    ),
    (
        together,
        (ONES, ONES),
        {"dynamic_axes": {"x": {0: "m"}, "y": {0: "n"}}},
        0,
        "axis 0 of 'y' is written as 'm' (axis 0 of 'x'): the model refuses different sizes or goes "
        "another way there, and both are 2 in the "
        "example. The file takes inputs in which they are equal. To avoid this, give them one name if they are the "
        "same, or use an example in which they differ.",
    ),
    (
        appended,
        (torch.ones(4), torch.ones(3), torch.ones(7)),
        {"dynamic_axes": {"old": {0: "past"}, "new": {0: "new"}, "mask": {0: "total"}}},
        0,
        "axis 0 of 'mask', 'total', is taken for past + new, which it is in the example: the model refuses other "
        "sizes. The file takes inputs for which that holds. To avoid this, name the axis 'past + new', which says the "
        "same.",
    ),
    (
        deeper_with_rows,
        (ONES,),
        {**BATCH, "allow_static_axes": True},
        0,
        "written as fixed: dynamic axis 'batch' (= 2) is frozen by the model: a plain Python number is made from the "
        "size of axis 0 of 'x'\n  ROWS: `batch` became 2\n  it could not be thawed: the model runs other operations at "
        "other sizes. They part after aten.unsqueeze.default (BODY):\n    at batch = 2 the model is done\n"
        "    at batch = 4 comes aten.unsqueeze.default (BODY)\n  The file takes only the example's size there. To "
        "avoid this, compute with the size itself.",
    ),
    (
        together,
        (ONES, ONES),
        {"output_names": ["z"], "dynamic_axes": {"z": {1: "n"}}},
        0,
        "dynamic_axes['z'][1] is 'n', but the model always gives 3 there. The file says 3. To avoid this, leave that "
        "axis out of dynamic_axes.",
    ),
]


@pytest.mark.parametrize(("model", "inputs", "options", "line", "text"), ROWS)
def test_warning(model: Any, inputs: tuple[Tensor, ...], options: dict[str, Any], line: int, text: str) -> None:
    names = ["old", "new", "mask"] if len(inputs) == 3 else ["x", "y"][: len(inputs)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onward.export(model, inputs, input_names=names, **options)
    function = type(model).forward if isinstance(model, nn.Module) else model
    place = f"{__file__}:{function.__code__.co_firstlineno + line}: " if line else ""
    first = deeper_with_rows.__code__.co_firstlineno
    text = place + text.replace("ROWS", f"{__file__}:{first + 1}").replace("BODY", f"{__file__}:{first + 2}")
    assert program.warnings == (text,)
    assert [str(each.message) for each in caught if each.category is onward.CaptureWarning] == [text]


KEPT: list[tuple[Any, dict[str, Any], int, tuple[str, ...], list[Tensor]]] = [
    (branch_on_data, {}, 1, ("`if x.sum() > 0` kept as If",), [ONES * each for each in (-2, 0, 1, 3)]),
    (branch_on_one_line, {}, 1, ("`if x.sum() > 0` kept as If",), [ONES * each for each in (-2, 0, 1, 3)]),
    (loop_over_data, {}, 1, ("loop kept as Loop",), [ONES * each for each in (-2, 0, 0.5, 1, 3)]),
    (loop_over_found, {}, 2, ("loop kept as Loop",), [ONES * 0, ONES * 3, torch.tensor([[0.0, 1.0, 0.0], [2, 0, 0]])]),
    (
        median_of_data,
        {},
        1,
        ("`if` kept as If (6.0 < 2.0)", "`if` kept as If (6.0 < 1.0)"),
        [ONES * each for each in (-2, 0, 0.2, 0.25, 0.3, 1, 3)],
    ),
    (rows, BATCH, 1, ("loop kept as Loop",), [torch.randn(each, 3) for each in (1, 2, 3, 7)]),
]


@pytest.mark.parametrize(("function", "options", "line", "texts", "others"), KEPT)
def test_what_is_kept_is_told_and_not_warned_about(
    function: Any, options: dict[str, Any], line: int, texts: tuple[str, ...], others: list[Tensor]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(function, (ONES,), input_names=["x"], **options)
    place = f"{__file__}:{function.__code__.co_firstlineno + line}: "
    assert program.warnings == tuple(place + text for text in texts)
    for x in others:
        torch.testing.assert_close(program(x), function(x))


def test_a_line_that_is_kept_is_told_once() -> None:
    def function(x: Tensor) -> Tensor:
        for i in range(3):
            x = x * 2 if x[i, 0] > 0 else x
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(function, (torch.ones(3, 3),))
    assert len(program.warnings) == 1
    for signs in ((1, 1, 1), (-1, 1, 1), (1, -1, 1), (-1, 1, -1), (-1, -1, -1)):
        x = torch.ones(3, 3) * torch.tensor(signs)[:, None]
        torch.testing.assert_close(program(x), function(x))


def test_a_line_is_warned_about_once() -> None:
    def function(x: Tensor) -> Tensor:
        for i in range(3):
            x = x * 2 if x[i, 0] > 0 else x.double()
        return x

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onward.export(function, (torch.ones(3, 3),))
    assert len(caught) == len(program.warnings) == 1


def test_a_line_that_does_more_than_check() -> None:
    """The same line decides about a result too: that is worth the stronger words."""

    def function(x: Tensor) -> Tensor:
        # fmt: off
        if x.sum() < 0: raise ValueError(2 if x[0, 0] > 1 else 3)  # noqa: E701
        assert (x if x[0, 0] > 0 else -x).sum() > 0
        # fmt: on
        return x

    with pytest.warns(onward.CaptureWarning) as caught:
        program = onward.export(function, (ONES,))
    first = function.__code__.co_firstlineno + 2
    told = [str(each.message) for each in caught]
    assert [text.split(" (")[0] for text in told] == [
        f"{__file__}:{line}: a value was read out of a tensor" for line in (first, first + 1)
    ]
    assert [text for text in program.warnings if " kept as If" not in text] == told
