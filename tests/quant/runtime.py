"""Small quantized graphs run by onnxruntime as it runs them by default, with the nodes that its optimiser left."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from onward.quant.grids.grid import Grid

_ONNX = {
    torch.uint8: TensorProto.UINT8,
    torch.int8: TensorProto.INT8,
    torch.uint16: TensorProto.UINT16,
    torch.int16: TensorProto.INT16,
    torch.int32: TensorProto.INT32,
    torch.int64: TensorProto.INT64,
    torch.float32: TensorProto.FLOAT,
    torch.bool: TensorProto.BOOL,
}


@dataclass
class Graph:
    """A graph under construction. Values are names; `dq` and `q` put the parameters of a grid beside a node."""

    opset: int = 17
    nodes: list[Any] = field(default_factory=list)
    inputs: dict[str, Tensor] = field(default_factory=dict)
    initializers: list[Any] = field(default_factory=list)
    _count: int = 0

    def name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def input(self, value: Tensor) -> str:
        name = self.name()
        self.inputs[name] = value
        return name

    def constant(self, value: Any, dtype: torch.dtype | None = None) -> str:
        name = self.name()
        tensor = value if isinstance(value, Tensor) else torch.tensor(value, dtype=dtype)
        self.initializers.append(numpy_helper.from_array(tensor.numpy(), name))
        return name

    def node(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = self.name()
        self.nodes.append(helper.make_node(op, inputs, [name], domain=domain, **attributes))
        return name

    def _parameters(self, grid: Grid) -> tuple[list[str], dict[str, Any]]:
        zero = torch.full(grid.scale.shape, grid.zero_point, dtype=torch.int32).to(grid.torch_dtype)
        attributes: dict[str, Any] = {} if grid.axis is None else {"axis": grid.axis}
        if grid.torch_dtype in (torch.int16, torch.uint16) and self.opset < 21:
            attributes["domain"] = "com.microsoft"
        return [self.constant(grid.scale), self.constant(zero)], attributes

    def dq(self, value: str, grid: Grid) -> str:
        names, attributes = self._parameters(grid)
        return self.node("DequantizeLinear", value, *names, **attributes)

    def q(self, value: str, grid: Grid) -> str:
        names, attributes = self._parameters(grid)
        return self.node("QuantizeLinear", value, *names, **attributes)

    def run(self, result: str, like: Tensor) -> tuple[Tensor, list[str]]:
        """The value of `result`, which has the type and shape of `like`, and the operators that ran."""
        graph = helper.make_graph(
            self.nodes,
            "quantized",
            [helper.make_tensor_value_info(name, _ONNX[x.dtype], x.shape) for name, x in self.inputs.items()],
            [helper.make_tensor_value_info(result, _ONNX[like.dtype], like.shape)],
            self.initializers,
        )
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        onnx.checker.check_model(model)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "optimised.onnx"
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.log_severity_level = 4  # it warns that the optimised file is for this machine alone: it is
            options.optimized_model_filepath = str(path)
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            kept = [node.op_type for node in onnx.load(path).graph.node]
        (value,) = session.run(None, {name: x.numpy() for name, x in self.inputs.items()})
        return torch.from_numpy(np.array(value)), kept


def random_integers(generator: torch.Generator, shape: Sequence[int], grid: Grid) -> Tensor:
    """Any integer that the grid allows, its ends more often than the others."""
    values = torch.randint(grid.low, grid.high + 1, list(shape), generator=generator)
    ends = torch.rand(list(shape), generator=generator)
    values = torch.where(ends < 0.02, grid.low, torch.where(ends > 0.98, grid.high, values))
    return values.to(torch.int32).to(grid.torch_dtype)


def random_scale(generator: torch.Generator, power_of_two: bool, channels: int | None = None) -> Tensor:
    """Somewhere between 2**-10 and 2**-3."""
    exponent = torch.rand([] if channels is None else [channels], generator=generator) * 7 - 10
    return torch.exp2(exponent.round() if power_of_two else exponent)


def random_grid(
    generator: torch.Generator, dtype: str = "uint8", *, power_of_two: bool = False, zero_point: int | None = None
) -> Grid:
    """A grid for activations; an unnamed zero point is anywhere, its extremes often."""
    info = torch.iinfo(Grid(torch.tensor(1.0), dtype=dtype).torch_dtype)
    if zero_point is None:
        anywhere = int(torch.randint(info.min, info.max + 1, (), generator=generator))
        chosen = int(torch.randint(0, 5, (), generator=generator))
        zero_point = [info.min, info.max, (info.min + info.max + 1) // 2, anywhere, anywhere][chosen]
    return Grid(random_scale(generator, power_of_two), zero_point, dtype)


def near(generator: torch.Generator, scale: Tensor, power_of_two: bool) -> Tensor:
    """A scale within a factor of two of another."""
    exponent = scale.log2() + torch.rand((), generator=generator) * 2 - 1
    return torch.exp2(exponent.round() if power_of_two else exponent)


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    assert ours.dtype == theirs.dtype
    assert torch.equal(ours, theirs), f"{int((ours != theirs).sum())} of {ours.numel()} differ"
