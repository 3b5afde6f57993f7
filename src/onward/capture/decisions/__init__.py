"""What a model decides while it is traced: each question with its predicate."""
