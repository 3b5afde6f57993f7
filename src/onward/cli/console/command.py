"""What every subcommand shares: how an answer is printed, what a mistake looks like, and what the exit code says.

A subcommand returns an `Answer`; printing it is done here, as text for a person or as one JSON object for a machine.
Whatever the user's model prints meanwhile goes to stderr if stdout is to hold JSON and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:  # it imports PyTorch, which --help can do without
    from onward.errors import ExportError

Words = Callable[[str], str]
FAILED, MISUSED = 1, 2
EXIT_CODES = "Exit codes: 0 it is done, 1 it could not be done, 2 the command line is wrong."

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else, errors included.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace files that exist.")]


@dataclass(frozen=True)
class Answer:
    """What a subcommand has to say: `data` for machines, `show` prints the same for people."""

    data: Any
    show: Callable[[], None]
    code: int = 0


def command(epilog: str, trouble: int = FAILED, words: Words = str) -> dict[str, Any]:
    """The settings of a subcommand: its examples and exit codes, the code if it could not be done, and how errors and
    warnings of the Python API are said here."""

    class Own(Command):
        exit_code, in_words = trouble, staticmethod(words)

    # \b: click leaves the lines of such a paragraph as they are.
    return {"cls": Own, "epilog": "\n\n".join(f"\b\n{part}" for part in epilog.strip().split("\n\n"))}


class Command(TyperCommand):
    """A subcommand without tracebacks."""

    exit_code = FAILED
    in_words: Words = staticmethod(str)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """MODEL where some versions of typer write {MODEL}, which looks like something to be typed."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """MODEL where they write `MODEL <path>`."""
        write = formatter.write_dl

        def write_plainly(rows: Any, *args: Any, **kwargs: Any) -> None:
            write([(re.sub(r"^([A-Z]+) <[a-z]+>$", r"\1", name), text) for name, text in rows], *args, **kwargs)

        formatter.write_dl = write_plainly
        super().format_options(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        from onward.errors import ExportError

        from .usage_errors import UsageMistake

        as_json, debug = bool(ctx.params.get("as_json")), bool(ctx.params.get("debug"))
        try:
            with _clean_stdout(as_json), _short_warnings(debug, self.in_words):
                answer = super().invoke(ctx)
        except ExportError as error:
            error.reword(self.in_words)
            self._fail(error, as_json, debug, MISUSED if isinstance(error, UsageMistake) else self.exit_code)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            if type(error).__module__.endswith(("click.exceptions", "typer.exceptions")):
                raise
            self._fail(_unexpected(error), as_json, debug, self.exit_code, error)
        if isinstance(answer, Answer):
            if as_json:
                from onward.write.type_texts import finite

                print(json.dumps(finite(answer.data), indent=1, allow_nan=False))
            else:
                answer.show()
            raise typer.Exit(answer.code)
        return answer

    def _fail(
        self, error: ExportError, as_json: bool, debug: bool, code: int, cause: BaseException | None = None
    ) -> None:
        if debug:
            traceback.print_exception(cause or error, file=sys.stderr)
        if as_json:
            fields = {key: getattr(error, key) for key in ("what", "stage", "op", "module", "source", "hint")}
            told = {"type": type(error).__name__, **fields, "details": list(error.details), "text": str(error)}
            print(json.dumps({"ok": False, "error": told}, indent=1))
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(code)


def _unexpected(error: Exception) -> ExportError:
    """What nobody has foreseen, in a sentence."""
    from onward.errors import ExportError, first_line

    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
    text = f"{type(error).__name__}: {first_line(error)}"
    return ExportError(
        text, source=where, hint="nobody has foreseen this: --debug shows the traceback, please report it"
    )


@contextlib.contextmanager
def _clean_stdout(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield


@contextlib.contextmanager
def _short_warnings(debug: bool, words: Words) -> Iterator[None]:
    """Warnings without the line of our source that Python would add."""
    if debug:
        yield
        return
    with warnings.catch_warnings():
        shown: set[str] = set()

        def show(message: Any, category: Any, *where: Any, **kwargs: Any) -> None:
            if str(message) not in shown:
                shown.add(str(message))
                print(f"warning: {words(str(message))}", file=sys.stderr)

        warnings.showwarning = show
        yield


@contextlib.contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Something that moves on stderr while long work goes on, if a person is looking. It is told what comes next."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(what)) as status:
        yield lambda text: status.update(escape(text))


def check_free(path: Path, force: bool, *suffixes: str) -> None:
    """Refuse before any work to write over what is there, or to a folder that is not."""
    from onward.errors import InputError
    from onward.write.files import check_path, is_special

    check_path(str(path))
    for each in (path, *(path.with_name(path.name + suffix) for suffix in suffixes)):
        if each.exists() and not force and not is_special(str(each)):
            raise InputError(f"'{each}' already exists", hint="pass --force to overwrite it, or choose another name")


def table(titles: list[str], rows: list[list[str]]) -> None:
    """Columns on stdout; nothing in the cells is read as markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False)
    for title in titles:
        drawn.add_column(title, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(plain(cell)) for cell in row))
    Console(markup=False, highlight=False).print(drawn)


def plain(text: object) -> str:
    """Text of a file or a model as a terminal may have it: no control characters."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))
