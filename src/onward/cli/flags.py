"""The parameters of `onward.export` as flags of `onward export`, and its messages in the words of the command line.

Errors and warnings of the Python API name the parameter to change; on the command line they name the flag. A text with
none of these words stays as it is, and so do places in the user's code.
"""

from __future__ import annotations

import re
from typing import Any

import typer

from onward.parameters import PARAMETERS, Parameter

# What a message says of a parameter in other words than `name=True` or `opset_version=17`.
_WORDS = (
    (r"\bexport with allow_constant_outputs=True\b", "add --allow-constant-outputs"),
    (r"\bask for a fixed axis\b", "name the axis in neither --dynamic nor --input"),
    (r"\bout of dynamic_axes\b", "out of --dynamic"),
    (r"\bdynamic_axes\[('[^']*')\]\[(-?\d+)\]", r"--dynamic: axis \2 of \1"),
    (r"\bwith Dim\(\.\.\., min=2\) in dynamic_shapes\b", "with bounds: --dynamic x:0=batch[2..]"),
)


def flag(name: str, **settings: Any) -> Any:
    """The option of the command line for a parameter of `onward.export`."""
    parameter = PARAMETERS[name]
    assert parameter.flag is not None, f"{name} has no flag"
    return typer.Option(parameter.flag, help=parameter.on_command_line, **settings)


def in_flags(text: str) -> str:
    """A message of the Python API in the words of the command line."""
    for pattern, words in _PATTERNS:
        text = pattern.sub(words, text)
    return text


def _values(parameter: Parameter) -> tuple[tuple[str, str], ...]:
    """What a message says of a parameter with a value, and how the command line says it."""
    on, _, off = str(parameter.flag).partition("/")
    if parameter.type == bool | None:
        return (rf"\b{parameter.name}=True\b", on), *(((rf"\b{parameter.name}=False\b", off),) if off else ())
    return ((rf"\b{parameter.name}=(\d+)\b", rf"{on} \1"),) if parameter.type == int | None else ()


_PATTERNS = [
    (re.compile(pattern), words)
    for pattern, words in (*_WORDS, *(each for one in PARAMETERS.values() if one.flag for each in _values(one)))
]
