"""Quantised models beside float ones and beside other tools' quantised models: `python -m bench.quant`."""
