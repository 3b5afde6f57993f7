"""Measurements for the page: times in onnxruntime, errors against PyTorch. What cannot be had is a note on the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from onward.capture.program.facts import pair_tensor
from onward.errors import ExportError, first_line
from onward.program import Program
from onward.verify import Verification

from .call_shapes import Sizes
from .contents import Contents, Json
from .data import report_data, sizes_text
from .numerical_errors import attach_errors, errors_of
from .page_subject import Sections, Shown
from .profile import attach, observed_shapes, profile
from .runtimes import attach_runtimes


@dataclass(frozen=True)
class Measuring:
    """What to measure, and with what.

    feeds     inputs by name; without any nothing is run
    profile   whether nodes are timed
    against   the program that the values of the file are compared with
    path      the file that the model was read from
    notes     why something is not measured
    progress  is told what comes next
    """

    feeds: Mapping[str, torch.Tensor] | None = None
    profile: bool = True
    against: Program | None = None
    path: str | os.PathLike[str] | None = None
    notes: tuple[str, ...] = ()
    progress: Callable[[str], None] = lambda what: None


def measured_data(
    program: Shown, measuring: Measuring, verification: Verification | None = None, more: Sections = ()
) -> Json:
    """All that the page shows. Never fails because of something that cannot be measured."""
    feeds = measuring.feeds
    sizes = {name: tuple(pair_tensor(tensor).shape) for name, tensor in feeds.items()} if feeds is not None else None

    def observe() -> Mapping[str, Sizes]:
        try:
            return observed_shapes(program.model, feeds) if feeds is not None else {}
        except ExportError:  # the profile will say so
            return {}

    measuring.progress("reading the graph")
    found = report_data(program, verification, more, sizes=sizes, observe=observe)
    notes = found.data["notes"]
    notes += measuring.notes
    ran = False
    if measuring.profile and feeds is not None:
        measuring.progress("timing nodes in onnxruntime")
        try:
            profiled = profile(program.model, feeds, path=measuring.path)
            attach(found, profiled, sizes_text(program.model, sizes or {}))
            ran = True
        except ExportError as error:
            notes.append(f"no times: {error.what}")
    if measuring.against is not None:
        measuring.progress("comparing values with PyTorch's")
        _compare(found, measuring.against, program)
    measuring.progress("looking at other runtimes")
    attach_runtimes(found, program.model, ran=ran)
    return found.data


def _compare(found: Contents, against: Program, program: Shown) -> None:
    try:
        attach_errors(found, errors_of(against, program.model, found.sized))
    except (ExportError, RuntimeError, MemoryError) as error:  # an operator that PyTorch cannot repeat, for one
        found.data["notes"].append(f"no errors against PyTorch: {first_line(error)}")
