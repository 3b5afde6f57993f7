"""From the parameters that a call of `export` gives to the options of the export.

Scripts for PyTorch 1.3 and scripts for today's PyTorch work alike. A parameter that means something acts, under its old
name too, and by position where older versions took it by position. A parameter without a meaning is accepted with one
warning that says why. A parameter that no version ever had is a TypeError.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import InputError
from .options import ExportOptions, check_flag, operator_export_type, training_mode
from .parameters import ACTING, PARAMETERS, POSITIONAL, WITHOUT_MEANING, OperatorExportTypes

# What a call gets that does not give the parameter itself.
_defaults: dict[str, Any] = {}

_OF_THE_CALL = ("model", "args", "kwargs")
_warned: set[str] = set()


def set_defaults(defaults: Mapping[str, Any]) -> None:
    """Say what calls get that do not give a parameter themselves. `onward.init` does so."""
    _defaults.clear()
    _defaults.update(defaults)


def resolve(positional: Sequence[Any], named: Mapping[str, Any], f: Any) -> ExportOptions:
    """The options that a call asks for. A parameter that is None was not given."""
    given = {name: value for name, value in named.items() if value is not None}
    _add_positional(given, positional)
    given = {**_defaults, **given}
    for name in given:
        if name not in PARAMETERS:
            close = difflib.get_close_matches(name, [*PARAMETERS, *_OF_THE_CALL], n=1, cutoff=0.5)
            advice = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"export() got an unexpected keyword argument {name!r}{advice}")
    for name in [name for name in given if name in WITHOUT_MEANING]:
        _warn_once(name, WITHOUT_MEANING[name])
        del given[name]
    given["operator_export_type"] = _operators(given)
    given["external_data"] = _external(given.pop("external_data", None), given.pop("use_external_data_format", None), f)
    given["training"] = training_mode(given.get("training"))
    return ExportOptions(**{name: given.get(name, PARAMETERS[name].default) for name in ACTING})


def _add_positional(given: dict[str, Any], positional: Sequence[Any]) -> None:
    more = len(positional) - len(POSITIONAL)
    if more > 0:
        raise TypeError(
            f"export() takes {', '.join(POSITIONAL)} by position after f, and got {more} more: "
            "their order differed between versions of PyTorch, so pass them by name"
        )
    for name, value in zip(POSITIONAL, positional, strict=False):
        if name in given:
            raise TypeError(f"export() got multiple values for argument {name!r}")
        if value is not None:
            given[name] = value


def _warn_once(name: str, reason: str) -> None:
    if name not in _warned:
        _warned.add(name)
        warnings.warn(f"{name} has no meaning in onward: {reason}", UserWarning, stacklevel=4)


def _operators(given: dict[str, Any]) -> OperatorExportTypes:
    """`aten=True` and `export_raw_ir=True` are what `operator_export_type` was before it had a name."""
    asked = {operator_export_type(given.pop("operator_export_type"))} if "operator_export_type" in given else set()
    for name, kind in (("aten", OperatorExportTypes.ONNX_ATEN), ("export_raw_ir", OperatorExportTypes.RAW)):
        value = given.pop(name, False)
        check_flag(name, value, "True or False")
        if value:
            asked.add(kind)
    if len(asked) > 1:
        raise InputError(
            "aten, export_raw_ir and operator_export_type contradict each other: "
            + ", ".join(sorted(kind.name for kind in asked)),
            hint="give operator_export_type alone",
        )
    return asked.pop() if asked else OperatorExportTypes.ONNX


def _external(external_data: bool | None, use_external_data_format: bool | None, f: Any) -> bool | None:
    """The old name and the new one for the same thing. Without a file, it is what `program.save` will do."""
    check_flag("external_data", external_data, "True, False or None")
    check_flag("use_external_data_format", use_external_data_format, "True, False or None")
    if None not in (external_data, use_external_data_format) and external_data is not use_external_data_format:
        raise InputError(
            f"external_data={external_data!r} and use_external_data_format={use_external_data_format!r} "
            "contradict each other",
            hint="give external_data alone",
        )
    if external_data is None and use_external_data_format:
        external_data = True  # False was the old default, and never kept a large model from being split
    if external_data and not (f is None or isinstance(f, (str, os.PathLike))):
        raise InputError("a stream has no place for a data file", hint="give a path, or leave external_data out")
    return external_data


__all__ = ["PARAMETERS", "POSITIONAL", "WITHOUT_MEANING", "resolve"]
