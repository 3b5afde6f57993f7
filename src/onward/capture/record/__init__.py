"""The tracer: an operator goes in, a node comes out."""
