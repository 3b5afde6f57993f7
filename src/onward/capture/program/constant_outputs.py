"""Outputs that no input reaches.

Such an output is nearly always a value that Python took out of a tensor and put into a new one: the file would answer
with the example's result, whatever it is given. So it is an error, unless the caller says that the model does return
constants.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import fx
from torch._ops import OpOverload

from ...errors import CaptureError
from ..ground.operator_schemas import draws
from .facts import CapturedProgram, Source, caution


def constant_outputs(program: CapturedProgram) -> tuple[str, ...]:
    """The names of the outputs that depend neither on an input nor on random numbers."""
    if not program.call.positions:
        return ()
    varying = _varying(program.graph)
    return tuple(name for name, node in _own_outputs(program) if node not in varying)


def _own_outputs(program: CapturedProgram) -> Iterator[tuple[str, fx.Node]]:
    """The outputs that the model returned; those that are new contents of inputs and buffers come after them."""
    nodes = next(node for node in reversed(program.graph.nodes) if node.op == "output").args[0]
    for _, port, node in zip(program.results.positions, program.outputs, nodes, strict=False):
        yield port.name, node


def _varying(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that an input or a random operator reaches."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        is_random = isinstance(node.target, OpOverload) and draws(node.target, node.args, node.kwargs)
        if node.op == "placeholder" or is_random or any(each in found for each in node.all_input_nodes):
            found.add(node)
    return found


def lost_dependence(program: CapturedProgram, names: tuple[str, ...]) -> CaptureError:
    """The error for outputs that no input reaches, with the lines where the dependence may have been lost."""
    many = len(names) > 1
    listed = ", ".join(map(repr, names))
    made = _made_at(program, names)
    details = [f"the model reads a value or a size of a tensor as a plain number at {each}" for each in _reads(program)]
    for name in _changed_behind(program, names):
        details.append(
            f"the model changes the buffer {name!r}, which mutable_buffers=True makes an input and an output"
        )
    return CaptureError(
        f"the output{'s' * many} {listed} depend{'' if many else 's'} on no input: the file would give the example's "
        "result, whatever its inputs are",
        source=str(made[0]) if made else None,
        details=details,
        hint="compute with the tensors themselves (no .numpy(), .tolist() or .item() in between); if the model is "
        "meant to return a constant there, export with allow_constant_outputs=True",
    )


def constant_note(program: CapturedProgram, names: tuple[str, ...]) -> str:
    """The same as a warning, for callers of `torch.onnx.export`, which writes such files."""
    made = _made_at(program, names)
    many = len(names) > 1
    return caution(
        f"{f'{made[0]}: ' if made else ''}the output{'s' * many} {', '.join(map(repr, names))} "
        f"depend{'' if many else 's'} on no input",
        "The file gives the example's result there, whatever its inputs are",
        "compute with the tensors themselves (no .numpy(), .tolist() or .item() in between)",
    )


def _reads(program: CapturedProgram, most: int = 3) -> tuple[Source, ...]:
    return program.read_at[-most:]


def _made_at(program: CapturedProgram, names: tuple[str, ...]) -> list[Source]:
    """Where the constants behind these outputs were made, as far as the model made them."""
    found: dict[Source, None] = {}
    for node in _behind(program, names):
        source = program.born_at.get(str(node.target)) if node.op == "get_attr" else node.meta.get("source")
        if source is not None:
            found.setdefault(source)
    return list(found)


def _changed_behind(program: CapturedProgram, names: tuple[str, ...]) -> list[str]:
    """The buffers behind these outputs that the model changes."""
    read = dict.fromkeys(str(node.target) for node in _behind(program, names) if node.op == "get_attr")
    return [each.key for each in program.weights.state if each.name in read and each.key in program.changed]


def _behind(program: CapturedProgram, names: tuple[str, ...]) -> Iterator[fx.Node]:
    """The nodes that these outputs are computed from, the outputs first."""
    waiting = [node for name, node in _own_outputs(program) if name in names]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [each for each in node.all_input_nodes if each not in seen]
        seen.update(node.all_input_nodes)
