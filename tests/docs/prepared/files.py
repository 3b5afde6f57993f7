"""A file with something to take away."""

import onnx

text = """
<ir_version: 9, opset_import: ["" : 20]>
theirs (float[n, 4] x) => (float[n, 4] y) {
   one = Constant <value = float {1.0}> ()
   same = Identity (x)
   scaled = Mul (same, one)
   y = Relu (scaled)
}
"""
onnx.save(onnx.parser.parse_model(text), "theirs.onnx")
