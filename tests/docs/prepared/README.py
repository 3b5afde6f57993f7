"""The package that the command names."""

import pathlib

pathlib.Path("mynets.py").write_text("""
from torch import nn

def build(depth):
    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=8), *(nn.Conv2d(4, 4, 1) for _ in range(depth // 10)))
""")
