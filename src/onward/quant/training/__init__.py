"""Quantization in training: values that are rounded to a grid, with gradients."""
