"""Tests of passes: ONNX text in, ONNX text out."""
