"""Side by side with PyTorch's own exporters, in one run: `python -m bench`, described in docs/benchmarks.md."""
