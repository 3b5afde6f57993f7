"""The shape of the package: data walks through the rooms in one direction, and stays out of some places altogether.

The rules read source text. Each rule is a function of a few lines of code, so that the tests at
the end can show it a wrong line and see it refuse.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from onward.capture.ground.source import OURS
from onward.capture.ground.try_blocks import CALLERS

SOURCE = Path(__file__).resolve().parent.parent / "src"
FILES = sorted((SOURCE / "onward").rglob("*.py"))

# A room imports from itself and from rooms to its left. What is not named here (cli, quant, backend, demo, ...)
# is built on top: it may import every room, and none of these may import it.
ROOMS = (
    "tables", "errors", "stage_times", "target", "parameters", "options", "given_parameters", "capture",
    "onnx_operators", "lower", "passes", "write", "verify", "hunt", "torch_names", "program", "files", "report",
    "export_steps", "api",
)  # fmt: skip


@dataclass(frozen=True)
class Rooms:
    """The rooms of a package, in the order in which they may import: from themselves and from rooms to their left.

    Imports for the type checker alone (`if TYPE_CHECKING`) count like all others: what a room needs of a later one it
    says by a Protocol. `modules` are rooms that are a single file.
    """

    package: str
    order: tuple[str, ...]
    modules: tuple[str, ...] = ()

    @property
    def home(self) -> Path:
        return SOURCE.joinpath(*self.package.split("."))

    @property
    def files(self) -> list[Path]:
        return [path for path in FILES if self.home in path.parents]


CAPTURE = Rooms(
    "onward.capture",
    (
        "ground", "call", "program", "sizes", "memory", "decisions", "bodies", "functions", "state", "decompose",
        "record", "frontends", "explore", "python", "attempt",
    ),
)  # fmt: skip
QUANT = Rooms(
    "onward.quant",
    ("config", "native", "grids", "exact", "passes", "linger_format", "run", "families", "setup", "tools"),
    modules=("native",),
)
PACKAGES = (CAPTURE, QUANT)
MOST_FILES = 25  # in a folder
MAY_HAVE_MORE = {
    "lower/ops": "a flat list of families of lowerings",
    "backend/ops": "a flat list of families of operators",
}
WITHOUT_FX = ("write", "verify")  # they take an onnx_ir.Model
MOST_LINES = 600


def module_name(path: Path) -> str:
    """`src/onward/capture/__init__.py` is `onward.capture`."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(text: str, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Every (line, dotted name) that a module imports, inside functions and `if TYPE_CHECKING` too."""
    home = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = home[: len(home) - node.level + 1] if node.level else []
            base = ".".join([*above, *(node.module.split(".") if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def room_of(name: str) -> str:
    """The room of `onward.capture.program.facts.TensorFact` is `capture`; the package itself is the empty room."""
    return name.split(".")[1] if "." in name else ""


def wrong_imports(text: str, module: str, is_package: bool = False) -> list[str]:
    """The imports that go against the direction of the data."""
    room = room_of(module)
    if room not in ROOMS:
        return []
    found = []
    for line, name in imported(text, module, is_package):
        if name.split(".")[0] != "onward":
            continue
        target = room_of(name)
        if target not in ROOMS:
            found.append(f"line {line}: {name} is not one of the rooms that {room} may import")
        elif ROOMS.index(target) > ROOMS.index(room):
            found.append(f"line {line}: {room} imports {name}, which comes after it")
        elif (
            room in ("onnx_operators", "lower")
            and target == "capture"
            and not f"{name}.".startswith(("onward.capture.program.facts.", "onward.capture.program.regions."))
        ):
            found.append(f"line {line}: {room} imports {name}; of capture it knows the facts and the regions alone")
    return found


def wrong_rooms(text: str, module: str, is_package: bool = False) -> list[str]:
    """The imports that go back from one room of a package to a later one."""
    parts = module.split(".")
    rooms = next((each for each in PACKAGES if module.startswith(f"{each.package}.")), None)
    if rooms is None:
        return []
    if parts[2] not in rooms.order:
        return [f"{parts[2]} is none of the rooms of {parts[1]}"]
    found = []
    for line, name in imported(text, module, is_package):
        target = name.split(".")
        if target[:2] != parts[:2] or name.startswith(f"{rooms.package}._"):
            continue
        if len(target) < 3 or target[2] not in rooms.order:
            found.append(f"line {line}: {name} is in none of the rooms of {parts[1]}")
        elif rooms.order.index(target[2]) > rooms.order.index(parts[2]):
            found.append(f"line {line}: {parts[2]} imports {name}, which comes after it")
    return found


def cycles(texts: Mapping[str, str], packages: Collection[str] = ()) -> list[list[str]]:
    """The groups of modules that import each other, by way of others too; `texts` are the modules' sources."""
    after: dict[str, set[str]] = {}
    for module, text in texts.items():
        targets = {_module_of(name, texts) for _, name in imported(text, module, module in packages)}
        after[module] = targets - {"", module}
    reached = {module: _reached(module, after) for module in after}
    groups = {
        frozenset(each for each in reached[module] if module in reached[each])
        for module in after
        if module in reached[module]
    }
    return sorted(sorted(group) for group in groups)


def _module_of(name: str, modules: Collection[str]) -> str:
    """The module that a dotted name is in; empty if it is none of these."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def _reached(module: str, after: Mapping[str, set[str]]) -> set[str]:
    """The modules that come after one, in one step or more."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        for each in after[waiting.pop()] - found:
            found.add(each)
            waiting.append(each)
    return found


MOST_STEPS = 2  # attributes behind the name of an object; behind `self`, which is no other object, one more
# Attributes of objects of Python's, PyTorch's and SymPy's: the form of these is not ours to change.
FOREIGN = frozenset(
    {
        "dtype", "example",  # torch.Tensor; Traced.example is one
        "graph",  # torch.fx
        "call_spec", "graph_signature",  # torch.export.ExportedProgram
        "_schema",  # torch._ops.OpOverload
        "expr",  # SymPy's, of torch.SymInt
        "f_code", "gi_frame", "signature", "tb_frame",  # Python's frames, generators, signatures and tracebacks
    }
)  # fmt: skip


def far_reaches(text: str) -> list[str]:
    """The chains of attributes that go three deep into another object: `tracer.decisions.branches.sides`. The object in
    the middle gets a method that says what is wanted.

    A chain begins at a name that is no imported one, or at the result of a call, or at an item.
    """
    tree = ast.parse(text)
    aliases = (
        alias for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
    )
    free = {alias.asname or alias.name.split(".")[0] for alias in aliases}
    free |= {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute)
        for target in node.targets
        if isinstance(target, ast.Name)
    }  # `aten = torch.ops.aten`
    found = []
    for node in ast.walk(tree):
        names: list[str] = []
        start: ast.AST = node
        while isinstance(start, ast.Attribute):
            names.insert(0, start.attr)
            start = start.value
        root = start.id if isinstance(start, ast.Name) else ""
        if root in free or FOREIGN.intersection(names):
            continue
        if len(names) == MOST_STEPS + (2 if root in ("self", "cls") else 1):  # a longer chain has this one inside
            found.append(f"line {getattr(start, 'lineno', 0)}: {ast.unparse(node)} reaches too deep")
    return found


def foreign_imports(text: str, module: str, is_package: bool = False) -> list[str]:
    """The other exporters, anywhere, and torch.fx where only the ONNX graph is known."""
    found = []
    for line, name in imported(text, module, is_package):
        if name.split(".")[0] == "onnxscript" or f"{name}.".startswith("torch.onnx.export."):
            found.append(f"line {line}: {name} is another exporter")
        if room_of(module) in WITHOUT_FX and f"{name}.".startswith("torch.fx."):
            found.append(f"line {line}: {room_of(module)} takes an onnx_ir.Model and does not know {name}")
    if "torch.onnx.export(" in text:
        found.append("mentions torch.onnx.export(")
    return found


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside of it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            yield node
            yield from _own_nodes(node)


def open_while_away(text: str) -> list[str]:
    """The generators that hand out a value from inside a `with`. Whoever leaves such a generator in the middle leaves a
    mode open until Python collects it, and it then puts back what was there long ago."""
    found = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef) or "contextmanager" in "".join(
            map(ast.unparse, function.decorator_list)
        ):
            continue
        for node in _own_nodes(function):
            items = [ast.unparse(item.context_expr) for item in node.items] if isinstance(node, ast.With) else []
            away = any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in _own_nodes(node))
            if items and away and not all(item.startswith("contextlib.suppress(") for item in items):
                found.append(f"line {node.lineno}: {function.name} hands out values inside of `with {items[0]}`")
    return found


def does_more_than_export(text: str) -> list[str]:
    """The statements of an `__init__.py` that are neither a docstring, an import, nor `__all__`/`__version__`."""

    def belongs(node: ast.stmt) -> bool:
        if isinstance(node, ast.Import | ast.ImportFrom):
            return True
        if isinstance(node, ast.Expr):
            return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if isinstance(node, ast.Assign):
            return all(isinstance(t, ast.Name) and t.id in ("__all__", "__version__") for t in node.targets)
        if isinstance(node, ast.If):
            return ast.unparse(node.test).endswith("TYPE_CHECKING") and all(map(belongs, node.body + node.orelse))
        return False

    return [f"line {node.lineno}: {ast.unparse(node)}" for node in ast.parse(text).body if not belongs(node)]


HOME_OF_PATCHES = "onward.capture.python"


def foreign_changes(text: str, module: str) -> list[str]:
    """Assignments to `builtins`, to the code of functions, and to attributes of torch, outside of the room for them.

    `name = torch.nn` and then `name.Linear = ...` is found too: names that stand for torch, a part of it or builtins,
    by import or by assignment, are followed within the file.
    """
    if f"{module}.".startswith(f"{HOME_OF_PATCHES}."):
        return []
    tree = ast.parse(text)
    others = _names_of_others(tree)

    def is_foreign(node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "vars" and node.args:
            return is_foreign(node.args[0])
        return isinstance(node, ast.Name) and node.id in others

    def changed(node: ast.AST) -> Iterator[ast.expr]:
        if isinstance(node, ast.Assign | ast.Delete):
            yield from node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
            yield node.target

    def flat(target: ast.expr) -> Iterator[ast.expr]:
        if isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                yield from flat(each)
        else:
            yield target

    found = []
    for node in ast.walk(tree):
        for target in (part for whole in changed(node) for part in flat(whole)):
            is_place = isinstance(target, ast.Attribute | ast.Subscript)
            if is_place and (is_foreign(target) or getattr(target, "attr", "") == "__code__"):
                found.append(f"line {node.lineno}: {ast.unparse(target)} is changed outside of {HOME_OF_PATCHES}")  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            name = node.args[1] if len(node.args) > 1 else None
            is_code = isinstance(name, ast.Constant) and name.value == "__code__"
            if node.args and (is_foreign(node.args[0]) or is_code):
                found.append(f"line {node.lineno}: {ast.unparse(node)} outside of {HOME_OF_PATCHES}")
    return found


def _names_of_others(tree: ast.Module) -> set[str]:
    """The names in a file that stand for torch, a part of it, or builtins."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                alias.asname or alias.name.split(".")[0]
                for alias in node.names
                if alias.name.split(".")[0] in ("torch", "builtins")
            }
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "torch":
            names |= {alias.asname or alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute | ast.Name):
            root: ast.expr = node.value
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in names:
                names |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return names


def over_files(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(SOURCE))) for path in paths])


def test_the_source_is_found() -> None:
    assert SOURCE / "onward" / "errors.py" in FILES


@over_files(FILES)
def test_imports_go_in_one_direction(path: Path) -> None:
    assert wrong_imports(path.read_text(encoding="utf-8"), module_name(path), path.name == "__init__.py") == []


@over_files([path for rooms in PACKAGES for path in rooms.files])
def test_imports_between_rooms_of_capture_go_in_one_direction(path: Path) -> None:
    assert wrong_rooms(path.read_text(encoding="utf-8"), module_name(path), path.name == "__init__.py") == []


@pytest.mark.parametrize("rooms", PACKAGES, ids=lambda rooms: rooms.package)
def test_no_module_is_in_a_cycle(rooms: Rooms) -> None:
    paths = [path for path in rooms.files if path != rooms.home / "__init__.py"]
    texts = {module_name(path): path.read_text(encoding="utf-8") for path in paths}
    assert cycles(texts, {module_name(path) for path in paths if path.name == "__init__.py"}) == []


@over_files([path for rooms in PACKAGES for path in rooms.files])
def test_nobody_reaches_deep_into_another(path: Path) -> None:
    assert far_reaches(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("rooms", PACKAGES, ids=lambda rooms: rooms.package)
def test_rooms_are_as_listed(rooms: Rooms) -> None:
    assert {path.stem for path in rooms.home.iterdir() if path.suffix == ".py"} == {"__init__", *rooms.modules}
    folders = {path.name for path in rooms.home.iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders | set(rooms.modules) == set(rooms.order)


def crowded(files: Iterable[str]) -> dict[str, int]:
    """The folders with too many files, by their paths below the package."""
    counts = Counter(str(PurePosixPath(each).parent) for each in files)
    return {folder: count for folder, count in counts.items() if count > MOST_FILES and folder not in MAY_HAVE_MORE}


def test_no_folder_is_crowded() -> None:
    assert crowded(path.relative_to(SOURCE / "onward").as_posix() for path in FILES) == {}
    assert [folder for folder in MAY_HAVE_MORE if not (SOURCE / "onward" / folder).is_dir()] == []


def test_the_rule_about_crowded_folders_itself() -> None:
    assert crowded([f"passes/{number}.py" for number in range(25)]) == {}
    assert crowded([f"passes/{number}.py" for number in range(26)]) == {"passes": 26}
    assert crowded([f"lower/ops/{number}.py" for number in range(60)]) == {}


@over_files(FILES)
def test_no_other_exporter_underneath(path: Path) -> None:
    assert foreign_imports(path.read_text(encoding="utf-8"), module_name(path), path.name == "__init__.py") == []


@over_files(FILES)
def test_only_one_room_changes_what_belongs_to_others(path: Path) -> None:
    assert foreign_changes(path.read_text(encoding="utf-8"), module_name(path)) == []


@over_files(FILES)
def test_no_generator_leaves_a_mode_open(path: Path) -> None:
    assert open_while_away(path.read_text(encoding="utf-8")) == []


def test_open_while_away_finds() -> None:
    bad = "def f():\n    with torch.no_grad():\n        for i in x:\n            yield i\n"
    assert open_while_away(bad) == ["line 2: f hands out values inside of `with torch.no_grad()`"]
    assert open_while_away("@contextlib.contextmanager\n" + bad) == []
    assert open_while_away("def f():\n    with torch.no_grad():\n        y = 1\n    yield y\n") == []


@over_files([path for path in FILES if path.name == "__init__.py"])
def test_init_files_only_export(path: Path) -> None:
    assert does_more_than_export(path.read_text(encoding="utf-8")) == []


@over_files(FILES)
def test_no_file_is_too_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES, "look for the seam"


@pytest.mark.parametrize(
    ("module", "line", "complaint"),
    [
        ("onward.capture.attempt.trace", "from onward.errors import CaptureError", None),
        ("onward.capture.attempt.trace", "from ...errors import CaptureError", None),
        ("onward.capture.attempt.trace", "from . import run", None),
        ("onward.capture.attempt.trace", "import torch.fx", None),
        (
            "onward.capture.attempt.trace",
            "from ...lower import registry",
            "line 1: capture imports onward.lower.registry",
        ),
        ("onward.capture.attempt.trace", "def f():\n    import onward.api", "line 2: capture imports onward.api"),
        ("onward.capture.attempt.trace", "from onward import export", "onward.export is not one of the rooms"),
        ("onward.capture.attempt.trace", "import onward", "onward is not one of the rooms"),
        ("onward.capture.attempt.trace", "from onward.cli import main", "onward.cli.main is not one of the rooms"),
        (
            "onward.errors",
            "from .capture.program.facts import Source",
            "errors imports onward.capture.program.facts.Source",
        ),
        ("onward.lower.emitter", "from onward.capture.program.facts import SymDim", None),
        ("onward.lower.emitter", "from ..capture.program import facts", None),
        (
            "onward.lower.emitter",
            "from ..capture import TensorFact",
            "of capture it knows the facts and the regions alone",
        ),
        ("onward.lower.emitter", "import onward.capture.attempt.trace", "of capture it knows the facts and the"),
        (
            "onward.lower.emitter",
            "from onward.capture.facts_of import x",
            "of capture it knows the facts and the regions alone",
        ),
        ("onward.onnx_operators.record", "from ..capture.program.facts import Dim", None),
        ("onward.onnx_operators.record", "from ..capture.memory import tensor", "of capture it knows the facts"),
        ("onward.onnx_operators.record", "from ..lower import dtypes", "onnx_operators imports onward.lower.dtypes"),
        ("onward.api", "from onward.program import Program", None),
        ("onward.cli.main", "from onward import export", None),
    ],
)
def test_the_direction_rule_itself(module: str, line: str, complaint: str | None) -> None:
    found = wrong_imports(line, module)
    assert (complaint is None and found == []) or (complaint is not None and complaint in "\n".join(found))


@pytest.mark.parametrize(
    ("module", "text", "complaint"),
    [
        ("onward.capture.sizes.dims", "from ..program.facts import SymDim", None),
        ("onward.capture.sizes.dims", "from .points import POINTS", None),
        ("onward.capture.sizes.dims", "from ...errors import CaptureError", None),
        (
            "onward.capture.sizes.dims",
            "from ..memory.tensor import Traced",
            "sizes imports onward.capture.memory.tensor",
        ),
        ("onward.capture.sizes.dims", "def f():\n    from ..attempt import run", "line 2: sizes imports"),
        (
            "onward.capture.sizes.dims",
            "if TYPE_CHECKING:\n    from ..memory.tensor import Traced",
            "line 2: sizes imports",
        ),
        ("onward.capture.sizes.dims", "from .. import CapturedProgram", "in none of the rooms of capture"),
        ("onward.capture.dims", "", "dims is none of the rooms of capture"),
        ("onward.capture", "from .attempt.trace import trace", None),
    ],
)
def test_the_rule_about_rooms_itself(module: str, text: str, complaint: str | None) -> None:
    found = wrong_rooms(text, module)
    assert (complaint is None and found == []) or (complaint is not None and complaint in "\n".join(found))


def test_the_rule_about_cycles_itself() -> None:
    assert cycles({"a.one": "from .two import x", "a.two": "import torch"}) == []
    assert cycles({"a.one": "from . import two", "a.two": "if TYPE_CHECKING:\n    from .one import x"}) == [
        ["a.one", "a.two"]
    ]
    assert cycles(
        {"a.one": "from .two import x", "a.two": "def f():\n    import a.three", "a.three": "import a.one"}
    ) == [["a.one", "a.three", "a.two"]]
    assert cycles({"a": "from .one import x", "a.one": "from . import x"}, {"a"}) == [["a", "a.one"]]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = tracer.data_sizes.form", None),
        ("x = tracer.elsewhere.data_sizes.freedom", "line 1: tracer.elsewhere.data_sizes.freedom reaches too deep"),
        ("def f(t):\n    return t.tracer.dims.width.real", "line 2: t.tracer.dims.width reaches too deep"),
        ("f(x).tracer.dims.width", "f(x).tracer.dims.width reaches too deep"),
        ("x[0].tracer.dims.width = 1", "x[0].tracer.dims.width reaches too deep"),
        ("self._tracer.dims.width", None),
        ("self._tracer.dims.dead.add(1)", "self._tracer.dims.dead.add reaches too deep"),
        ("import torch\ntorch.ops.aten.add.Tensor", None),
        ("import torch\naten = torch.ops.aten\naten.add.Tensor.name", None),
        ("frame.f_code.co_filename.startswith('x')", None),
    ],
)
def test_the_rule_about_far_reaches_itself(text: str, complaint: str | None) -> None:
    found = far_reaches(text)
    assert (complaint is None and found == []) or (
        complaint is not None and [complaint in each for each in found] == [True]
    )


def test_relative_imports_of_a_package_start_in_it() -> None:
    assert list(imported("from .program.facts import Port", "onward.capture", is_package=True)) == [
        (1, "onward.capture.program.facts.Port")
    ]
    assert wrong_imports("from ..api import export", "onward.capture", is_package=True) != []


@pytest.mark.parametrize(
    ("module", "text", "wrong"),
    [
        ("onward.lower.emitter", "import onnxscript", True),
        ("onward.lower.emitter", "from onnxscript.function_libs import torch_lib", True),
        ("onward.lower.emitter", "from torch.onnx import export as write", True),
        ("onward.lower.emitter", "import torch\ntorch.onnx.export(model, (), 'x')", True),
        ("onward.lower.emitter", "from torch.onnx import is_in_onnx_export", False),
        ("onward.lower.emitter", "from torch import fx", False),
        ("onward.write.stream", "from torch import fx", True),
        ("onward.verify.compare", "import torch.fx.node", True),
        ("onward.verify.compare", "import torch\nimport onnx_ir", False),
    ],
)
def test_the_foreign_rule_itself(module: str, text: str, wrong: bool) -> None:
    assert bool(foreign_imports(text, module)) is wrong


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('"""Doc."""\nfrom __future__ import annotations\nfrom .api import export\n__all__ = ["export"]', False),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .api import export", False),
        ("def export(): ...", True),
        ("from .api import export\nexport.alias = 1", True),
        ("import os\nif os.name:\n    import sys", True),
    ],
)
def test_the_init_rule_itself(text: str, wrong: bool) -> None:
    assert bool(does_more_than_export(text)) is wrong


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("import builtins\nbuiltins.min = min", True),
        ("import builtins as b\nb.min, other = min, 1", True),
        ("import builtins\nvars(builtins)['min'] = min", True),
        ("import builtins\nsetattr(builtins, 'min', min)", True),
        ("import builtins\ndelattr(builtins, 'min')", True),
        ("import torch\ntorch.nn.Module.__call__ = print", True),
        ("import torch\ndel torch.compiler.flag", True),
        ("import torch\ntorch.backends.counter += 1", True),
        ("from torch.nn import Module\nModule.__call__ = print", True),
        ("from torch.autograd import function as autograd\nLEVEL = autograd.Level\nLEVEL.apply = print", True),
        ("import torch\nsetattr(torch.nn, 'Linear', None)", True),
        ("def f(function, code):\n    function.__code__ = code", True),
        ("setattr(function, '__code__', code)", True),
        ("import torch\nx = torch.ones(3)\nx.grad = None", False),
        ("import builtins\nTABLE = {builtins.min: 1}", False),
        ("import torch\ndtype: torch.dtype = torch.float32", False),
        ("import torch\nmodule.training = torch.is_grad_enabled()", False),
        ("setattr(template, 'name', 1)", False),
    ],
)
def test_the_rule_about_others_itself(text: str, wrong: bool) -> None:
    assert bool(foreign_changes(text, "onward.capture.attempt.trace")) is wrong
    assert foreign_changes(text, "onward.capture.python.patches") == []


def test_every_family_of_lowerings_is_loaded() -> None:
    families = {path.stem for path in (SOURCE / "onward/lower/ops").glob("*.py") if not path.stem.startswith("_")}
    loaded = {
        name for _, name in imported((SOURCE / "onward/lower/ops/__init__.py").read_text(), "onward.lower.ops", True)
    }
    assert {f"onward.lower.ops.{family}" for family in families} == loaded


def test_files_that_capture_knows_by_their_place_are_there() -> None:
    assert Path(OURS) == SOURCE / "onward"
    assert set(map(Path, CALLERS)) <= set(FILES)
