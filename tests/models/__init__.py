"""Whole models: the zoo of contract row D2 and the tests that take it through export."""
