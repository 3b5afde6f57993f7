"""Which number each integer stands for, how the range of a tensor is found, and how values are rounded to a grid."""
