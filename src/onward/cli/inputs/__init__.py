"""From --input and --dynamic to tensors and axes."""
