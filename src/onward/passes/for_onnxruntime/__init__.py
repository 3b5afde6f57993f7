"""Passes around what onnxruntime would otherwise refuse to load, or compute in another way than the model says."""
