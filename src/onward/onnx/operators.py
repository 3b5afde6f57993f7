"""The names of `torch.onnx.operators`."""

from onward.operators import reshape_from_tensor_shape, shape_as_tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]
