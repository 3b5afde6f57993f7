"""What an export is asked to do: the parameters of `export`, each in one form and checked once."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import onnx

from .errors import InputError
from .parameters import NEWEST_OPSET, OLDEST_OPSET, OperatorExportTypes, TrainingMode


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The parameters of one export, each in one form and known to make sense. `parameters.py` says what they mean and
    what they are if they are not given."""

    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    dynamic_axes: Mapping[str, Any] | None
    dynamic_shapes: Any
    opset_version: int
    external_data: bool | None
    verify: bool
    allow_static_axes: bool
    allow_constant_outputs: bool | None  # None allows them with a warning
    optimize: bool
    verbose: bool
    strip_doc_string: bool
    training: TrainingMode
    operator_export_type: OperatorExportTypes
    export_params: bool
    keep_initializers_as_inputs: bool
    do_constant_folding: bool
    custom_opsets: Mapping[str, int] | None
    custom_translation_table: Mapping[Any, Any] | None
    export_modules_as_functions: bool | Collection[type]
    report: bool
    profile: bool
    dump_exported_program: bool
    artifacts_dir: str | os.PathLike[str]
    enable_onnx_checker: bool
    mutable_buffers: bool
    quant_format: str

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
        for field in fields(self):
            if field.type in _FLAG_TYPES:
                check_flag(field.name, getattr(self, field.name), _FLAG_TYPES[str(field.type)])
        _check_table("custom_opsets", self.custom_opsets, '{"my.domain": 2}')
        _check_table("custom_translation_table", self.custom_translation_table, "{torch.ops.mine.op.default: function}")
        for domain, version in (self.custom_opsets or {}).items():
            if not _is_version(version) or not str(domain):
                raise InputError(
                    f"custom_opsets has {domain!r}: {version!r}, and it maps domains to versions from 1 on",
                    hint='for example custom_opsets={"my.domain": 2}',
                )
        self._check_module_functions()
        if self.verify and self.operator_export_type in (OperatorExportTypes.ONNX_ATEN, OperatorExportTypes.RAW):
            raise InputError(
                f"verify=True runs the model in onnxruntime, which does not know the nodes that "
                f"operator_export_type={self.operator_export_type.name} writes",
                hint="leave verify out",
            )
        if self.quant_format not in QUANT_FORMATS:
            raise InputError(
                f"quant_format must be one of {', '.join(map(repr, QUANT_FORMATS))}, not {self.quant_format!r}"
            )
        if self.verify and self.quant_format == "linger":
            raise InputError(
                "verify=True runs the model in onnxruntime, which does not know linger's operators",
                hint="leave verify out, and compare with onward.backend.prepare(file).run(...)",
            )
        if not isinstance(self.artifacts_dir, (str, os.PathLike)):
            raise InputError(f"artifacts_dir must be a folder's path, not {self.artifacts_dir!r}")

    def _check_module_functions(self) -> None:
        asked: Any = self.export_modules_as_functions
        if not isinstance(asked, bool):
            if isinstance(asked, (str, bytes)) or not isinstance(asked, Collection):
                raise InputError(
                    f"export_modules_as_functions must be True, False or a set of module classes, not {_named(asked)}",
                    hint="for example export_modules_as_functions={torch.nn.LayerNorm}",
                )
            for kind in asked:
                if not isinstance(kind, type):
                    raise InputError(
                        f"export_modules_as_functions has {_named(kind)}, which is not a class",
                        hint="for example export_modules_as_functions={torch.nn.LayerNorm}",
                    )
        if asked and self.opset_version < _FUNCTIONS_SINCE:
            raise InputError(
                f"export_modules_as_functions needs opset {_FUNCTIONS_SINCE}, and opset_version is "
                f"{self.opset_version}: older files have no functions",
                hint=f"try opset_version={_FUNCTIONS_SINCE}, or leave export_modules_as_functions out",
            )


QUANT_FORMATS = ("qdq", "linger")
_FLAG_TYPES = {"bool": "True or False", "bool | None": "True, False or None"}
_FUNCTIONS_SINCE = 15  # the first opset whose file format (IR version 8) has them


def _named(value: Any) -> str:
    """A value in a message: a model's whole text would hide the rest."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"an object of type {type(value).__name__}"


def _is_version(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _check_table(name: str, value: Any, example: str) -> None:
    if not (value is None or isinstance(value, Mapping)):
        raise InputError(f"{name} must be a dict, not {type(value).__name__}", hint=f"for example {name}={example}")


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
    return min(NEWEST_OPSET, onnx.defs.onnx_opset_version())


def training_mode(value: Any) -> TrainingMode:
    """Ours, PyTorch's (they are told by their names), a boolean, or nothing for eval."""
    if value is None or value is False:
        return TrainingMode.EVAL
    if value is True:
        return TrainingMode.TRAINING
    return _member(TrainingMode, "training", value, "onward.TrainingMode.EVAL, .TRAINING or .PRESERVE")


def operator_export_type(value: Any) -> OperatorExportTypes:
    """Ours, PyTorch's (they are told by their names), or nothing for plain ONNX."""
    if value is None:
        return OperatorExportTypes.ONNX
    return _member(
        OperatorExportTypes, "operator_export_type", value, "onward.OperatorExportTypes.ONNX, .ONNX_ATEN_FALLBACK, ..."
    )


def _member(kind: Any, parameter: str, value: Any, hint: str) -> Any:
    name = getattr(value, "name", None)
    if isinstance(value, (int, str)) or name not in kind.__members__:
        raise InputError(f"{parameter} must be a member of {kind.__name__}, not {value!r}", hint=f"use {hint}")
    return kind[name]
