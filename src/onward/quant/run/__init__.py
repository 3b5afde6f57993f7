"""What happens while a quantized model runs."""
