"""Random programs, exported and compared with plain PyTorch: `python -m reliability.fuzz`."""
