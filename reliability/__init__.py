"""Long checks of the whole product, each a command that writes its figures into `docs/reliability.md`.

They take minutes to hours, so `make test` runs only a bounded slice of each.
"""
