"""From TARGET and its options to a model."""
