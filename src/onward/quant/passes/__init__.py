"""What makes a quantized file fast in onnxruntime, and changes no integer of its results."""
