"""ONNX files that a subcommand reads, and pages about them."""
