"""Any ONNX file."""
