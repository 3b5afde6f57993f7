"""What Python does with a traced tensor beside computing: it writes it into a text, copies it, pickles it, or asks for
gradients."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.hooks import RemovableHandle

from ...tables import registrar
from ..call.weights import is_made_of_weights
from ..ground.memory import leaves
from ..ground.source import user_source
from ..memory.tensor import Traced
from ..sizes.checks import is_shown_at
from .intercepts import Intercept

if TYPE_CHECKING:
    from ..record.tracer import Tracer

INTERCEPTS: dict[Any, Intercept] = {}
intercepts = registrar(INTERCEPTS)


# --- texts -----------------------------------------------------------------------------------------------------------
@intercepts(torch.Tensor.__repr__)
def representation(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`str(x)`, `repr(x)`, `print(x)`: the example's text, as PyTorch writes it."""
    tensor = args[0]
    return _text(tracer, tensor, repr) if isinstance(tensor, Traced) else NotImplemented


@intercepts(torch.Tensor.__format__)
def formatted(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`f"{x:.3f}"`, `"{}".format(x)`"""
    tensor, *rest = args
    spec = rest[0] if rest else kwargs.get("format_spec", "")
    return _text(tracer, tensor, lambda plain: format(plain, spec)) if isinstance(tensor, Traced) else NotImplemented


def _text(tracer: Tracer, tensor: Traced, write: Any) -> str:
    source = user_source()
    if is_made_of_weights(tracer.node_of(tensor)):
        tracer.plain.note_read(torch.clone, tracer.node_of(tensor), "str", tensor.example.detach().clone())
    elif not is_shown_at(source):
        tracer.decisions.warn(
            "a tensor was written into a text (str(), repr() or an f-string), and the text is that of the example",
            means="What the model chooses by this text is chosen as for the example",
            instead="choose by tensors (torch.where, torch.cond), and write texts only to print them",
        )
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        written: str = write(tensor.example.detach())
    return written


# --- copies ----------------------------------------------------------------------------------------------------------
@intercepts(torch.Tensor.__deepcopy__)
def deep_copy(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`copy.deepcopy(x)`: a clone. Tensors that share memory would share it as copies too, which clones do not."""
    tensor, memo = args if len(args) == 2 else (args[0], kwargs["memo"])
    if not isinstance(tensor, Traced):
        return NotImplemented
    if id(tensor) in memo:
        return memo[id(tensor)]
    if ("onward", id(tensor.cell)) in memo:
        raise tracer.cannot(
            "copy.deepcopy() copies several tensors that share memory, and their copies would share none",
            "deepcopy",
            "copy the tensor that the others are views of, and take the views again",
        )
    memo["onward", id(tensor.cell)] = tensor.cell
    memo[id(tensor)] = copy = tensor.clone()
    return copy


@intercepts(torch.Tensor.__reduce_ex__)
def pickled(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`pickle.dumps(x)`, `torch.save(x, ...)`: a file has no content before the graph runs."""
    if not isinstance(args[0], Traced):
        return NotImplemented
    raise tracer.cannot(
        "a tensor that depends on the inputs is pickled or saved while the model is traced",
        "__reduce_ex__",
        "return the tensor as an output, or save it outside of forward; for a copy, use x.clone()",
    )


@intercepts(torch.Tensor._version.__get__)  # type: ignore[attr-defined]
def version(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`x._version`: how often x was written to. PyTorch does not count while a model is traced."""
    return args[0].cell.version if isinstance(args[0], Traced) else NotImplemented


# --- gradients -------------------------------------------------------------------------------------------------------
def _no_gradients(tracer: Tracer, what: str) -> Exception:
    return tracer.cannot(
        f"{what} asks for gradients inside the model, and a trace has no autograd graph",
        what,
        "use torch.func.grad, which is traced, or write the derivative with tensor operations",
    )


@intercepts(torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward)
def gradients(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`torch.autograd.grad(y, x)`, `y.backward()`. What `torch.func` calls is its own affair: it records by itself."""
    tensors = [each for each in leaves((args, tuple(kwargs.values()))) if isinstance(each, torch.Tensor)]
    if torch._C._functorch.peek_interpreter_stack() is not None or any(each.requires_grad for each in tensors):
        return NotImplemented
    what = "backward()" if func.__name__ == "backward" else "torch.autograd.grad"
    raise _no_gradients(tracer, what)


@intercepts(torch.Tensor.requires_grad_, torch.Tensor.requires_grad.__set__)  # type: ignore[attr-defined]
def ask_for_gradients(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`x.requires_grad_()`: by itself it changes no number."""
    tensor, *rest = args
    wanted = rest[0] if rest else kwargs.get("requires_grad", True)
    if not isinstance(tensor, Traced):
        return NotImplemented
    if wanted and torch.is_grad_enabled():
        tracer.wants_gradients = True
    return tensor if func is torch.Tensor.requires_grad_ else None


@intercepts(torch.Tensor.requires_grad.__get__)  # type: ignore[attr-defined]
def has_gradients(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`y.requires_grad` after the model has asked for gradients: autograd would know, and a trace does not.

    `torch.autograd.functional` takes a tensor that has none for a constant. It may look at it in another mode than the
    one in which the tensor was computed.
    """
    if isinstance(args[0], Traced) and tracer.wants_gradients:
        raise _no_gradients(tracer, "requires_grad")
    return NotImplemented


@intercepts(torch.Tensor.register_hook, torch.Tensor.retain_grad, torch.Tensor.register_post_accumulate_grad_hook)
def gradient_hook(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A hook on a gradient is never called in a forward pass."""
    if not isinstance(args[0], Traced):
        return NotImplemented
    return None if func is torch.Tensor.retain_grad else RemovableHandle(OrderedDict())
