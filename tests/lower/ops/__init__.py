"""Operator tests, one file per family."""
