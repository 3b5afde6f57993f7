"""How much of PyTorch an exporter can write: every operator of PyTorch's own database, exported, run, compared."""
