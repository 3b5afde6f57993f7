"""Verification is independent of the tracer: the reference is the model called by plain PyTorch."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import onward
from onward.capture.call.resizing import resized
from onward.errors import CaptureError, VerifyError
from onward.hunt import judge_of
from onward.verify import fresh

X = torch.tensor([[0.5, -1.5, 2.5, 3.0], [1.0, 0.25, -0.75, 4.0], [-2.0, 1.25, 0.5, -0.5]])


@pytest.fixture(autouse=True)
def _no_routing() -> None:
    onward.restore()  # another test may have left one, which changes defaults


kind = type  # calls of `type` itself are followed


def looks_at_the_type(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if kind(x) is torch.Tensor else x * 3


def branches_on_data(x: torch.Tensor) -> torch.Tensor:
    if x[0, 0] > x[1, 0]:
        return x * 2
    return x - 1


def reads_data(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.detach().numpy()[0, 0] > x.detach().numpy()[1, 0] else x - 1


class Steps(torch.nn.Module):
    """Computes something else from the second call on."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting():
            return x * 3
        return x * 2


@pytest.mark.parametrize("model", [looks_at_the_type, Steps()], ids=["type", "is_exporting"])
def test_the_reference_is_outside_of_the_tracer(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(VerifyError, match="called outside of the export") as caught:
        onward.export(model, (X,), verify=True)
    assert "example: output 'output' differs" in str(caught.value)


def test_fresh_values_are_tried_with_fixed_axes() -> None:
    example = X.clone()
    example[0, 0] = 9.0  # fresh values are drawn from the others too, and the largest moves
    with pytest.warns(onward.CaptureWarning, match="was read out of PyTorch"):
        program = onward.export(reads_data, (example,))
    other = torch.zeros(3, 4)
    assert not torch.equal(program(other), reads_data(other))
    with pytest.raises(VerifyError, match="fresh values: output") as caught:
        program.verify()
    assert "the export has warned" in str(caught.value)


def test_fresh_values_that_take_the_other_side_of_a_branch_agree() -> None:
    example = X.clone()
    example[0, 0] = 9.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(branches_on_data, (example,), verify=True)
    for other in (torch.zeros(3, 4), -example, X):
        assert torch.equal(program(other), branches_on_data(other))


def test_the_state_of_the_model_stays_as_it_is() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4))
            self.register_buffer("calls", torch.zeros(()))
            self.seen = torch.zeros(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.seen.add_(1)
            self.weight.data.mul_(2)
            return x * self.weight + self.calls + self.seen

    model = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert onward.export(model, (X,), verify=True).verification is not None
    assert torch.equal(model.weight.detach(), torch.ones(4))
    assert model.calls.item() == 0 and torch.equal(model.seen, torch.zeros(4))


def test_a_flag_goes_with_what_it_says_is_there() -> None:
    class Builds(torch.nn.Module):
        built = False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not self.built:
                self.table, self.built, self.width = x.new_ones(4), True, 4
            return x * self.table * self.width

    model = Builds()
    assert onward.export(model, (X,), verify=True).verification is not None
    assert not {"built", "width"} & {*vars(model)}
    assert torch.equal(model(X), X * 4)


def test_the_table_says_where_the_model_refuses_fresh_values() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        if type(x) is torch.Tensor and not torch.equal(x, X):
            raise ValueError("these values are not mine")
        return x + 1

    verification = onward.export(model, (X,), verify=True).verification
    assert verification is not None and verification.ok
    assert "fresh values" in str(verification)
    assert "skipped: the model refuses it: these values are not mine" in str(verification)


def test_ids_and_masks_are_permuted() -> None:
    seen: list[tuple[torch.Tensor, ...]] = []

    def model(ids: torch.Tensor, mask: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        if type(ids) is torch.Tensor:
            seen.append((ids, mask))
        return torch.where(mask, table[ids], 0.0)

    ids = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
    mask = torch.tensor([[True, True, True, False, False], [True, False, False, False, True]])
    program = onward.export(model, (ids, mask, torch.randn(10)))
    seen.clear()
    assert program.verify().ok
    (first, _), (other, marked) = seen
    assert torch.equal(first, ids) and not torch.equal(other, ids)
    assert torch.equal(other.sort(-1).values, ids.sort(-1).values)
    assert torch.equal(marked.sum(-1), mask.sum(-1)) and marked.dtype is torch.bool


@pytest.mark.parametrize("example", [torch.ones(2, 3), torch.zeros(2, 3), torch.full((4,), 2.0, dtype=torch.float16)])
def test_fresh_values_of_an_example_that_is_all_one_number(example: torch.Tensor) -> None:
    drawn = fresh(example, 1)
    assert drawn.shape == example.shape and drawn.dtype == example.dtype
    assert drawn.unique().numel() > 1 and bool(drawn.isfinite().all())


_FEW_OPERATORS = [
    torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu,
    torch.complex32,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:ComplexHalf support:UserWarning")
@pytest.mark.parametrize("dtype", _FEW_OPERATORS, ids=str)
def test_inputs_are_drawn_in_types_that_pytorch_has_few_operators_for(dtype: torch.dtype) -> None:
    example = torch.tensor([[3.0, 1.0, 2.0], [1.0, 5.0, 4.0]]).to(dtype)
    numbers = example.to(torch.complex64 if dtype is torch.complex32 else torch.float32)
    drawn = fresh(example, 1)
    assert (drawn.dtype, drawn.shape) == (dtype, example.shape)
    assert not torch.equal(drawn.to(numbers.dtype), numbers)
    for size in (0, 1, 5):
        assert resized(example, {0: size}).shape == (size, 3)
    in_order = torch.tensor([1.0, 2.0, 4.0]).to(dtype)
    assert resized(in_order, {0: 5}).dtype is dtype


@pytest.mark.filterwarnings("ignore:ComplexHalf support:UserWarning")
@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint64, torch.float8_e5m2, torch.complex32], ids=str)
def test_a_model_of_such_inputs_is_verified(dtype: torch.dtype) -> None:
    example = torch.tensor([[3.0, 1.0, 2.0], [1.0, 5.0, 4.0]]).to(dtype)
    wide = torch.complex64 if dtype is torch.complex32 else torch.float32
    program = onward.export(
        lambda x: x.to(wide) + 1, (example,), input_names=["x"], dynamic_axes={"x": {0: "n"}}, verify=True
    )
    assert program.verification is not None and program.verification.ok


def test_an_example_without_data_cannot_be_verified() -> None:
    example = torch.ones(3, device="meta")
    with pytest.raises(VerifyError, match="the example has no data, so nothing can be verified"):
        onward.export(lambda x: x * 2, (example,), verify=True)


def test_fresh_values_of_a_sorted_list_are_sorted() -> None:
    boundaries = torch.tensor([-1.5, 0.25, 0.5, 3.0])
    drawn = fresh(boundaries, 1)
    assert torch.equal(drawn, drawn.sort().values) and not torch.equal(drawn, boundaries)
    assert torch.equal(fresh(torch.tensor([0, 3, 5]), 1), torch.tensor([0, 3, 5]))


def sizes_tried(verification: Any, axis: str) -> list[int]:
    labels = [check.label for check in verification.checks if check.skipped is None]
    return [int(label.split("=")[1]) for label in labels if label.startswith(f"{axis}=")]


def test_sizes_one_two_odd_even_and_four_times_the_example() -> None:
    program = onward.export(lambda x: x.cumsum(0), (torch.randn(6, 2),), dynamic_axes={"x": {0: "n"}}, verify=True)
    assert sizes_tried(program.verification, "n") == [1, 2, 7, 24]


def test_sizes_where_a_decision_changes_are_tried() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + 0 if x.shape[0] % 9 == 0 else x  # both sides compute the same

    program = onward.export(model, (torch.randn(4, 2),), dynamic_axes={"x": {0: "n"}}, verify=True)
    assert {9} <= set(sizes_tried(program.verification, "n"))


class Found(torch.nn.Module):
    """Keeps what scores high, as RetinaNet and FCOS do."""

    def __init__(self) -> None:
        super().__init__()
        self.score = torch.nn.Linear(4, 1)
        torch.nn.init.constant_(self.score.weight, 1.0)
        torch.nn.init.constant_(self.score.bias, -2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x[torch.where(self.score(x).squeeze(1) > 0)[0]]
        if kept.numel() == 0:
            return torch.empty((0, 4))
        return kept * 2


class FoundByNumpy(Found):
    """As Found, with a branch that no exporter can see the other side of."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x[torch.where(self.score(x).squeeze(1) > 0)[0]]
        if kept.detach().numpy().size == 0:
            return torch.empty((0, 4))
        return kept * 2


@pytest.mark.parametrize("example", [X, -X.abs()], ids=["some", "none"])
def test_an_example_that_finds_nothing_is_as_good_as_another(example: torch.Tensor) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = onward.export(Found(), (example,), verify=True)
    for other in (X, -X.abs(), X.abs()):
        torch.testing.assert_close(program(other), Found()(other))


def test_an_example_that_finds_nothing_is_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CaptureError, match="the output 'output' depends on no input") as caught:
            onward.export(FoundByNumpy(), (-X.abs(),))
    assert caught.value.source is not None and "test_independent.py" in caught.value.source
    assert "allow_constant_outputs=True" in str(caught.value)


def test_counts_from_data_are_varied_down_to_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verification = onward.export(Found(), (X,), verify=True).verification
    assert verification is not None
    counts = {check.comparisons[0].shape[0] for check in verification.checks if check.skipped is None}
    assert {0, 3} <= counts


def test_a_file_that_fails_at_no_finds_does_not_verify() -> None:
    class Wrong(Found):
        def __init__(self, is_read: bool) -> None:
            super().__init__()
            self.is_read = is_read

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kept = x[torch.where(self.score(x).squeeze(1) > 0)[0]]
            if (kept.detach().numpy() if self.is_read else kept).shape[0] == 0:
                return torch.ones(1, 4)
            return kept * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(VerifyError, match=r"data: .* the shape is \[0, 4\], expected \[1, 4\]"):
            onward.export(Wrong(is_read=True), (X,), verify=True)
    model = Wrong(is_read=False)  # both sides of the branch are in the file
    program = onward.export(model, (X,), verify=True)
    assert torch.equal(program(-X.abs()), torch.ones(1, 4)) and torch.equal(program(X), model(X))


# --- outputs that no input reaches -----------------------------------------------------------------------------------
def baked(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x, torch.tensor(x.detach().numpy().clip(0, 1))


def test_an_output_that_depends_on_no_input_is_an_error_by_line() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CaptureError, match="the output 'output_1' depends on no input") as caught:
            onward.export(baked, (X,))
    assert caught.value.source == f"{__file__}:{baked.__code__.co_firstlineno + 1}"


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}])
def test_a_constant_output_can_be_asked_for(axes: Any) -> None:
    def model(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + 1, "anchors": torch.arange(5)}

    with pytest.raises(CaptureError, match="'anchors' depends on no input"):
        onward.export(model, (X,), dynamic_axes=axes)
    program = onward.export(model, (X,), dynamic_axes=axes, allow_constant_outputs=True, verify=True)
    assert torch.equal(program(X)["anchors"], torch.arange(5))


def test_sizes_states_and_random_numbers_are_no_constants() -> None:
    onward.export(lambda x: torch.zeros(x.shape[0], 3), (X,), dynamic_axes={"x": {0: "n"}})
    onward.export(lambda x: torch.rand(3) + 1, (X,))
    onward.export(lambda: torch.ones(3), ())


def test_scripts_for_torch_onnx_get_a_warning_instead() -> None:
    with onward.init(), pytest.warns(onward.CaptureWarning, match="'output' depends on no input"):
        torch.onnx.export(lambda x: torch.ones(3), (X,))
    with onward.init(allow_constant_outputs=False), pytest.raises(CaptureError, match="depends on no input"):
        torch.onnx.export(lambda x: torch.ones(3), (X,))


# --- ties ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "model",
    [
        lambda x: x.round().topk(3).indices,
        lambda x: x.round().sort(descending=True).indices,
        lambda x: x.round().argsort(0).unsqueeze(0),
        lambda x: x.round().argmax(1),
        lambda x: x.round().argmin().to(torch.int32),
        lambda x: x.round().max(1, keepdim=True)[1],
        lambda x: x.round().topk(5).indices.t(),
        lambda x: x.round().topk(5).indices[1:, :3],
        lambda x: x.round().view(2, 3, 40).argsort(-1).permute(2, 0, 1).flatten(1),
        lambda x: x.round().argsort(-1)[..., 0].unsqueeze(-1).expand(-1, 2),
        lambda x: x.round().sort(1, descending=True).indices.flip(1).chunk(2, 1)[1],
        lambda x: torch.cat([x.round().topk(5).indices.t(), x.round().argmax(1)[None], x[:1, :6].long()]),
        lambda x: torch.stack(x.round().argsort(1).unbind(1)[:4], 1).to(torch.int32),
        lambda x: x.round().argsort(1)[:, [3, 0, 7]].reshape(-1),
        lambda x: torch.where(x[:, :3] > 0, x.round().topk(3).indices, 0),
        lambda x: x.round().topk(3).indices.masked_fill(x[:, :3] > 0, -1),
    ],
    ids=[
        "topk", "sort", "argsort", "argmax", "argmin", "max", "transposed", "sliced", "permuted", "expanded", "split",
        "joined", "stacked", "indexed", "where", "filled",
    ],
)  # fmt: skip
def test_indices_are_judged_by_the_values_that_they_name(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    torch.manual_seed(0)
    assert onward.export(model, (torch.randn(6, 40),), verify=True).verification is not None


def test_an_index_of_another_value_is_no_tie() -> None:
    program = onward.export(lambda x: x.argmax(1), (X,))
    node = next(node for node in program.model.graph if node.op_type == "ArgMax")
    node.op_type = "ArgMin"
    with pytest.raises(VerifyError, match="differs in 3 of 3 elements"):
        program.verify(explain=False)


@pytest.mark.parametrize("place", ["row", "twice"])
def test_moved_indices_that_name_something_else_are_no_ties(place: str) -> None:
    x = torch.tensor([[1.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]])
    program = onward.export(lambda x: x.topk(2).indices.t(), (x,))
    judge = judge_of(program.captured)
    assert judge is not None
    wanted = x.topk(2).indices.t()
    tied = torch.tensor([[3, 2], [0, 1]])
    wrong = tied.t() if place == "row" else torch.tensor([[3, 2], [3, 1]])
    assert judge([x])(program.outputs[0].name, wanted, tied)
    assert not judge([x])(program.outputs[0].name, wanted, wrong)


def test_a_choice_among_equal_values_is_no_defect_of_the_export() -> None:
    scores, values = torch.ones(4, 40), torch.arange(160.0).view(4, 40)
    with pytest.raises(VerifyError, match="not the only right one") as caught:
        onward.export(lambda s, x: x.gather(1, s.topk(3).indices), (scores, values), verify=True)
    assert "defect" not in str(caught.value) and "no two values" in str(caught.value)


def test_a_model_that_changes_from_call_to_call_is_not_excused() -> None:
    calls: list[int] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x * len(calls)

    with pytest.raises(VerifyError, match="fresh values: output 'output' differs"):
        onward.export(model, (X,), verify=True)


def test_answers_that_move_a_little_excuse_no_file_that_is_far_off() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        kept = torch.tensor(x.detach().numpy())
        return (1000 * (x + kept)).sin()  # rounding errors of the inputs grow a thousandfold

    with pytest.warns(onward.CaptureWarning, match="read out of PyTorch"):
        program = onward.export(model, (X,))
    with pytest.raises(VerifyError, match="fresh values: output 'output' differs"):
        program.verify(explain=False)


# --- numbers beside tensors ------------------------------------------------------------------------------------------
def test_numbers_that_follow_a_size_are_outputs() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, int, int, float, bool, int]:
        rows, columns = x.shape
        return x * 2, int(rows), int(rows * 0.5), math.sqrt(columns), rows > 3, 7

    program = onward.export(model, (X,), dynamic_axes={"x": {0: "n", 1: "m"}}, verify=True)
    assert len(program.outputs) == 5  # the 7 is always 7
    answer = program(torch.ones(5, 9))
    assert answer[1:] == (5, 2, 3.0, True, 7)
    assert [type(each) for each in answer[1:]] == [int, int, float, bool, int]


def test_fixed_numbers_are_given_back_as_they_are() -> None:
    program = onward.export(lambda x: (x * 2, int(x.shape[0]), "rows"), (X,), verify=True)
    assert len(program.outputs) == 1
    assert program(X)[1:] == (3, "rows")


def test_numbers_from_data_are_outputs() -> None:
    program = onward.export(lambda x: (x, int((x > 0).sum())), (X,), verify=True)
    assert program(torch.ones(3, 4))[1] == 12


def test_a_text_that_follows_a_size_is_an_error() -> None:
    with pytest.raises(onward.errors.FrozenAxisError, match="returns a plain value that depends on sizes"):
        onward.export(lambda x: (x, f"{int(x.shape[0])} rows"), (X,), dynamic_axes={"x": {0: "n"}})


def test_a_text_from_data_is_an_error_that_blames_no_operator() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onward.CaptureWarning)
        program = onward.export(lambda x: (x * 2, f"{x.mean():.3f}"), (X,))
    with pytest.raises(VerifyError, match="PyTorch returns '.*' at '1', and the file keeps") as caught:
        program.verify()
    assert caught.value.explanation is None and "no reason was found" not in str(caught.value)


# --- the verdict -----------------------------------------------------------------------------------------------------
def test_the_program_keeps_the_verdict() -> None:
    program = onward.export(lambda x: x + 1, (X,))
    assert program.verification is None and repr(program).endswith("not verified")
    verification = program.verify()
    assert program.verification is verification
    assert repr(program).splitlines()[-1].startswith("  verified: 2 runs agree")


def test_warnings_that_limit_the_file_are_part_of_the_verdict() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if bool(x.isnan().numpy().any()) else x - 1

    with pytest.warns(onward.CaptureWarning):
        program = onward.export(model, (X,), verify=True)
    assert program.verification is not None
    assert program.verification.summary().endswith("; 1 warning limits this file (see above)")
    assert "1 warning limits this file" in repr(program)


def test_a_branch_that_is_kept_limits_nothing() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if bool(x.isnan().any()) else x - 1

    program = onward.export(model, (X,), verify=True)
    assert program.verification is not None and "limits" not in program.verification.summary()
    for other in (X, X / 0 * 0, torch.full_like(X, float("nan"))):
        torch.testing.assert_close(program(other), model(other), equal_nan=True)


def test_a_failed_verification_is_kept_too() -> None:
    program = onward.export(looks_at_the_type, (X,))
    with pytest.raises(VerifyError):
        program.verify()
    assert program.verification is not None and not program.verification.ok
    assert "NOT verified: 2 of 2 runs disagree" in repr(program)


# --- a model that is trained meanwhile -------------------------------------------------------------------------------
TRAINED: list[Any] = []  # the model itself, of which verification runs a copy


class IsTrained(torch.nn.Module):
    """Another thread makes a step of training whenever PyTorch, and not the tracer, runs it."""

    def __init__(self, step: Callable[[torch.nn.Parameter], Any] | None) -> None:
        super().__init__()
        self.linear, self.step = torch.nn.Linear(4, 4), step
        TRAINED[:] = [self]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.step is not None and not onward.is_in_onnx_export():
            trainer = threading.Thread(target=torch.no_grad()(self.step), args=(TRAINED[0].linear.weight,))
            trainer.start()
            trainer.join()
        return self.linear(x)


def swap_data(weight: torch.nn.Parameter) -> None:
    weight.data = weight.data + 1


@pytest.mark.parametrize(
    "step",
    [lambda weight: weight.add_(1), lambda weight: weight.data.add_(1), swap_data],
    ids=["parameter", "data", "other memory"],
)
def test_training_during_a_verification_is_not_a_defect_of_the_export(step: Any, tmp_path: Path) -> None:
    with pytest.raises(VerifyError, match="the model got other weights after it was exported") as caught:
        onward.export(IsTrained(step), (X,), tmp_path / "model.onnx", verify=True)
    text = str(caught.value)
    assert "changed since: 'linear.weight'\n" in text and "copy.deepcopy(model)" in text
    assert "defect" not in text and caught.value.explanation is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_before_the_training_is_not_blamed(tmp_path: Path) -> None:
    model = IsTrained(None)
    program = onward.export(model, (X,), tmp_path / "model.onnx", verify=True)
    with torch.no_grad():
        model.linear.weight.mul_(2)
    assert program.verify().ok  # the program has the model's own weights until it is written
    with pytest.raises(VerifyError, match="the model got other weights"):
        program.verify(tmp_path / "model.onnx")
    assert "NOT verified" in repr(program)
