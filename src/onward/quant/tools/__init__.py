"""What a user calls on a quantized model."""
