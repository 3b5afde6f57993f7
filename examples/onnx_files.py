"""Any ONNX file, whoever wrote it: print it, look inside, find its shapes, take what is superfluous out.

python examples/onnx_files.py [theirs.onnx] [less.onnx]
"""

from __future__ import annotations

import sys

import numpy as np
import onnx
import onnxruntime

import onward

THEIRS = """
<ir_version: 9, opset_import: ["" : 17], producer_name: "somebody else">
net (float[n, 8] x) => (float[n, 2, 4] y)
<float two = {2}, float one = {1}, int64[3] split = {0, 2, 4}> {
   same = Identity (x)
   scale = Mul (two, one)
   parts = Reshape (same, split)
   turned = Transpose <perm = [0, 2, 1]> (parts)
   back = Transpose <perm = [0, 2, 1]> (turned)
   scaled = Mul (back, scale)
   y = Relu (scaled)
}
"""


def main(path: str = "theirs.onnx", output: str = "less.onnx") -> None:
    onnx.save(onnx.parser.parse_model(THEIRS), path)
    print(f"inputs {onward.input_names(path)}, outputs {onward.output_names(path)}")

    onward.optimize(path, output, verify=True)  # runs both before it writes
    print(onward.printable(output))

    shapes = onward.infer_shapes(path)
    print(f"'back' is {next(node.outputs[0] for node in shapes.graph if node.outputs[0].name == 'back').shape}")

    opened = path + ".opened.onnx"
    onward.with_outputs(path, ["parts"], opened)  # a value from inside as an output
    session = onnxruntime.InferenceSession(opened, providers=["CPUExecutionProvider"])
    y, parts = session.run(None, {"x": np.ones((3, 8), dtype=np.float32)})
    print(f"y {y.shape}, parts {parts.shape}")


if __name__ == "__main__":
    main(*sys.argv[1:])
