"""One family of errors: what happened, where in the user's code, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.onnx.errors import OnnxExporterError, UnsupportedOperatorError

__all__ = [
    "BackendError",
    "CaptureError",
    "ExportError",
    "FrozenAxisError",
    "InputError",
    "LoweringError",
    "MissingDependencyError",
    "PassError",
    "QuantizationError",
    "RefusedSizesError",
    "UnknownNameError",
    "UnsupportedOpError",
    "VerifyError",
    "WriteError",
]


class ExportError(OnnxExporterError):
    """Anything that keeps a model from becoming a file. The fields say the same as the text.

    It is one of PyTorch's too, a RuntimeError: a script that catches what its exporter raises catches this.

    what     what is wrong, in one sentence
    stage    the stage of the export that noticed ("capture", "lower", ...)
    op       the ATen operator, if one is involved
    module   the path of the module that was running
    source   "file.py:42", a line of the user's code
    hint     what to do about it
    """

    stage = "export"

    def __init__(
        self,
        what: str,
        *,
        op: str | None = None,
        module: str | None = None,
        source: str | None = None,
        hint: str | None = None,
        details: Sequence[str] = (),
    ) -> None:
        self.what, self.op, self.module, self.source, self.hint = what, op, module, source, hint
        self.details = tuple(details)
        RuntimeError.__init__(self, self._text())  # PyTorch's errors make texts of their own

    def reword(self, words: Callable[[str], str]) -> None:
        """Say the same in other words: `words` is given what is wrong and what to do about it."""
        self.what, self.hint = words(self.what), self.hint and words(self.hint)
        self.args = (self._text(),)

    def add_detail(self, detail: str) -> None:
        """One more line, found out after the error was made."""
        self.details = (*self.details, detail)
        self.args = (self._text(),)

    def _text(self) -> str:
        lines = [self.what]
        if self.source or self.module:
            where = f"at {self.source}" if self.source else ""
            inside = f"in {self.module}" if self.module else ""
            lines.append(f"  {where} {inside}".rstrip() if where else f"  {inside}")
        lines.extend(f"  {detail}" for detail in self.details)
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)


class InputError(ExportError, ValueError):
    """The call itself is wrong: an argument, a name, an axis, a path."""

    stage = "input"


class UnknownNameError(InputError):
    """An option is about an input or an output that the model does not have.

    name   as it was given
    known  what it is instead: "neither an input (x) nor an output (y)"
    """

    def __init__(self, what: str, *, name: str = "", known: str = "", hint: str | None = None) -> None:
        super().__init__(what, hint=hint)
        self.name, self.known = name, known


class CaptureError(ExportError):
    """The model could not be followed."""

    stage = "capture"


class FrozenAxisError(CaptureError):
    """A dynamic axis was asked for, and the model turns its size into a plain number."""

    axes: tuple[str, ...] = ()


class RefusedSizesError(CaptureError):
    """A dynamic axis was asked for, and the model takes no other size than the example's."""


class LoweringError(ExportError):
    """A captured operator cannot be written in ONNX the way it is used."""

    stage = "lower"


class UnsupportedOpError(LoweringError, UnsupportedOperatorError):
    """Operators without a lowering; all of them at once."""


class PassError(ExportError):
    """A graph pass broke the model."""

    stage = "passes"


class WriteError(ExportError, OSError):
    """The file could not be written."""

    stage = "write"


class QuantizationError(ExportError):
    """A quantised model cannot do what it is asked to: a range is missing, or no range."""

    stage = "quantize"


class VerifyError(ExportError, AssertionError):
    """onnxruntime and PyTorch disagree, or the file does not run.

    explanation  what a hunt for the reason has found (`onward.hunt.Explanation`), if there was one
    """

    stage = "verify"
    inputs: Sequence[Any] = ()  # of the run that failed
    says_why = False  # whether no operator is to blame: only rounding can explain more
    explanation: Any = None

    def explain(self, explanation: Any) -> None:
        """Add what was found to the text."""
        self.explanation, self.hint = explanation, explanation.hint or self.hint
        self.details = (*self.details, *explanation.lines())
        self.args = (self._text(),)


class MissingDependencyError(ExportError, ImportError):
    """A package that this step needs is not installed."""


class BackendError(ExportError):
    """A model cannot be run on PyTorch: it is malformed, uses an unknown operator, or was given wrong inputs.

    exceeds_limit  whether it takes more than `onward.backend.Limits` allow: other inputs would not help
    """

    stage = "backend"
    exceeds_limit = False


def first_line(error: BaseException) -> str:
    """An exception in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
