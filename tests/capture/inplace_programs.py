"""Random programs of views, in-place writes and reads, kept as plain data so that a failing one can be read.

A program is a list of steps. A step names an operation, the registers it works on, and a few numbers. Registers are
tensors; views share memory with the registers that they were taken from. All sizes run in step while a program is being
made, so every step of a finished program is one that PyTorch takes at all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

Step = tuple[str, int, int, int, int]  # operation, register, another register, two numbers
Registers = list[Tensor]
Operation = Callable[[Tensor, Tensor, int, int], Any]

SIZES = (6, 5, 9, 12)  # the example's, and others


def inputs_at(rows: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    return (
        torch.randint(-4, 5, (rows, 4), generator=generator).float(),
        torch.randint(-9, 9, (rows, 2, 2), generator=generator),
    )


def first_registers(x: Tensor, k: Tensor) -> Registers:
    """The inputs themselves, tensors made of them in several dtypes and layouts, and plain ones."""
    return [x, x * 2, k, x > 0, x.t() + 1, torch.zeros(3, 4), k.to(torch.int32).view(-1), x.double().view(-1, 2, 2)]


def _axis(x: Tensor, a: int) -> int:
    return a % x.dim()


# --- views: each gives a new register --------------------------------------------------------------------------------
def _diagonal(x: Tensor, _: Tensor, a: int, b: int) -> Tensor:
    return x.diagonal(a % 2 - b % 2, 0, x.dim() - 1)


VIEWS: dict[str, Operation] = {
    "slice": lambda x, _, a, b: x[_slice(a, b)],
    "slice with a step": lambda x, _, a, b: x[..., b % 2 :: 1 + a % 3],
    "slice from the end": lambda x, _, a, b: x[-3:],
    "slice at half": lambda x, _, a, b: x[: x.shape[0] // 2] if a % 2 else x[x.shape[0] // 2 :],
    "select": lambda x, _, a, b: x.select(_axis(x, a), b % 3 - 1),
    "select in the middle": lambda x, _, a, b: x[x.shape[0] // 2],
    "transpose": lambda x, _, a, b: x.transpose(_axis(x, a), _axis(x, b)),
    "permute": lambda x, _, a, b: x.permute([(axis + a) % x.dim() for axis in range(x.dim())]),
    "movedim": lambda x, _, a, b: x.movedim(_axis(x, a), _axis(x, b)),
    "T": lambda x, _, a, b: x.mT if x.dim() > 1 else x,
    "unsqueeze": lambda x, _, a, b: x.unsqueeze(a % (x.dim() + 1)),
    "squeeze": lambda x, _, a, b: x.squeeze(_axis(x, a)),
    "view": lambda x, _, a, b: x.view(-1),
    "view of pairs": lambda x, _, a, b: x.view(-1, 2),
    "reshape": lambda x, _, a, b: x.reshape(-1) if a % 2 else x.reshape(2, -1),
    "flatten": lambda x, _, a, b: x.flatten(),
    "unflatten": lambda x, _, a, b: x.unflatten(-1, (2, -1)),
    "split": lambda x, _, a, b: x.split(2, -1)[b % 2],
    "split at a size": lambda x, _, a, b: x.split([1, x.shape[0] - 1])[b % 2],
    "chunk": lambda x, _, a, b: x.chunk(2, -1)[b % 2],
    "unbind": lambda x, _, a, b: x.unbind(-1)[b % 2],
    "tensor_split": lambda x, _, a, b: x.tensor_split(2)[b % 2],
    "narrow": lambda x, _, a, b: x.narrow(0, -2 if a % 2 else 1, 1 + b % 2),
    "narrow at a size": lambda x, _, a, b: x.narrow(0, 1, x.shape[0] - 2),
    "diagonal": _diagonal,
    "as_strided": lambda x, _, a, b: x.as_strided((2, 2), (1 + a, 1 + b % 2), b % 3),
    "unfold": lambda x, _, a, b: x.unfold(_axis(x, a), 2, 1 + b % 3),
    "expand": lambda x, _, a, b: x.expand(1 + a % 3, *x.shape),
    "detach": lambda x, _, a, b: x.detach(),
    "data": lambda x, _, a, b: x.data,
    "contiguous": lambda x, _, a, b: x.contiguous(),
    "real": lambda x, _, a, b: x.real,
}
# --- reads: new registers, most of them with memory of their own ------------------------------------------------------
READS: dict[str, Operation] = {
    "copy": lambda x, _, a, b: x.clone(),
    "compute": lambda x, _, a, b: x + a,
    "to": lambda x, _, a, b: x.to((torch.float32, torch.int64, torch.float64)[a % 3]),
    "where": lambda x, y, a, b: torch.where(x > 0, x, -x),
    "flip": lambda x, _, a, b: x.flip(0),
    "zeros": lambda x, _, a, b: torch.zeros(x.shape, dtype=x.dtype),
    "sum": lambda x, _, a, b: x.sum(_axis(x, a), keepdim=bool(b % 2)),
    "stack": lambda x, _, a, b: torch.stack([x, x]),
}


# --- writes ----------------------------------------------------------------------------------------------------------
def _number(y: Tensor, a: int) -> Tensor:
    """A number that depends on another register."""
    return y.reshape(-1)[:1].sum().clamp(-3, 3) + a


def _assign(index: Callable[[Tensor, int, int], Any]) -> Operation:
    def assign(x: Tensor, y: Tensor, a: int, b: int) -> None:
        x[index(x, a, b)] = _number(y, a).to(x.dtype)

    return assign


def _slice(a: int, b: int) -> slice:
    return slice(a % 3, 3 + b)


def _out(x: Tensor, y: Tensor, a: int, b: int) -> Any:
    return torch.maximum(x.flip(0), _number(y, a).to(x.dtype), out=x)


def _foreach(x: Tensor, y: Tensor, a: int, b: int) -> Any:
    return torch._foreach_add_([x[:1], x[1:]], 1)


WRITES: dict[str, Operation] = {
    "fill_": lambda x, _, a, b: x.fill_(a),
    "zero_": lambda x, _, a, b: x.zero_(),
    "add_": lambda x, y, a, b: x.add_(_number(y, a).to(x.dtype)),
    "mul_": lambda x, _, a, b: x.mul_(a - 2),
    "sub_": lambda x, _, a, b: x.sub_(x.flip(-1)),
    "clamp_": lambda x, _, a, b: x.clamp_(-a, b),
    "neg_": lambda x, _, a, b: x.neg_(),
    "logical_not_": lambda x, _, a, b: x.logical_not_(),
    "copy_": lambda x, y, a, b: x.copy_(y.flip(0)),
    "copy_ of a number": lambda x, y, a, b: x.copy_(_number(y, a)),
    "masked_fill_": lambda x, _, a, b: x.masked_fill_(x > 0, a),
    "cumsum_": lambda x, _, a, b: x.cumsum_(_axis(x, a)),
    "index_fill_": lambda x, _, a, b: x.index_fill_(_axis(x, a), torch.tensor([0, 1]), b),
    "index_add_": lambda x, _, a, b: x.index_add_(0, torch.tensor([1, 0, 1]), x[:3].clone()),
    "index_copy_": lambda x, _, a, b: x.index_copy_(0, torch.tensor([1]), x[:1] + 1),
    "index_put_": lambda x, y, a, b: x.index_put_(
        (torch.tensor([0, 0]),), _number(y, b).to(x.dtype), accumulate=bool(a % 2)
    ),
    "index_put_ at a mask": lambda x, y, a, b: x.index_put_(
        (x > b - 1,), _number(y, b).to(x.dtype), accumulate=bool(a % 2)
    ),
    "copy_ of another dtype": lambda x, _, a, b: x.copy_(x.flip(0).to((torch.float64, torch.int32, torch.bool)[a % 3])),
    "put_": lambda x, _, a, b: x.put_(torch.tensor([0, 2]), x.flatten()[:2] + 1),
    "scatter_": lambda x, _, a, b: x.scatter_(0, torch.zeros_like(x[:1], dtype=torch.int64), b),
    "at a slice": _assign(lambda x, a, b: _slice(a, b)),
    "at a column": _assign(lambda x, a, b: (..., b % 2)),
    "at indices": _assign(lambda x, a, b: torch.tensor([b % 2, 2])),
    "at a mask": _assign(lambda x, a, b: x > a - 1),
    "at rows of a mask": _assign(lambda x, a, b: x.reshape(x.shape[0], -1)[:, 0] > a - 1),
    "at a row of a size": _assign(lambda x, a, b: x.shape[0] // 2),
    "at a tensor": _assign(lambda x, a, b: (x.reshape(-1)[0] * 0).long() + b % 2),
    "out=": _out,
    "foreach": _foreach,
    "relu_": lambda x, _, a, b: torch.relu_(x),
    "transpose_": lambda x, _, a, b: x.transpose_(_axis(x, a), _axis(x, b)),
    "unsqueeze_": lambda x, _, a, b: x.unsqueeze_(a % (x.dim() + 1)),
}

OPERATIONS = {**VIEWS, **READS, **WRITES}


def apply(registers: Registers, step: Step) -> None:
    """Run one step; views and reads add a register, writes change those there are."""
    name, register, other, a, b = step
    result = OPERATIONS[name](registers[register], registers[other], a, b)
    if name not in WRITES:
        registers.append(result)


def run(steps: Sequence[Step], x: Tensor, k: Tensor) -> tuple[Tensor, ...]:
    """The model: all registers at the end."""
    registers = first_registers(x, k)
    for step in steps:
        apply(registers, step)
    return tuple(each * 1 for each in registers)


def _overlaps(x: Tensor) -> bool:
    """Whether two elements are one: what a write does there is not defined."""
    places = torch.arange(x.untyped_storage().nbytes() // x.element_size())
    return places.as_strided(x.size(), x.stride(), x.storage_offset()).unique().numel() < x.numel()


def _takes(all_registers: list[Registers], step: Step) -> bool:
    """Whether PyTorch takes a step at every size, alike."""
    name, register, *_ = step
    if name in WRITES and any(_overlaps(registers[register]) for registers in all_registers):
        return False
    if name in ("split", "unbind") and len({registers[register].shape[-1:] for registers in all_registers}) > 1:
        return False  # how many there are would depend on the size
    if name == "squeeze" and len({_size_along(registers[register], step[3]) for registers in all_registers}) > 1:
        return False  # at size 1 it would be another program, of which the export warns
    if name == "as_strided" and not all(_is_whole(registers[register]) for registers in all_registers):
        return False  # where its elements are depends on more than the tensor
    trial = [[*map(_twin, registers)] for registers in all_registers]
    try:
        for registers in trial:
            apply(registers, step)
    except (RuntimeError, IndexError, ValueError, TypeError, ZeroDivisionError):
        return False
    if name == "at a slice":
        made = [registers[register][_slice(*step[3:])] for registers in all_registers]
    elif name in WRITES:
        return True
    else:
        made = [registers[-1] for registers in trial]
    if any(each.dim() != made[0].dim() or not 0 < each.numel() < 500 for each in made):
        return False
    # `x[:6]` of six rows and more always has six: an example says nothing of sizes below its own
    columns = zip(*(each.shape for each in made), strict=True)
    return all(len({example, *larger}) > 1 or smaller == example for example, smaller, *larger in columns)


def _size_along(x: Tensor, a: int) -> int:
    return x.shape[_axis(x, a)] if x.dim() else 0


def _is_whole(x: Tensor) -> bool:
    """Whether a tensor is all of its memory, in order."""
    return x.is_contiguous() and x.numel() * x.element_size() == x.untyped_storage().nbytes()


def _twin(x: Tensor) -> Tensor:
    """The same form on other memory."""
    return x.clone(memory_format=torch.preserve_format) if x.is_contiguous() else _strided_twin(x)


def _strided_twin(x: Tensor) -> Tensor:
    flat = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage().clone())
    return flat.as_strided(x.size(), x.stride(), x.storage_offset())


@st.composite
def programs(draw: st.DrawFn, most: int = 12) -> tuple[Step, ...]:
    """Programs that write at least once."""
    all_registers = [first_registers(*inputs_at(rows)) for rows in SIZES]
    steps: list[Step] = []
    numbers = st.integers(0, 5)
    for _ in range(draw(st.integers(2, most))):
        kinds = draw(st.sampled_from([VIEWS, VIEWS, WRITES, WRITES, READS]))
        count = len(all_registers[0])
        recent = st.integers(max(0, count - 4), count - 1)  # long chains are where mistakes are
        register = draw(st.one_of(recent, st.integers(0, count - 1)))
        other = draw(st.integers(0, count - 1))
        step = (draw(st.sampled_from(sorted(kinds))), register, other, draw(numbers), draw(numbers))
        if _takes(all_registers, step):
            for registers in all_registers:
                apply(registers, step)
            steps.append(step)
    return tuple(steps)
