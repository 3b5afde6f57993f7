"""What an export is asked to do: the parameters of `export`, checked once."""

from __future__ import annotations

import enum
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from .errors import InputError

# What every check, message and test derives from. A newer opset also needs the kernels of its runtime:
# tools/kernel_types.py makes lower/_kernel_types.py anew.
OLDEST_OPSET = 9
NEWEST_OPSET = 26
# docs/design.md says why.
DEFAULT_OPSET = 20


class TrainingMode(enum.Enum):
    """The mode in which a model is exported. PyTorch's enum of this name, and the booleans of old, mean the same.

    EVAL      as for inference, whatever mode the model is in
    PRESERVE  each module in the mode that it is in
    TRAINING  dropout drops, and batch norms use the statistics of each batch
    """

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """What the nodes of the file are. PyTorch's enum of this name means the same.

    ONNX                ONNX operators; what has no lowering is an error
    ONNX_ATEN           every operator as an ATen node
    ONNX_ATEN_FALLBACK  an ATen node for what has no lowering
    ONNX_FALLTHROUGH    a node of the operator's own domain for what has no lowering
    RAW                 the captured graph, written down
    """

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3
    RAW = 4


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The parameters of one export, each in one form and known to make sense; `api.export` says what they mean."""

    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    dynamic_axes: Mapping[str, Any] | None = None
    dynamic_shapes: Any = None
    opset_version: int = DEFAULT_OPSET
    external_data: bool | None = None
    verify: bool = False
    allow_static_axes: bool = False
    allow_constant_outputs: bool | None = False  # None allows them with a warning
    optimize: bool = True
    verbose: bool = False
    strip_doc_string: bool = True
    training: TrainingMode = TrainingMode.EVAL
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX
    export_params: bool = True
    keep_initializers_as_inputs: bool = False
    do_constant_folding: bool = True
    custom_opsets: Mapping[str, int] | None = None
    custom_translation_table: Mapping[Any, Any] | None = None
    export_modules_as_functions: bool | Collection[type] = False
    report: bool = False
    profile: bool = False
    dump_exported_program: bool = False
    artifacts_dir: str | os.PathLike[str] = "."
    enable_onnx_checker: bool = False
    mutable_buffers: bool = False
    quant_format: str = "qdq"

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
        for name in _FLAGS:
            check_flag(name, getattr(self, name), "True or False")
        check_flag("allow_constant_outputs", self.allow_constant_outputs, "True, False or None")
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
_FUNCTIONS_SINCE = 15  # the first opset whose file format (IR version 8) has them

_FLAGS = (
    "verify", "allow_static_axes", "optimize", "verbose", "strip_doc_string", "export_params",
    "keep_initializers_as_inputs", "do_constant_folding", "report", "profile", "dump_exported_program",
    "enable_onnx_checker", "mutable_buffers",
)  # fmt: skip


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
