"""Traced tensors, views of them, and what a write reaches."""
