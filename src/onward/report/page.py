"""The page of a program or of a file, as text and as a file that appears whole or not at all."""

from __future__ import annotations

import os
from dataclasses import replace

from onward.program import Program
from onward.verify import Verification
from onward.write.files import Replacement, Sink, check_path, is_special, told_clearly

from .measure import Measuring, measured_data
from .page_subject import Sections, Shown
from .template import page


def write_report(
    program: Shown,
    path: str | os.PathLike[str],
    verification: Verification | None = None,
    more: Sections = (),
    *,
    measuring: Measuring | None = None,
) -> None:
    """Write the page to a file; `more` are sections of others, such as `onward.analyse(...).sections()`.

    Nodes of a program are timed and compared with PyTorch on its example; `measuring` asks for something else.
    """
    check_path(os.fsdecode(path))
    write_page(path, render(program, verification, more, measuring=measuring))


def render(
    program: Shown,
    verification: Verification | None = None,
    more: Sections = (),
    *,
    measuring: Measuring | None = None,
) -> str:
    """The page as text."""
    if verification is None and isinstance(program, Program):
        verification = program.verification
    if measuring is None:
        measuring = measuring_of(program) if isinstance(program, Program) else Measuring()
    return page(measured_data(program, measuring, verification, more))


def measuring_of(program: Program, *, profile: bool = True, errors: bool = True) -> Measuring:
    """What a program can be measured with: its example, and PyTorch's values for it."""
    measuring = Measuring(program.example_feeds(), profile=profile)
    return replace(measuring, against=program) if errors else measuring


def write_page(path: str | os.PathLike[str], text: str) -> None:
    """A text into a file: whole, or not at all."""
    name, content = os.fsdecode(path), text.encode()
    check_path(name)
    with told_clearly(name, len(content), atomic=not is_special(name)):
        if is_special(name):
            with open(name, "wb", buffering=0) as device:
                _write(device, content)
            return
        with Replacement(name) as new:
            _write(new.file, content)
            new.close(durable=False)
            new.commit()


def _write(file: object, content: bytes) -> None:
    sink = Sink(file, lambda count: None)
    sink.write(content)
    sink.flush()
