"""Tests mirror src/onward; contract/ has one per row of the contract, models/ whole networks."""
