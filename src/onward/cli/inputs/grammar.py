"""The small grammars of the command line: inputs, dynamic axes, arguments. A mistake is shown with a caret under it.

--input    [NAME:]DTYPE[SIZES][=FILL]     x:f32[1,3,224,224]   ids:i64[1,16]=0..999   x:f32[batch=2,16]
           [NAME=]FILE                    x=picture.npy        inputs.npz             x=inputs.npz:first
           NAME=LITERAL                   scale=2.0            (baked into the file)
           several, with ; between them
FILL       random, zeros, ones, arange, a number, or a range: 0..9 (both ends for integers), -1.0..1.0
--dynamic  NAME:AXIS[=AXIS NAME],...      x:0=batch,2=height   x:0=batch[1..64]   x:2=height[32..]   (bounds)
--arg      NAME=LITERAL                   depth=50   name=small
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..console.usage_errors import SpecMistake

INPUT_HINT = 'for example --input "x:f32[1,3,224,224]", "ids:i64[1,16]=0..999", "x=picture.npy"'
DYNAMIC_HINT = "for example --dynamic x:0=batch,2=height or, with bounds, x:0=batch[1..64]"
ARG_HINT = "for example --arg depth=50"

DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool",
    "c64": "complex64", "c128": "complex128", "double": "float64", "float": "float32", "half": "float16",
    "long": "int64", "int": "int32", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}  # fmt: skip
FILLS = ("random", "zeros", "ones", "arange")
_FILE = re.compile(r"(?P<path>.*\.(npy|npz|pt|pth))(:(?P<key>[^:]+))?", re.IGNORECASE)
_NAMED = re.compile(r"\w+:(?![/\\])")  # a name, and no drive of Windows
_NAME = re.compile(r"[^\s:=\[\];,()]+")
_COUNT = re.compile(r"[0-9]+")
_NUMBER = re.compile(r"[-+]?(\d+\.(?!\.)\d*|\.\d+|\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class Fill:
    """What an input is filled with; `low` and `high` for "range", `low` alone for "number"."""

    kind: str = "random"
    low: float = 0
    high: float = 0


@dataclass(frozen=True)
class TensorSpec:
    """An input to be made up."""

    name: str | None
    dtype: str
    sizes: tuple[int, ...]
    fill: Fill = Fill()
    axes: dict[int, str] = field(default_factory=dict)  # those with a name are dynamic


@dataclass(frozen=True)
class Axis:
    """A dynamic axis: its name, its smallest and largest size if they were given, and where --dynamic has it."""

    name: str
    least: int | None = None
    most: int | None = None
    text: str | None = field(default=None, compare=False)
    at: int = field(default=0, compare=False)

    @property
    def bounded(self) -> bool:
        return self.least is not None or self.most is not None


@dataclass(frozen=True)
class FileSpec:
    """An input from a file; `key` is one array of an .npz, or one entry of a .pt."""

    name: str | None
    path: str
    key: str | None = None


@dataclass(frozen=True)
class ValueSpec:
    """An argument that is no tensor."""

    name: str
    value: Any


InputSpec = TensorSpec | FileSpec | ValueSpec


class Scanner:
    """A text and a place in it."""

    def __init__(self, text: str, start: int, end: int, hint: str) -> None:
        self.text, self.at, self.end, self.hint = text, start, end, hint
        self.skip()

    def skip(self) -> None:
        while self.at < self.end and self.text[self.at].isspace():
            self.at += 1

    def mistake(self, what: str, at: int | None = None) -> SpecMistake:
        return SpecMistake(what, self.text, self.at if at is None else at, self.hint)

    def take(self, token: str) -> bool:
        found = self.text.startswith(token, self.at, self.end)
        if found:
            self.at += len(token)
            self.skip()
        return found

    def expect(self, token: str, what: str) -> None:
        if not self.take(token):
            raise self.mistake(what)

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        found = pattern.match(self.text, self.at, self.end)
        if found is None:
            raise self.mistake(what)
        self.at = found.end()
        self.skip()
        return found.group()

    @property
    def done(self) -> bool:
        return self.at >= self.end


def parse_inputs(texts: Iterable[str]) -> list[InputSpec]:
    """Every input of every --input, in order."""
    specs: list[InputSpec] = []
    for text in texts:
        for start, end in _parts(text):
            spec = _input(text, start, end)
            if spec.name is not None and any(each.name == spec.name for each in specs):
                raise SpecMistake(f"the input '{spec.name}' is given twice", text, start, INPUT_HINT)
            specs.append(spec)
    return specs


def _parts(text: str) -> Iterable[tuple[int, int]]:
    start = 0
    for part in text.split(";"):
        yield start, start + len(part)
        start += len(part) + 1


def _input(text: str, start: int, end: int) -> InputSpec:
    scan = Scanner(text, start, end, INPUT_HINT)
    rest = text[scan.at : end].rstrip()
    if not rest:
        raise scan.mistake("an input is expected here")
    binding = re.fullmatch(r"([^\s:=\[\];,()]+)\s*=\s*(.*)", rest, re.DOTALL)
    if binding:
        return _bound(scan, binding.group(1), binding.group(2), scan.at + binding.start(2))
    file = _FILE.fullmatch(rest)
    if file and "[" not in rest:
        if _NAMED.match(file["path"]):
            raise scan.mistake("a file follows the name of its input with '='", scan.at + rest.index(":"))
        return FileSpec(None, file["path"], file["key"])
    return _tensor(scan)


def _bound(scan: Scanner, name: str, value: str, at: int) -> InputSpec:
    file = _FILE.fullmatch(value)
    if file:
        return FileSpec(name, file["path"], file["key"])
    try:
        return ValueSpec(name, ast.literal_eval(value))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        raise scan.mistake(f"'{value}' is neither a file (.npy, .npz, .pt) nor a Python value", at) from None


def _tensor(scan: Scanner) -> TensorSpec:
    name, at = None, scan.at
    word = scan.match(_NAME, "a name or a type is expected here")
    if scan.take(":"):
        name, at = word, scan.at
        word = scan.match(_NAME, f"the type of '{name}' is expected here")
    elif _NAME.match(scan.text, scan.at, scan.end):
        raise scan.mistake(f"':' is expected here, between '{word}' and its type")
    dtype = _dtype(scan, word, at)
    scan.expect("[", f"the sizes of the tensor are expected here, in brackets: {word}[2,3]")
    sizes, axes = _sizes(scan)
    fill = _fill(scan, dtype) if scan.take("=") else Fill()
    if not scan.done:
        raise scan.mistake("nothing is expected here: '=' for what to fill it with, ';' before another input")
    return TensorSpec(name, dtype, sizes, fill, axes)


def _dtype(scan: Scanner, word: str, at: int) -> str:
    if word in DTYPES or word in DTYPES.values():
        return DTYPES.get(word, word)
    near = difflib.get_close_matches(word, [*DTYPES, *DTYPES.values()], 1)
    meant = f"; did you mean '{near[0]}'?" if near else f": {', '.join(list(DTYPES)[:15])}"
    raise scan.mistake(f"'{word}' is no type{meant}", at)


def _sizes(scan: Scanner) -> tuple[tuple[int, ...], dict[int, str]]:
    sizes: list[int] = []
    axes: dict[int, str] = {}
    if scan.take("]"):
        return (), axes
    while True:
        at = scan.at
        word = scan.match(_NAME, "a size is expected here")
        if not word.isascii() or not word.isdigit():
            if not word.isidentifier():
                raise scan.mistake(f"'{word}' is no size", at)
            scan.expect("=", f"the axis '{word}' needs a size for the example: {word}=2")
            axes[len(sizes)], at = word, scan.at
            word = scan.match(_NAME, "a size is expected here")
            if not word.isascii() or not word.isdigit():
                raise scan.mistake(f"'{word}' is no size", at)
        sizes.append(int(word))
        if scan.take("]"):
            return tuple(sizes), axes
        scan.expect(",", "',' or ']' is expected here")


def _fill(scan: Scanner, dtype: str) -> Fill:
    at = scan.at
    if _NUMBER.match(scan.text, scan.at, scan.end) is None:
        word = scan.match(_NAME, "what to fill it with is expected here")
        if word not in FILLS:
            raise scan.mistake(f"'{word}' is none of {', '.join(FILLS)}, a number, or a range such as 0..9", at)
        return Fill(word)
    whole = not dtype.startswith(("float", "bfloat", "complex"))
    low = _number(scan, whole)
    if not scan.take(".."):
        return Fill("number", low)
    high = _number(scan, whole)
    if high < low:
        raise scan.mistake(f"the range ends before it begins: {low:g} is more than {high:g}", at)
    return Fill("range", low, high)


def _number(scan: Scanner, whole: bool) -> float:
    at = scan.at
    text = scan.match(_NUMBER, "a number is expected here")
    if whole:
        try:
            return int(text)
        except ValueError:
            raise scan.mistake(f"'{text}' is no integer", at) from None
    return float(text)


def parse_dynamic(texts: Iterable[str]) -> dict[str, dict[int, Axis]]:
    """Dynamic axes by input. An axis without a name gets one of its input and its number."""
    found: dict[str, dict[int, Axis]] = {}
    for text in texts:
        scan = Scanner(text, 0, len(text), DYNAMIC_HINT)
        name = scan.match(_NAME, "the name of an input is expected here")
        scan.expect(":", "':' and an axis are expected here")
        while True:
            at = scan.at
            number = scan.match(_NAME, "the number of an axis is expected here")
            if not re.fullmatch(r"-?[0-9]+", number):
                raise scan.mistake(f"'{number}' is no axis: axes have numbers, the first is 0", at)
            number_of = int(number)
            if number_of in found.get(name, {}):
                raise scan.mistake(f"axis {number_of} of '{name}' is given twice", at)
            known = {axis.name: axis for axes in found.values() for axis in axes.values() if axis.bounded}
            axis = _axis(scan, f"{name}_{number_of}", known)
            found.setdefault(name, {})[number_of] = replace(axis, text=text, at=at)
            if scan.done:
                break
            scan.expect(",", "',' and another axis, or nothing, are expected here")
    return found


def _axis(scan: Scanner, default: str, known: Mapping[str, Axis]) -> Axis:
    """`=batch[1..64]`; the same name is the same axis, so its bounds are the same too."""
    if not scan.take("="):
        return Axis(default)
    at = scan.at
    name = scan.match(_NAME, "a name for the axis is expected here")
    start = scan.at
    if not scan.take("["):
        return Axis(name)
    if not name.isidentifier():
        raise scan.mistake(f"an axis with bounds needs a name of letters, digits and _, and '{name}' is none", at)
    least = _count(scan) if not scan.take("..") else None
    if least is not None:
        scan.expect("..", "'..' and the largest size are expected here: [1..64], or [1..] without one")
    most = _count(scan) if not scan.take("]") else None
    if most is not None:
        scan.expect("]", "']' is expected here")
    axis = Axis(name, least, most)
    if least is not None and most is not None and most <= least:
        raise scan.mistake(f"{least}..{most} leaves no two sizes: leave the axis out to have it fixed", start + 1)
    if not axis.bounded:
        raise scan.mistake("a smallest or a largest size is expected here", start + 1)
    if known.get(name, axis) != axis:
        raise scan.mistake(f"the axis '{name}' has other bounds elsewhere", start + 1)
    return axis


def _count(scan: Scanner) -> int:
    return int(scan.match(_COUNT, "a size is expected here"))


def parse_arguments(texts: Iterable[str]) -> dict[str, Any]:
    """Keyword arguments of a builder: Python's literals, or a bare word, which is a string."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.isidentifier():
            raise SpecMistake("the name of an argument is expected here", text, 0, ARG_HINT)
        if not equals:
            raise SpecMistake("'=' and a value are expected here", text, len(text), ARG_HINT)
        if name in found:
            raise SpecMistake(f"the argument '{name}' is given twice", text, 0, ARG_HINT)
        found[name] = _literal(text, value, len(name) + 1)
    return found


def _literal(text: str, value: str, at: int) -> Any:
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        python = {"true": "True", "false": "False", "none": "None", "null": "None"}.get(value.lower())
        if python is not None:
            raise SpecMistake(f"'{value}' is written {python}", text, at, ARG_HINT) from None
        if re.fullmatch(r"[A-Za-z_][\w./-]*", value):
            return value
        raise SpecMistake(f"'{value}' is no Python value", text, at, f"{ARG_HINT}; quote a string") from None
