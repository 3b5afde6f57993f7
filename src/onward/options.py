"""What an export is asked to do: the parameters of `export`, checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from .errors import InputError

OLDEST_OPSET = 9
# docs/design.md says why.
DEFAULT_OPSET = 20


@dataclass(frozen=True)
class ExportOptions:
    """The parameters of one export."""

    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    dynamic_axes: Mapping[str, Any] | None = None
    opset_version: int = DEFAULT_OPSET
    external_data: bool | None = None
    verify: bool = False
    allow_static_axes: bool = False

    def __post_init__(self) -> None:
        for name in ("input_names", "output_names"):
            value = getattr(self, name)
            if isinstance(value, (str, bytes)) or not (value is None or isinstance(value, Sequence)):
                example = value if isinstance(value, str) and value else "x"
                raise InputError(f"{name} must be a list of names, not {value!r}", hint=f'try {name}=["{example}"]')
        if not (self.dynamic_axes is None or isinstance(self.dynamic_axes, Mapping)):
            raise InputError(
                f"dynamic_axes must be a dict of input name to axes, not {type(self.dynamic_axes).__name__}",
                hint='for example dynamic_axes={"x": {0: "batch"}}',
            )
        check_opset(self.opset_version)
        for name in ("verify", "allow_static_axes"):
            check_flag(name, getattr(self, name), "True or False")


def check_flag(name: str, value: Any, allowed: str) -> None:
    """Refuse what only looks like a flag: "no" would count as true."""
    if not (isinstance(value, bool) or (value is None and "None" in allowed)):
        raise InputError(f"{name} must be {allowed}, not {value!r}")


def check_opset(version: Any) -> None:
    """Refuse an opset that nobody could load or that we do not write."""
    newest = newest_opset()
    if not isinstance(version, int) or isinstance(version, bool):
        raise InputError(f"opset_version must be an integer from {OLDEST_OPSET} to {newest}, not {version!r}")
    if not OLDEST_OPSET <= version <= newest:
        raise InputError(
            f"opset_version={version} is out of range",
            hint=f"this installation writes opsets {OLDEST_OPSET} to {newest}",
        )


def newest_opset() -> int:
    """The newest opset that onward writes: what our tables cover and the installed onnx package knows."""
    return min(26, onnx.defs.onnx_opset_version())
