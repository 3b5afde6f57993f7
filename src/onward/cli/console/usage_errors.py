"""Mistakes in the command line itself, which have an exit code of their own."""

from __future__ import annotations

from onward.errors import InputError


class UsageMistake(InputError):
    """The command line itself is wrong."""


class SpecMistake(UsageMistake):
    """A spec does not read: shown with a caret under the place."""

    def __init__(self, what: str, text: str, at: int, hint: str) -> None:
        # Other white space would move the caret.
        super().__init__(what, details=["".join(" " if c.isspace() else c for c in text), " " * at + "^"], hint=hint)
