"""One run, all runs, and the verdict."""
