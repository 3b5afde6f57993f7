"""The refusal of a run whose plain numbers cannot be turned into sizes again."""


class CannotThaw(Exception):
    """The runs differ in more than numbers, or a number has no formula."""
