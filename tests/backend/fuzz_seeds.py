"""Valid models of every kind, small, with inputs: what the fuzz test damages."""

from __future__ import annotations

import functools
import io
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.parser
import torch
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from torch import nn

import onward


@dataclass(frozen=True)
class Seed:
    name: str
    content: bytes
    inputs: list[Any]
    data: bytes = b""


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.lstm = nn.LSTM(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x).relu()
        return self.lstm(y.flatten(2)[0].t().unsqueeze(1))[0].softmax(-1)


TEXTS: dict[str, tuple[str, list[Any]]] = {
    "loop": ("""g (float[2] x, int64 n) => (float[2] y, float[m, 2] all) {
      go = Constant <value = bool {1}> ()
      y, all = Loop (n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool k, float[2] t, float[2] u) {
        k = Identity (c) t = Add (s, x) u = Identity (t) }>
    }""", [np.array([1, 2], np.float32), np.array(3)]),
    "if": ("""g (bool c, float[n] x) => (float[m] y) {
      y = If (c) <then_branch = t () => (float[n] a) { a = Neg (x) },
                  else_branch = e () => (float[n] b) { two = Constant <value_float = 2.0> () b = Mul (x, two) }> }""",
      [np.array(True), np.ones(3, np.float32)]),
    "scan": ("""g (float[k] s, float[n, k] x) => (float[k] t, float[n, k] y) {
      t, y = Scan <num_scan_inputs = 1, scan_input_directions = [1],
        body = b (float[k] u, float[k] v) => (float[k] w, float[k] z) { w = Add (u, v) z = Mul (w, v) }> (s, x) }""",
      [np.zeros(2, np.float32), np.ones((3, 2), np.float32)]),
    "functions": ("""g (float[n] x) => (float[n] y) { a = my.twice <by = 3.0> (x) y = my.both (a, x) }
      <domain: "my", opset_import: ["" : 20]>
      twice <by> (x) => (y) { f = Constant <value_float: float = @by> () y = Mul (x, f) }
      <domain: "my", opset_import: ["" : 20, "my" : 1]>
      both (a, b) => (c) { d = my.twice <by = 0.5> (a) c = Sub (d, b) }""", [np.ones(3, np.float32)]),
    "sequences": ("""g (float[n, 2] x, int64 i) => (float[k, 2] y, int64 count, bool has) {
      q = SplitToSequence <axis = 0> (x) e = SequenceAt (q, i) r = SequenceInsert (q, e) s = SequenceErase (r, i)
      count = SequenceLength (s) y = ConcatFromSequence <axis = 0> (s) o = Optional (y) has = OptionalHasElement (o)
    }""", [np.ones((3, 2), np.float32), np.array(1)]),
    "quantised": ("""g (float[n, 4] x) => (float[n, 2] y)
      <uint8[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}, float s = {0.1}, uint8 z = {128}, float ws = {0.2}, uint8 wz = {3}> {
      q = QuantizeLinear (x, s, z) m = QLinearMatMul (q, s, z, w, ws, wz, s, z) y = DequantizeLinear (m, s, z) }""",
      [np.ones((2, 4), np.float32)]),
    "strings": ("""g (string[n] x) => (string[n] y, string[n, m] parts, int64[n] counts, bool[n] hit) {
      y = StringConcat (x, x) parts, counts = StringSplit <delimiter = " "> (x)
      hit = RegexFullMatch <pattern = "[a-z ]+"> (x) }""", [np.array(["a b", "cd"], object)]),
    "shapes": ("""g (float[n, 4] x) => (float[a, b] y, float[c, d, e, f] z, int64[m] r)
      <int64[2] pads = {0, 1}, int64[1] axes = {1}, int64 zero = {0}, int64 one = {1}, float[4] scales = {1, 1, 2, 2}> {
      s = Shape (x) flat = ReduceProd <keepdims = 0> (s) r = Range (zero, flat, one) e = Expand (x, s)
      p = Pad (e, pads, , axes) t = Tile (p, s) y = Slice (t, zero1, two1, axes)
      u = Unsqueeze (x, front) z = Resize (u, , scales)
      zero1 = Constant <value_ints = [0]> ()
      two1 = Constant <value_ints = [2]> () front = Constant <value_ints = [0, 1]> () }""",
      [np.ones((2, 4), np.float32)]),
    "attention": ("""g (float[1, 2, 3, 4] q, float[1, 2, 3, 4] k) => (float[1, 2, 3, 4] y) {
      a = Attention <is_causal = 1> (q, k, k) y = Softmax <axis = -1> (a) }""",
      [np.ones((1, 2, 3, 4), np.float32), np.ones((1, 2, 3, 4), np.float32)]),
}  # fmt: skip


def _sorted_text(name: str, text: str) -> onnx.ModelProto:
    opset = 23 if name == "attention" else 20
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}, "my" : 1]> {text}')
    constants = [node for node in proto.graph.node if node.op_type == "Constant"]
    others = [node for node in proto.graph.node if node.op_type != "Constant"]
    del proto.graph.node[:]
    proto.graph.node.extend([*constants, *others])
    return proto


def _exported(kind: onward.OperatorExportTypes) -> bytes:
    torch.manual_seed(0)
    file = io.BytesIO()
    onward.export(Layers().eval(), torch.randn(1, 3, 6, 6), file, operator_export_type=kind)
    return file.getvalue()


def _with_data() -> Seed:
    model = _sorted_text("shapes", TEXTS["shapes"][0])
    data = b""
    for tensor in model.graph.initializer:
        raw = numpy_helper.to_array(tensor).tobytes()
        plain = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, data_location=1)
        for key, value in (("location", "data.bin"), ("offset", len(data)), ("length", len(raw))):
            plain.external_data.add(key=key, value=str(value))
        data += raw
        tensor.CopyFrom(plain)
    return Seed("data", model.SerializeToString(), TEXTS["shapes"][1], data)


def _of_onnx(every: int) -> list[Seed]:
    """Cases of onnx's suite: one node each, of every operator."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for case in load_model_tests(kind="node") if case.model is not None]
    for case in cases[::every]:
        inputs, _ = case.data_sets[0]
        values = [numpy_helper.to_array(each) if isinstance(each, onnx.TensorProto) else each for each in inputs]
        content = case.model.SerializeToString()
        if len(content) < 100_000 and sum(getattr(each, "size", 0) for each in values) < 20_000:
            found.append(Seed(case.name, content, values))
    return found


@functools.cache
def seeds() -> list[Seed]:
    """Our own thrice as often as each of onnx's."""
    kinds = onward.OperatorExportTypes
    x = torch.randn(1, 3, 6, 6).numpy()
    own = [Seed(name, _sorted_text(name, text).SerializeToString(), inputs) for name, (text, inputs) in TEXTS.items()]
    own += [Seed(kind.name, _exported(kind), [x]) for kind in (kinds.ONNX, kinds.ONNX_ATEN, kinds.RAW)]
    own.append(_with_data())
    onnxs = _of_onnx(7)
    return own * (len(onnxs) // len(own)) + onnxs
