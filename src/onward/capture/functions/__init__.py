"""Calls that are caught above the dispatcher, because a size or an index would lose its origin below it."""
