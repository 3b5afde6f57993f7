"""Shapes as tensors, for models that compute with them: `torch.onnx.operators` has the same two.

They are needed less here than they were there, because `x.shape` keeps its origin in an export. In a model that uses
them, the shape stays what the input at hand has, in PyTorch and in the file.
"""

from __future__ import annotations

import torch


def shape_as_tensor(x: torch.Tensor) -> torch.Tensor:
    """The sizes of a tensor, as an int64 tensor of one axis."""
    return torch._shape_as_tensor(x)


def reshape_from_tensor_shape(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """Reshape to sizes that a tensor holds; one of them may be -1."""
    return torch._reshape_from_tensor(x, shape)


__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]
