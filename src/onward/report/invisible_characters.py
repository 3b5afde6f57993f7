"""Characters that nobody sees, written out: a name that turns the direction of writing can read as another one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Control characters, soft hyphens, marks and overrides of direction, what has no width, halves of pairs, tags.
_UNSEEN = (
    "\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f"
    "\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff\\U000e0001-\\U000e007f"
)
_IN_TEXT = re.compile(f"[{_UNSEEN}]")
_IN_NAME = re.compile(f"[{_UNSEEN}\\t\\n\\r]")  # texts and lines of code have these rightly


def visible(data: Any) -> Any:
    """Data with every such character in its texts as `\\u202e`; in names line breaks and tabs as well."""
    if isinstance(data, str):
        return _IN_TEXT.sub(_written, data)
    if isinstance(data, Mapping):
        return {visible_name(key): visible_name(item) if key == "name" else visible(item) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [visible(item) for item in data]
    return data


def visible_name(name: Any) -> Any:
    return _IN_NAME.sub(_written, name) if isinstance(name, str) else visible(name)


def _written(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
