"""Files at a size of 0: every operator of PyTorch's database and the usual layers, run without elements."""
