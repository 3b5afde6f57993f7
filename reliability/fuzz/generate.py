"""The program that belongs to a seed."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import torch

from onward.options import NEWEST_OPSET

from .builder import Builder, Rejected
from .families import DECISIONS, FAMILIES
from .program import Argument, FuzzProgram, Statement

_AXES = ("batch", "length", "width")
_DECIDED = 0.1  # of all programs ask what data says


def decides(seed: int) -> bool:
    """Whether the program of a seed has branches and loops on data. It draws nothing from the program's own numbers."""
    return random.Random(f"decides {seed}").random() < _DECIDED


def generate(seed: int) -> FuzzProgram:
    """Always the same program for the same seed."""
    rng = random.Random(f"program {seed}")
    torch.manual_seed(seed)
    axes, arguments = _arguments(rng)
    dynamic = tuple(name for name in axes if rng.random() < 0.9)
    front = rng.choices(("trace", "script", "exported"), (85, 12, 2))[0]
    decided = decides(seed)
    if decided:
        front = "trace"
    builder = Builder(rng, seed, arguments, _other_sizes(rng, axes, dynamic))
    builder.scripted = front == "script"
    _grow(builder, rng.randrange(3, 11) if not decided else rng.randrange(1, 4))
    if decided:
        _decide(builder)
    early = front != "exported" and rng.random() < (0.2 if decided else 0.04)
    program = FuzzProgram(
        seed=seed,
        arguments=arguments,
        axes=axes,
        dynamic=dynamic,
        inits=tuple(builder.inits),
        body=tuple(builder.body),
        returns=_returns(builder, front == "script", early),
        front=front,
        opset=rng.choice((None, None, rng.randrange(9, NEWEST_OPSET + 1))),
        training=rng.random() < 0.04,
        folding=rng.choice((None, None, None, True, False)),
        by_shapes=front == "exported" or rng.random() < 0.3,
        tags=frozenset(builder.tags),
        coarse=builder.coarse,
    )
    return _with_early_return(program, builder, decided) if early else program


def _arguments(rng: random.Random) -> tuple[dict[str, int], tuple[Argument, ...]]:
    wanted = rng.choices((0, 1, 2, 3), (15, 42, 30, 13))[0]
    rank = max(rng.choices((1, 2, 3, 4), (1, 4, 6, 3))[0], wanted)
    shape: list[int | str] = [rng.choice((1, 2, 3, 4, 4, 6)) for _ in range(rank)]
    if wanted:
        # The first axis is the likeliest to be dynamic, and that of channels the least likely.
        likely = [
            0,
            *rng.sample([at for at in range(1, rank) if at != (1 if rank == 4 else rank - 1)], max(rank - 2, 0)),
        ]
        places = likely[:wanted] if len(likely) >= wanted and rng.random() < 0.8 else rng.sample(range(rank), wanted)
        for name, place in zip(_AXES, sorted(places), strict=False):
            shape[place] = name
    axes = {name: rng.choice((1, 2, 2, 3, 4, 5, 6)) for name in _AXES if name in shape}
    kinds = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    dtype = rng.choices(kinds, (84, 7, 5, 4))[0]
    arguments = [Argument("x0", dtype, tuple(shape))]
    for at in range(1, rng.choices((1, 2, 3), (45, 35, 20))[0]):
        arguments.append(_another(rng, at, arguments[0]))
    return axes, tuple(arguments)


def _another(rng: random.Random, at: int, first: Argument) -> Argument:
    """A further input that has something to do with the first one."""
    shape = first.shape
    part = rng.choice((shape, shape, shape[: rng.randrange(1, len(shape) + 1)], shape[-1:], shape[:1]))
    kind = rng.random()
    if kind < 0.4:
        dtype = first.dtype if rng.random() < 0.8 else rng.choice((torch.float32, torch.float64))
        return Argument(f"y{at}", dtype, part)
    if kind < 0.75:
        return Argument(f"ids{at}", rng.choices((torch.int64, torch.int32), (4, 1))[0], part, 0, 6)
    return Argument(f"mask{at}", torch.bool, part)


def _other_sizes(rng: random.Random, axes: dict[str, int], dynamic: tuple[str, ...]) -> list[dict[str, int]]:
    first, second = dict(axes), dict(axes)
    for name in dynamic:
        first[name] = rng.choice([each for each in (2, 3, 4, 5, 7) if each != axes[name]])
        second[name] = rng.choice([each for each in (1, 2, 3, 6, 9) if each not in (axes[name], first[name])])
    return [axes, first, second] if dynamic else [axes]


def _grow(builder: Builder, wanted: int) -> None:
    names = list(FAMILIES)
    weights = [FAMILIES[name][0] for name in names]
    for _ in range(8 * wanted):
        if len(builder.body) >= wanted:
            return
        name = builder.rng.choices(names, weights)[0]
        writers = FAMILIES[name][1]
        write = builder.rng.choices([each for _, each in writers], [weight for weight, _ in writers])[0]
        if builder.add(write):
            builder.tags.add(f"{name}.{write.__name__}")


def _decide(builder: Builder) -> None:
    """One or two statements that ask what data says, and some others behind them."""
    for _ in range(builder.rng.choice((1, 1, 2))):
        for _ in range(20):
            write = builder.rng.choices([each for _, each in DECISIONS], [weight for weight, _ in DECISIONS])[0]
            if builder.add(write):
                builder.tags.add(f"decisions.{write.__name__}")
                break
        _grow(builder, len(builder.body) + builder.rng.randrange(3))


def _reached(builder: Builder) -> set[str]:
    """The tensors that the data of an input has a part in, and that are not the same for all inputs."""
    arguments = {each.name for each in builder.arguments}
    known = set(arguments)
    for statement in builder.body:
        sources = [name for name in statement.sources if isinstance(builder[name], torch.Tensor) and name in known]
        if sources:
            known.update(statement.targets or statement.sources)
    known &= builder.varying()
    return {name for name in known - arguments if isinstance(builder[name], torch.Tensor)}


def _unread(builder: Builder) -> list[str]:
    """As few tensors as it takes that every statement has a part in one of them; the last ones first."""
    reached, chosen, read = _reached(builder), list[str](), set[str]()
    for statement in reversed(builder.body):
        targets = [name for name in statement.targets if name in reached]
        chosen += [name for name in targets if name not in read and name not in chosen]
        if targets or not statement.targets or read.intersection(statement.targets):
            read.update(name for name in statement.sources if name not in statement.targets)
        if not statement.targets:  # it writes, and what it writes to is wanted
            written = statement.sources[:1]
            chosen += [name for name in written if name in reached and name not in chosen]
    return chosen


def _returns(builder: Builder, scripted: bool, single: bool) -> str:
    rng, chosen = builder.rng, _unread(builder)
    if not chosen:
        return f"{builder.arguments[0].name} * 2"
    chosen = chosen[:1] if single else chosen
    if len(chosen) == 1:
        return chosen[0] if scripted or rng.random() < 0.85 else f"{{'out': {chosen[0]}}}"
    listed = ", ".join(chosen)
    if scripted:
        return listed
    numbers = [name for name, value in builder.variables.items() if type(value) is int]
    forms = [
        *[listed] * 4,
        f"[{listed}]",
        f"{{{', '.join(f'{key!r}: {name}' for key, name in zip('abcdefghijklmnop', chosen, strict=False))}}}",
        f"({chosen[0]}, ({', '.join(chosen[1:])},))",
        f"{{'a': {chosen[0]}, 'rest': [{', '.join(chosen[1:])}]}}",
    ]
    if numbers:
        forms += [f"{listed}, {rng.choice(numbers)}"]
    return rng.choice(forms)


def _with_early_return(program: FuzzProgram, builder: Builder, decided: bool) -> FuzzProgram:
    if not re.fullmatch(r"[a-z]+\d+", program.returns) or not (program.dynamic or decided):
        return program
    name = program.returns
    where = next((at for at, each in enumerate(program.body) if name in each.targets), None)
    if where is None:
        return program
    try:
        x = builder.pick(lambda each: each.dim() >= 1 and each.dtype is not torch.bool)
    except Rejected:
        return program
    if x not in {each.name for each in program.arguments}:
        x = program.arguments[0].name
    condition = f"{x}.shape[0] {builder.rng.choice(('> 4', '== 1', '< 3', '% 2 == 1'))}"
    if decided:
        condition = f"{x}.double().mean() {builder.rng.choice(('> 0', '< 0.2', '> -0.1'))}"
    early = Statement((f"if {condition}:", f"    return {name}"), (), (x, name))
    body = (*program.body[: where + 1], early, *program.body[where + 1 :])
    changed = f"{name} + 1" if builder[name].dtype is not torch.bool else f"~{name}"
    return replace(program, body=body, returns=changed, tags=program.tags | {"control.early"})
