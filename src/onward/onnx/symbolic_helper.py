"""The names that symbolic functions take from `torch.onnx.symbolic_helper`."""

from onward.lower.symbolic.helper import *  # noqa: F403
