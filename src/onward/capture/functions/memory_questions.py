"""What Python asks about how a tensor lies in memory: `is_contiguous()`, `stride()`, `storage_offset()`.

The answers depend on sizes. A matrix that was transposed is contiguous where it has one row, or one column. So an
answer that is not the same at all sizes is a decision on sizes like any other, with a condition on the axes where one
can be found that holds at every probe and at every point. C++ code that asks the same gets to the same results either
way, and is answered by `queries.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...tables import registrar
from ..ground.source import is_asked_by_us
from ..memory.conditions import asked_sizes, number, numbers_of, truth
from ..memory.point_layouts import chain, tensors_elsewhere
from ..memory.tensor import Traced
from .intercepts import Intercept

if TYPE_CHECKING:
    from ..record.tracer import Tracer

INTERCEPTS: dict[Any, Intercept] = {}
intercepts = registrar(INTERCEPTS)


@intercepts(torch.Tensor.is_contiguous)
def is_contiguous(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`x.is_contiguous()`, `x.is_contiguous(memory_format=torch.channels_last)`"""
    tensor, *rest = args
    if not _is_asked(tracer, tensor):
        return NotImplemented
    found = _elsewhere(tracer, tensor, "is_contiguous()")
    answers = [None if each is None else func(each, *rest, **kwargs) for each in found]
    size = truth(asked_sizes(tracer, tensor), numbers_of(tensor), "is_contiguous()", answers)
    return size.values[0] if size.is_uniform else tracer.decisions.commit(size)


@intercepts(torch.Tensor.stride)
def stride(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`x.stride()`, `x.stride(0)`"""
    tensor, *rest = args
    axis = rest[0] if rest else kwargs.get("dim")
    if not _is_asked(tracer, tensor) or not (axis is None or -tensor.fact.rank <= axis < tensor.fact.rank):
        return NotImplemented
    found = [None if each is None else each.stride() for each in _elsewhere(tracer, tensor, "stride()")]
    columns = [[None if each is None else each[place] for each in found] for place in range(tensor.fact.rank)]
    sizes = asked_sizes(tracer, tensor)
    numbers = [number(sizes, f"stride({place})", each) for place, each in enumerate(columns)]
    return tuple(numbers) if axis is None else numbers[axis]


@intercepts(torch.Tensor.storage_offset)
def storage_offset(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`x.storage_offset()`: how far a part is from the beginning depends on the sizes of the whole."""
    tensor = args[0]
    if not isinstance(tensor, Traced) or all(each.fact.is_static for each in chain(tensor)):
        return NotImplemented
    found = _elsewhere(tracer, tensor, "storage_offset()")
    places = [None if each is None else int(each.storage_offset()) for each in found]
    return number(asked_sizes(tracer, tensor), "storage_offset()", places)


@intercepts(torch.Tensor.is_set_to)
def is_set_to(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`x.is_set_to(y)`: whether two tensors are the same memory."""
    tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, Traced)]
    if all(each.fact.is_static for tensor in tensors for each in chain(tensor)):
        return NotImplemented
    raise tracer.cannot(
        "is_set_to() asks whether two tensors are the same memory, which depends on a dynamic axis",
        "is_set_to",
        "compare names of Python (x is y), or the values of the tensors",
    )


@intercepts(torch.Tensor._is_view, torch.Tensor._base.__get__)  # type: ignore[union-attr]
def is_view(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`x._is_view()`, `x._base`: a trace knows it, and a reshape that copies at most sizes is a view at some."""
    tensor = args[0]
    if not isinstance(tensor, Traced):
        return NotImplemented
    *_, bottom = chain(tensor)
    if (not tensor.fact.is_static or bottom.copied is not None) and not is_asked_by_us():
        tracer.decisions.warn(
            "the model asks whether a tensor is a view of another one, and the file keeps the example's answer",
            means="Inputs of sizes at which it is another answer are computed wrongly",
            instead="do not ask; a copy of its own is x.clone()",
        )
    if func is torch.Tensor._is_view:
        return bottom is not tensor
    return None if bottom is tensor else bottom


def _is_asked(tracer: Tracer, tensor: Any) -> bool:
    return isinstance(tensor, Traced) and not tensor.fact.is_static


def _elsewhere(tracer: Tracer, tensor: Traced, question: str) -> list[torch.Tensor | None]:
    """How the tensor lies in memory everywhere."""
    found = tensors_elsewhere(tracer, tensor)
    if found is None:
        raise tracer.cannot(
            f"{question} asks how a tensor lies in memory, which cannot be told at other sizes",
            question.removesuffix("()"),
            "ask x.shape, or take x.contiguous() without asking",
        )
    return found
