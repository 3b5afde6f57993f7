"""Files are rearranged for onnxruntime's kernels, and every integer stays what it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onward.quant import QuantConfig, Weights

from .harness import Outcome, left_in_float, quantized, through_onnxruntime


def outcome(
    model: nn.Module, shape: tuple[int, ...], folder: Path, config: QuantConfig | None = None, **how: Any
) -> Outcome:
    torch.manual_seed(0)
    quantized(model, lambda: torch.randn(shape), config)
    return through_onnxruntime(model, torch.randn(shape), folder, fresh=torch.randn(shape), **how)


def convolutions(path: Path) -> list[tuple[int, ...]]:
    """Groups and the shape of the weight of every convolution in a file."""
    graph = onnx.load(path).graph
    shapes = {each.name: tuple(each.dims) for each in graph.initializer}
    made = {node.output[0]: node for node in graph.node}
    return [
        (next(each.i for each in node.attribute if each.name == "group"), *shapes[made[node.input[1]].input[0]])
        for node in graph.node
        if node.op_type == "Conv"
    ]


class Inverted(nn.Module):
    """What mobile networks are made of: expand, depthwise, a gate for every channel, project, and the way around."""

    def __init__(self, channels: int, inner: int, activation: type[nn.Module] = nn.Hardswish) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, stride=2, padding=1)
        self.expand = nn.Sequential(nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), activation())
        self.depthwise = nn.Sequential(nn.Conv2d(inner, inner, 3, padding=1, groups=inner), activation())
        self.squeeze, self.excite = nn.Conv2d(inner, 8, 1), nn.Conv2d(8, inner, 1)
        self.project = nn.Conv2d(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        y = self.depthwise(self.expand(x))
        gate = F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        return self.project(y * gate) + x


WIDE = [(1, 16, 4, 3, 3), (1, 48, 16, 1, 1), (48, 48, 1, 3, 3), (1, 16, 48, 1, 1), (1, 48, 16, 1, 1), (1, 16, 48, 1, 1)]
NARROW = [(1, 16, 3, 3, 3), (1, 40, 16, 1, 1), (40, 40, 1, 3, 3), (1, 8, 40, 1, 1), (1, 40, 8, 1, 1), (1, 16, 40, 1, 1)]


@pytest.mark.parametrize(
    ("config", "opset", "activation", "wanted"),
    [
        (None, 21, nn.Hardswish, WIDE),
        (None, 13, nn.ReLU6, WIDE),
        (QuantConfig(weights=Weights(per_channel=False)), 17, nn.SiLU, WIDE),
        (QuantConfig(widen_channels=False), 21, nn.Hardswish, NARROW),
    ],
)
def test_channels_of_depthwise_convolutions_are_made_a_multiple_of_16(
    config: QuantConfig | None, opset: int, activation: type[nn.Module], wanted: list[Any], tmp_path: Path
) -> None:
    found = outcome(Inverted(16, 40, activation), (2, 3, 12, 12), tmp_path, config, opset=opset)
    assert found.equal == 1
    assert not left_in_float(found)
    assert convolutions(found.path) == wanted


def test_the_batch_may_still_vary(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Inverted(16, 40), lambda: torch.randn(2, 3, 12, 12))
    found = through_onnxruntime(
        model, torch.randn(2, 3, 12, 12), tmp_path, fresh=torch.randn(5, 3, 12, 12), dynamic_shapes=({0: "n"},)
    )
    assert found.equal == 1
    assert convolutions(found.path) == WIDE


class Twice(nn.Module):
    """The same depthwise layer, and the same point-wise ones around it, two times."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(16, 24, 1), nn.Conv1d(24, 24, 3, groups=24), nn.Conv1d(24, 16, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(self.layers(x))


class Seen(nn.Module):
    """A depthwise convolution between two others, whose result something else looks at."""

    def __init__(self, look: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.before, self.depthwise = nn.Conv2d(16, 24, 1), nn.Conv2d(24, 24, 3, padding=1, groups=24)
        self.after = nn.Conv2d(24, 16, 1)
        self.look = look

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.depthwise(self.before(x))
        return self.after(y), self.look(y)


class Branches(nn.Module):
    """An image that several convolutions read, on one grid and on a wider one: stems of RepVGG and MobileOne do."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(3, 16, 1), nn.Conv2d(3, 16, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.relu(self.one(x) + self.two(x)), self.three(x * 2)


def test_an_image_that_several_convolutions_read_is_padded_once(tmp_path: Path) -> None:
    found = outcome(Branches(), (2, 3, 8, 8), tmp_path)
    assert found.equal == 1
    assert found.nodes["Pad"] == 1
    assert [shape[2] for shape in convolutions(found.path)] == [4, 4, 4]


def test_a_layer_that_runs_twice_is_widened_twice(tmp_path: Path) -> None:
    found = outcome(Twice(), (1, 16, 20), tmp_path)
    assert found.equal == 1
    assert convolutions(found.path) == [(1, 32, 16, 1), (32, 32, 1, 3), (1, 16, 32, 1)] * 2


@pytest.mark.parametrize(
    "look",
    [
        lambda y: y * 1,  # an output of the model
        lambda y: y.flatten(2),
        lambda y: torch.cat([y, y], 1),
        lambda y: y.mean(1),
        lambda y: y[:, 1:],
        lambda y: y * torch.arange(24.0).reshape(24, 1, 1),
        lambda y: torch.softmax(y, 1),
        lambda y: y.sum((1, 2, 3)),
    ],
)
def test_channels_that_anything_else_sees_stay(look: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    found = outcome(Seen(look), (1, 16, 6, 6), tmp_path)
    assert found.close == 1
    assert convolutions(found.path)[:3] == [(1, 24, 16, 1, 1), (24, 24, 1, 3, 3), (1, 16, 24, 1, 1)]


def test_few_channels_that_would_be_mostly_zeros_stay(tmp_path: Path) -> None:
    model = nn.Sequential(
        nn.Conv2d(16, 18, 1), nn.Conv2d(18, 18, 3, groups=18), nn.Conv2d(18, 4, 1), nn.Conv2d(4, 16, 1)
    )
    found = outcome(model, (1, 16, 6, 6), tmp_path)
    assert found.equal == 1
    assert [shape[:2] for shape in convolutions(found.path)] == [(1, 18), (18, 18), (1, 4), (1, 16)]


class Shuffled(nn.Module):
    def __init__(self, groups: int, by_hand: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 24, 1), nn.Conv2d(24, 16, 1)
        self.groups, self.by_hand = groups, by_hand

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        if not self.by_hand:
            return self.second(F.channel_shuffle(y, self.groups))
        n, _, h, w = y.shape
        return self.second(y.view(n, self.groups, -1, h, w).transpose(1, 2).contiguous().view(n, -1, h, w))


@pytest.mark.parametrize(("groups", "by_hand"), [(2, True), (3, True), (2, False)])
def test_shuffled_channels_are_gathered(groups: int, by_hand: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Shuffled(groups, by_hand), lambda: torch.randn(2, 16, 6, 6))
    axes = {0: "n", 2: "h", 3: "w"}
    example, fresh = torch.randn(2, 16, 6, 6), torch.randn(3, 16, 5, 4)
    found = through_onnxruntime(model, example, tmp_path, fresh=fresh, dynamic_shapes=(axes,))
    assert found.equal == 1
    assert found.nodes["Gather"] == 1
    assert not found.nodes["Transpose"] and not found.nodes["Reshape"]


@pytest.mark.parametrize(
    "move",
    [
        lambda y: y.unflatten(1, (2, 12)).permute(0, 2, 1, 4, 3).flatten(1, 2),  # turns the image as well
        lambda y: y.unflatten(1, (2, 12)).transpose(1, 2).reshape(2, 12, 12, 6),
        lambda y: y.unflatten(1, (2, 12)).transpose(0, 1).flatten(1, 2),
        lambda y: y.unflatten(2, (2, 3)).transpose(1, 2).flatten(1, 2).unflatten(1, (24, 2)).flatten(2, 3),
    ],
)
def test_other_moves_are_no_shuffles(move: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    class Moved(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return F.relu(move(self[0](x)) * 2)

    found = outcome(Moved(nn.Conv2d(16, 24, 1)), (2, 16, 6, 6), tmp_path)
    assert found.equal == 1
    assert not found.nodes["Gather"]


class Last(nn.Module):
    """The end of a sequence, from a table through a recurrent layer to a linear one."""

    def __init__(self, layer: nn.Module, pick: Callable[[Tensor], Tensor], rows: int = 20) -> None:
        super().__init__()
        self.table, self.layer, self.head, self.pick = nn.Embedding(rows, 16), layer, nn.Linear(16, 8), pick

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(self.table(x))
        return self.head(self.pick(y[0] if isinstance(y, tuple) else y))


def last(model: nn.Module, folder: Path) -> tuple[Outcome, onnx.GraphProto]:
    torch.manual_seed(0)
    quantized(model, lambda: torch.randint(20, (2, 7)))
    how = {"fresh": torch.randint(20, (3, 7)), "dynamic_shapes": ({0: "n"},)}
    found = through_onnxruntime(model, torch.randint(20, (2, 7)), folder, **how)
    assert found.equal >= 0.99 and found.close == 1
    return found, onnx.load(found.path).graph


def rank_of_first_quantized(graph: onnx.GraphProto) -> int:
    """The rank of what is quantized behind the layer."""
    ranks = {each.name: len(each.type.tensor_type.shape.dim) for each in graph.value_info}
    return next(ranks[node.input[0]] for node in graph.node if node.op_type == "QuantizeLinear")


@pytest.mark.parametrize(
    ("layer", "pick", "rank"),
    [
        (lambda: nn.LSTM(16, 16, batch_first=True), lambda y: y[:, -1], 2),
        (lambda: nn.GRU(16, 16, batch_first=True), lambda y: y[:, -1], 2),
        (lambda: nn.LayerNorm(16), lambda y: y[:, 0], 2),
        (lambda: nn.LSTM(16, 16, batch_first=True), lambda y: y, 3),
    ],
)
def test_what_is_left_is_quantized(layer: Any, pick: Callable[[Tensor], Tensor], rank: int, tmp_path: Path) -> None:
    found, graph = last(Last(layer(), pick), tmp_path)
    assert not left_in_float(found)
    assert rank_of_first_quantized(graph) == rank


def test_what_others_read_too_is_quantized_as_a_whole(tmp_path: Path) -> None:
    model = Last(nn.LSTM(16, 16, batch_first=True), lambda y: y[:, -1] + y.amax(1))
    _, graph = last(model, tmp_path)
    assert rank_of_first_quantized(graph) == 3


@pytest.mark.parametrize(("rows", "is_turned"), [(20, True), ((1 << 14) + 1, False)])
def test_small_tables_are_floats_once_loaded(rows: int, is_turned: bool, tmp_path: Path) -> None:
    found, graph = last(Last(nn.LSTM(16, 16, batch_first=True), lambda y: y[:, -1], rows), tmp_path)
    stored = next(each for each in graph.initializer if tuple(each.dims) == (rows, 16))
    assert stored.data_type == onnx.TensorProto.UINT8
    made = {node.output[0]: node.op_type for node in graph.node}
    gather = next(node for node in graph.node if node.op_type == "Gather")
    assert made[gather.input[1]] == "Transpose"
    assert made.get(gather.input[0]) == ("Mul" if is_turned else None)
    assert found.fused["Cast"] == found.fused["Sub"] == 0


@pytest.mark.parametrize(
    ("layer", "pick", "is_state"),
    [
        (lambda: nn.LSTM(16, 16, batch_first=True), lambda y: y[:, -1], True),
        (lambda: nn.GRU(16, 16, num_layers=2, batch_first=True), lambda y: y[:, 6], True),
        (lambda: nn.RNN(16, 16), lambda y: y[-1], True),
        (lambda: nn.LSTM(16, 16, batch_first=True), lambda y: y[:, -2], False),
        (lambda: nn.LSTM(16, 16, batch_first=True), lambda y: y[:, 0], False),
        (lambda: nn.GRU(16, 8, batch_first=True, bidirectional=True), lambda y: y[:, -1], False),
        (lambda: nn.LSTM(16, 16, batch_first=True), lambda y: y[-1], False),
        (lambda: nn.LSTM(16, 16, batch_first=True), lambda y: y[:, -1] + y[:, -1:].amax(1), False),
    ],
)
@pytest.mark.parametrize("opset", [12, 21])
def test_the_last_element_is_the_final_state(
    layer: Any, pick: Callable[[Tensor], Tensor], is_state: bool, opset: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    per_tensor = QuantConfig(weights=Weights(per_channel=False))
    model = quantized(Last(layer(), pick), lambda: torch.randint(20, (7, 7)), per_tensor)
    found = through_onnxruntime(
        model, torch.randint(20, (7, 7)), tmp_path, fresh=torch.randint(20, (7, 7)), opset=opset
    )
    assert found.equal >= 0.99 and found.close == 1
    outputs = [node.output for node in onnx.load(found.path).graph.node if node.op_type in ("LSTM", "GRU", "RNN")][-1]
    assert (not outputs[0] and bool(outputs[1])) == is_state


class Turned(nn.Module):
    """Rows of a table, in another order."""

    def __init__(self, turn: Callable[[Tensor], Tensor], rows: int = 20) -> None:
        super().__init__()
        self.table, self.head, self.turn = nn.Embedding(rows, 16), nn.Linear(16, 8), turn

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.layer_norm(self.turn(self.table(x)), (16,)))


@pytest.mark.parametrize(
    ("turn", "order"),
    [
        (lambda y: y.transpose(0, 1), [1, 0]),
        (lambda y: y.permute(1, 0, 2)[1:], [1, 0]),
        (lambda y: y.transpose(1, 2).reshape(2, 7, 16), None),
        (lambda y: torch.cat([y.transpose(0, 1), y.reshape(7, 2, 16)]), None),
    ],
)
@pytest.mark.parametrize("rows", [20, (1 << 14) + 1])
def test_numbers_of_rows_are_turned_and_not_rows(
    turn: Callable[[Tensor], Tensor], order: list[int] | None, rows: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = quantized(Turned(turn, rows), lambda: torch.randint(20, (2, 7)))
    found = through_onnxruntime(model, torch.randint(20, (2, 7)), tmp_path, fresh=torch.randint(20, (2, 7)))
    assert found.equal >= 0.99 and found.close == 1
    turns = [node for node in onnx.load(found.path).graph.node if node.op_type == "Transpose" and node.input[0] == "x"]
    assert [list(node.attribute[0].ints) for node in turns] == ([] if order is None else [order])


class Rows(nn.Module):
    """Linear layers with something between them that is computed row by row, or is not."""

    def __init__(self, between: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 8)
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.between(self, self.first(x)))


@pytest.mark.parametrize(
    ("between", "count"),
    [
        (lambda m, y: F.gelu(y), 2),
        (lambda m, y: m.norm(F.relu(y)), 2),
        (lambda m, y: m.norm(y) + F.silu(y), 2),
        (lambda m, y: torch.tanh(y) * torch.arange(16.0), 2),
        (lambda m, y: torch.softmax(y, 1), 4),  # over another axis
        (lambda m, y: F.layer_norm(y, y.shape[1:]) if y.shape[1:] == (5, 16) else y, 4),
        (lambda m, y: F.gelu(y) + torch.arange(5.0)[:, None], 4),
        (lambda m, y: F.gelu(y).flip(1), 4),
    ],
)
@pytest.mark.parametrize("both", [False, True])
def test_rows_stay_rows(between: Callable[[nn.Module, Tensor], Tensor], count: int, both: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Rows(between), lambda: torch.randn(2, 5, 8))
    example, fresh = torch.randn(2, 5, 8), torch.randn(4, 5, 8)
    axes = {0: "n", 1: "m"} if both and count == 2 else {0: "n"}
    fresh = torch.randn(4, 7, 8) if len(axes) == 2 else fresh
    found = through_onnxruntime(model, example, tmp_path, fresh=fresh, dynamic_shapes=(axes,))
    assert found.equal == 1
    assert not left_in_float(found)
    assert found.nodes["Reshape"] == count


class Stream(nn.Module):
    """Residual sums that are results of the model, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layers = nn.Linear(8, 16), nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        stream = [self.first(x)]
        for layer in self.layers:
            stream.append(stream[-1] + F.gelu(layer(self.norm(stream[-1]))))
        return (*stream[1:], self.norm(stream[-1]))


def test_results_of_the_model_have_their_form_where_rows_stay_rows(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Stream(), lambda: torch.randn(2, 5, 8))
    axes, fresh = {0: "n", 1: "m"}, torch.randn(3, 9, 8)
    found = through_onnxruntime(model, torch.randn(2, 5, 8), tmp_path, fresh=fresh, dynamic_shapes=(axes,))
    assert found.equal == 1
    assert not left_in_float(found)
    assert found.nodes["Reshape"] == 5  # the input to rows, and four results from them


class Asked(nn.Module):
    """A layer whose result is made as large as what it is joined with, as at every step up of a U-Net."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.first, self.last = layer, nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        y = self.layer(F.max_pool2d(x, 2))
        down, right = x.shape[2] - y.shape[2], x.shape[3] - y.shape[3]
        return self.last(torch.cat([x, F.pad(y, (0, right, 0, down))], 1))


@pytest.mark.parametrize(
    "made",
    [
        lambda: nn.ConvTranspose2d(8, 8, 2, stride=2),
        lambda: nn.ConvTranspose2d(8, 8, 3, stride=2, padding=1),
        lambda: nn.Conv2d(8, 8, 3),
    ],
    ids=["transposed", "transposed, 3x3", "convolution"],
)
@pytest.mark.parametrize("opset", [13, 21])
def test_sizes_that_are_asked_for_leave_no_product_in_float(
    made: Callable[[], nn.Module], opset: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = quantized(Asked(made()), lambda: torch.randn(2, 3, 16, 20))
    dynamic = ({0: "n", 2: "height", 3: "width"},)
    fresh = torch.randn(3, 3, 21, 27)
    found = through_onnxruntime(
        model, torch.randn(2, 3, 16, 20), tmp_path, fresh=fresh, opset=opset, dynamic_shapes=dynamic
    )
    assert found.equal == 1
    assert not left_in_float(found)
