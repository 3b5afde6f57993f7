"""What operators are made of that ONNX does not have."""
