"""Names that come from a user's code, as a file can hold them."""

from __future__ import annotations


def encodable(text: str) -> str:
    """The text with what UTF-8 has no form for written out: a lone surrogate, as in names of files on some disks."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_encodable(text: str) -> bool:
    return encodable(text) == text
