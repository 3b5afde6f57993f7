"""What the page of `onward report` measures: the file alone, or beside the model that it should be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx_ir as ir

from onward.errors import ExportError, MissingDependencyError, VerifyError, first_line
from onward.mismatch import exported_like
from onward.report import Measuring
from onward.verify import Session, Verification

from ..inputs.values import Given
from ..models.file_and_model import bound
from ..models.model_options import Asked
from ..models.model_sources import SourceModel
from .file_inputs import Opened, feeds_of


@dataclass(frozen=True)
class FileView:
    """A file as the page shows a program."""

    model: ir.Model
    warnings: tuple[str, ...] = ()


def alone(opened: Opened, given: Given, profile: bool) -> Measuring:
    """On the inputs that the command line gives, or on made-up ones if onnxruntime accepts them."""
    if not profile and not given.values:
        return Measuring(profile=False)
    try:
        session = Session(opened.path)
    except (VerifyError, MissingDependencyError) as error:
        feeds = feeds_of(opened, given) if given.values else None
        return Measuring(feeds, profile=False, notes=(f"no times: {first_line(error)}",))
    try:
        feeds = feeds_of(opened, given, session.run)
    except ExportError as error:
        if given.values:
            raise
        return Measuring(notes=(f"no times: {first_line(error)}",))
    return Measuring(feeds, profile=profile, path=opened.path)


def held_against(
    opened: Opened, what: Asked, target: SourceModel, profile: bool
) -> tuple[Measuring, Verification | None]:
    """Measure the file, and compare every value that the model computes too."""
    try:
        session = Session(opened.path)
    except (VerifyError, MissingDependencyError) as error:
        return Measuring(notes=(f"no times and no errors: {first_line(error)}",)), None
    comparison = bound(opened, session, what, target)
    verification = Verification(tuple(comparison.checks()))
    feeds = dict(zip(comparison.names, comparison.example, strict=True))
    measuring = Measuring(feeds, profile=profile, path=opened.path)
    try:
        program = comparison.exported_anew(exported_like, comparison.example)
    except ExportError as error:
        return replace(measuring, notes=(f"no errors of single values: {first_line(error)}",)), verification
    return replace(measuring, against=program), verification
