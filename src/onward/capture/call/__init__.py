"""What was asked for: the arguments, their names, the dynamic axes, and the weights."""
