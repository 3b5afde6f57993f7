"""The lowerings, one file per family."""
