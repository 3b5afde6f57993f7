"""What the commands of the page name: a package with a model, its weights, a picture, and files to look at."""

import pathlib

import numpy
import onnx
import safetensors.torch

pathlib.Path("mynets").mkdir()
pathlib.Path("mynets/__init__.py").write_text("from .resnet import build\n")
pathlib.Path("mynets/resnet.py").write_text("""
from torch import nn

def build(depth):
    layers = [nn.Conv2d(3, 4, 3, stride=8), *(nn.Conv2d(4, 4, 1) for _ in range(depth // 10))]
    return nn.Sequential(*layers, nn.Flatten(1), nn.Linear(4 * 28 * 28, 5))
""")

import mynets  # noqa: E402  (it has just been written)

safetensors.torch.save_file(mynets.build(50).state_dict(), "w.safetensors")
numpy.save("picture.npy", numpy.zeros((1, 3, 224, 224), numpy.float32))
text = """
<ir_version: 9, opset_import: ["" : 20]>
net (float[n, 4] x) => (float[n, 4] y) {{
   same = Identity (x)
   y = {} (same)
}}
"""
for name, operator in (("theirs", "Relu"), ("a", "Relu"), ("b", "Tanh")):
    onnx.save(onnx.parser.parse_model(text.format(operator)), f"{name}.onnx")
