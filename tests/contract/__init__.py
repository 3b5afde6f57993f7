"""One file per row of the contract: each promise of the row is a test that exports for real."""
