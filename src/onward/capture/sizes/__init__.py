"""What a size is: its expression, the points and probes at which it is known, and what operators do to it."""
