"""How the range of an activation or a weight is found."""
