"""The exact steps of evaluation: in PyTorch bit for bit as onnxruntime computes them, and as a file says them."""
