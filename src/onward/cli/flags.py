"""What the exporter says in words of the Python API, in those of `onward export`.

Errors and warnings name the parameter to be changed; here it is the flag. Texts with none of these words stay as they
are, and so do places in the user's code.
"""

from __future__ import annotations

import re

_FLAGS = [
    (re.compile(pattern), flag)
    for pattern, flag in (
        (r"\bopset_version=(\d+)", r"--opset \1"),
        (r"\ballow_static_axes=True\b", "--allow-static-axes"),
        (r"\bexport with allow_constant_outputs=True\b", "add --allow-constant-outputs"),
        (r"\bask for a fixed axis\b", "name the axis in neither --dynamic nor --input"),
        (r"\bout of dynamic_axes\b", "out of --dynamic"),
        (r"\bdynamic_axes\[('[^']*')\]\[(-?\d+)\]", r"--dynamic: axis \2 of \1"),
        (r"\bwith Dim\(\.\.\., min=2\) in dynamic_shapes\b", "with bounds: --dynamic x:0=batch[2..]"),
    )
]


def in_flags(text: str) -> str:
    for pattern, flag in _FLAGS:
        text = pattern.sub(flag, text)
    return text
