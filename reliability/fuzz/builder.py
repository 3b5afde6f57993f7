"""Writes a module statement by statement, and runs each at once, at the example's sizes and at two others.

A statement that PyTorch refuses is thrown away, so most programs run. Because the values are real ones, a statement can
be chosen by what they are: their types, their shapes, whether they are finite.
"""

from __future__ import annotations

import math
import random
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from .program import Argument, Statement, coarsest

MOST_ELEMENTS = 3000
LARGEST = 1e4


class Rejected(Exception):
    """This statement does not fit here; another one is tried."""


class Builder:
    """What is known of the program so far.

    envs  the variables with their values at the example and at other sizes
    """

    def __init__(
        self, rng: random.Random, seed: int, arguments: Sequence[Argument], sizes: Sequence[Mapping[str, int]]
    ) -> None:
        self.rng, self.seed = rng, seed
        self.arguments = tuple(arguments)
        self.sizes = sizes
        self.inits: list[str] = []
        self.body: list[Statement] = []
        self.tags: set[str] = set()
        self.scripted = False
        self.model = nn.Module()
        self.names = 0
        self.layers = 0
        self.coarse: dict[str, torch.dtype] = {}
        self.pending: list[str] = []
        self.writing = False
        self.alive = [True] * len(sizes)
        self.envs = self._fresh_envs()
        for each in self.arguments:
            self._see(each.name, [each.dtype])

    def _fresh_envs(self) -> list[dict[str, Any]]:
        envs = []
        for at, sizes in enumerate(self.sizes):
            generator = torch.Generator().manual_seed(self.seed + at)
            env: dict[str, Any] = {"torch": torch, "F": F, "nn": nn, "math": math, "self": self.model}
            env |= {each.name: each.draw(sizes, generator) for each in self.arguments}
            envs.append(env)
        return envs

    # What statements are made of

    @property
    def variables(self) -> dict[str, Any]:
        return {name: value for name, value in self.envs[0].items() if re.fullmatch(r"[a-z]+\d+", name)}

    def tensors(self, accept: Callable[[torch.Tensor], bool] = lambda tensor: True) -> list[str]:
        return [
            name
            for name, value in self.variables.items()
            if isinstance(value, torch.Tensor) and value.numel() and accept(value)
        ]

    def pick(self, accept: Callable[[torch.Tensor], bool] = lambda tensor: True) -> str:
        """A tensor; the newest are the likeliest."""
        found = self.tensors(accept)
        if not found:
            raise Rejected
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]

    def floating(self, low: int = 0, high: int = 5) -> str:
        return self.pick(lambda each: each.is_floating_point() and low <= each.dim() <= high)

    def integral(self, low: int = 0, high: int = 5) -> str:
        integers = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
        return self.pick(lambda each: each.dtype in integers and low <= each.dim() <= high)

    def number(self) -> str:
        """A number that follows from sizes."""
        found = [name for name, value in self.variables.items() if type(value) is int]
        if not found:
            raise Rejected
        return self.rng.choice(found)

    def __getitem__(self, name: str) -> Any:
        return self.envs[0][name]

    def dim(self, name: str) -> int:
        """A dimension of a tensor, negative now and then."""
        rank = self[name].dim()
        if not rank:
            raise Rejected
        place = self.rng.randrange(rank)
        return place - rank if self.rng.random() < 0.4 else place

    def fixed(self, name: str, place: int) -> bool:
        """Whether a dimension is the same at all sizes."""
        found = {env[name].shape[place] for env, alive in zip(self.envs, self.alive, strict=True) if alive}
        return len(found) == 1

    def size(self, name: str, place: int) -> str:
        """Source for the size of a dimension, as people write it."""
        if self.fixed(name, place) and self.rng.random() < 0.7:
            return str(self[name].shape[place])
        rank = self[name].dim()
        shown = place - rank if self.rng.random() < 0.3 else place
        return self.rng.choice((f"{name}.shape[{shown}]", f"{name}.size({shown})"))

    def scalar(self) -> str:
        return self.rng.choice(("2", "3", "0.5", "-1.5", "1", "0.1", "7", "-2"))

    def layer(self, source: str) -> str:
        """A layer of the module; it is kept if the statement is."""
        name = f"l{self.layers + len(self.pending)}"
        self.pending.append(f"self.{name} = {source}")
        return f"self.{name}"

    def fresh(self, prefix: str = "v") -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    # Growing

    def add(self, write: Callable[[Builder], Any]) -> bool:
        """Try one statement of a family; whether it was taken."""
        self.pending, self.writing = [], False
        state, names = self.rng.getstate(), self.names
        try:
            made = write(self)
        except Rejected:
            self.rng.setstate(state)
            self.rng.random()
            self.names = names
            return False
        lines = self._lines(made)
        statement = Statement(tuple(lines), tuple(self._targets(lines)), tuple(self._sources(lines)))
        if self._try(statement):
            self.inits += self.pending
            self.layers += len(self.pending)
            self.body.append(statement)
            return True
        self.names = names
        return False

    def _lines(self, made: Any) -> list[str]:
        if isinstance(made, str):
            return [f"{self.fresh()} = {made}"]
        return list(made)

    def _targets(self, lines: Sequence[str]) -> list[str]:
        found: list[str] = []
        for line in lines:
            left = re.match(r"\s*([a-z0-9, ()]+) (?:[-+*/|&^%]|//)?= ", line)
            found += re.findall(r"\b[a-z]+\d+\b", left.group(1)) if left else []
        return list(dict.fromkeys(found))

    def _sources(self, lines: Sequence[str]) -> list[str]:
        known = self.variables
        return [name for name in dict.fromkeys(re.findall(r"\b[a-z]+\d+\b", "\n".join(lines))) if name in known]

    def _try(self, statement: Statement) -> bool:
        for line in self.pending:
            torch.manual_seed(self.seed + self.layers)
            try:
                exec(line, {"self": self.model, "nn": nn, "torch": torch})
            except Exception:
                return False
        code = compile("\n".join(statement.lines), "<fuzz>", "exec")
        fine = True
        refused = []
        for at, env in enumerate(self.envs):
            if not self.alive[at]:
                continue
            good = self._runs(code, env, statement)
            if not good and (at == 0 or self.rng.random() < 0.95):
                fine = False
                break
            if not good:
                refused.append(at)
        if fine:
            for at in refused:
                self.alive[at] = False
            self._see_all(statement)
            return True
        self._replay()
        return False

    def _runs(self, code: Any, env: dict[str, Any], statement: Statement) -> bool:
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                exec(code, env)
        except Exception:
            return False
        watched = (*statement.targets, *(statement.sources if self.writing else ()))
        return all(_tame(env[name]) for name in watched)

    def _replay(self) -> None:
        """Run everything again: a rejected statement may have written into tensors."""
        self.envs = self._fresh_envs()
        for at, env in enumerate(self.envs):
            if not self.alive[at]:
                continue
            for statement in self.body:
                with warnings.catch_warnings(), torch.no_grad():
                    warnings.simplefilter("ignore")
                    exec("\n".join(statement.lines), env)

    def _see_all(self, statement: Statement) -> None:
        """What a statement reads has a part in all that it assigns or writes to, and in whatever shares that memory."""
        named = [dtype for text, dtype in _NAMED if any(text in line for line in statement.lines)]
        read = [*named, *(self.coarse.get(name) for name in statement.sources)]
        written = self._sharing(statement.sources) if self.writing or not statement.targets else []
        for name in (*statement.targets, *written):
            value = self.envs[0].get(name)
            self._see(name, [*read, value.dtype if isinstance(value, torch.Tensor) else None])

    def _sharing(self, names: Sequence[str]) -> list[str]:
        """The tensors of these names, and all that are views of the same memory."""
        tensors = {name: each for name, each in self.variables.items() if isinstance(each, torch.Tensor)}
        memory = {tensors[name].untyped_storage().data_ptr() for name in names if name in tensors}
        return [name for name, each in tensors.items() if each.untyped_storage().data_ptr() in memory]

    def _see(self, name: str, dtypes: Sequence[torch.dtype | None]) -> None:
        found = coarsest([self.coarse.get(name), *dtypes])
        if found is not None:
            self.coarse[name] = found

    def varying(self) -> set[str]:
        """The variables that are not the same for all inputs: on other values, or at other sizes."""
        known = self.variables
        seen = [env for env, alive in zip(self.envs[1:], self.alive[1:], strict=True) if alive]
        for draw in range(1, 4):
            generator = torch.Generator().manual_seed(self.seed + 100 * draw)
            env = {**self._fresh_envs()[0]}
            env |= {each.name: each.draw(self.sizes[0], generator) for each in self.arguments}
            if draw > 1:
                env |= {name: env[name] * (-1 if draw == 2 else 4) for name in env if _is_float(env[name])}
            if self._ran(env):
                seen.append(env)
        return {name for name, value in known.items() if any(not _equal(value, env.get(name)) for env in seen)}

    def _ran(self, env: dict[str, Any]) -> bool:
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                exec("\n".join(line for statement in self.body for line in statement.lines), env)
        except Exception:
            return False
        return True


# Types that a line may compute in without assigning a tensor of them.
_NAMED = (
    (".half()", torch.float16), ("torch.float16", torch.float16), ("bfloat16", torch.bfloat16),
    (".float()", torch.float32), ("torch.float32", torch.float32),
)  # fmt: skip


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return first.shape == second.shape and torch.equal(first, second)
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(_equal, first, second))
    return type(first) is type(second) and bool(first == second)


def _tame(value: Any) -> bool:
    """Whether a value is one to go on with: finite, of moderate size and magnitude."""
    if isinstance(value, torch.Tensor):
        if value.numel() > MOST_ELEMENTS or value.dim() > 5 or value.is_complex():
            return False
        return not value.numel() or bool((value.double().abs() < LARGEST).all())
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return abs(value) < LARGEST
    return isinstance(value, (bool, tuple, list))
