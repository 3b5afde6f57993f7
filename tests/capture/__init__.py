"""Tests of capture, on the program it produces."""
