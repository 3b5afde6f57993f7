"""From PyTorch to ONNX in one forward pass."""
