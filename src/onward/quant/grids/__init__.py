"""Which number each integer stands for, and where a model keeps the range of every tensor."""
