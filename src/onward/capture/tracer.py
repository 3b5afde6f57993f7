"""Follow a model: every op that touches a traced tensor runs on all probes in step and is recorded once."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from ..errors import CaptureError
from .aliasing import PARENT, Cell, ViewStep, as_view_of, put_back
from .dims import DimTable
from .facts import Constant, Dim, SizeFact, Source, TensorFact
from .layouts import Layout, LayoutKernels, ProbeFailure
from .queries import DATA_QUERIES, METADATA_QUERIES
from .sizes import SYMBOLIC, AxisOf, Computed, Size, symbol, written
from .source import ScopeStack, user_source
from .tensor import Traced
from .traits import Traits, traits

aten = torch.ops.aten


class CaptureWarning(UserWarning):
    """Something in the model was decided once and for all while it was traced."""


class ProbeRejected(Exception):
    """The model works on the example and refuses the other sizes that were tried."""

    def __init__(self, op: str, source: Source | None, scope: str, reason: str) -> None:
        super().__init__(reason)
        self.op, self.source, self.scope, self.reason = op, source, scope, reason


@dataclass(frozen=True, slots=True)
class Freeze:
    """A size that Python turned into a plain number although the probes disagree."""

    axes: frozenset[str]
    expression: str
    value: int | float | bool
    values: tuple[Any, ...]
    source: Source | None
    scope: str


# Ops whose result has a size that depends on data: the axis with that size.
_DATA_SIZED = {aten.nonzero.default: 0, aten.masked_select.default: 0}
# Ops that update running statistics without saying so in their schema: positions of these, of the training flag.
_HIDDEN_WRITES = {aten.batch_norm.default: ((3, 4), 5), aten.instance_norm.default: ((3, 4), 5)}


class Tracer:
    """One run of a model. `is_primitive(op)` says whether lowering takes an op as it is; others are decomposed."""

    def __init__(
        self,
        axes: dict[str, tuple[int, ...]],
        probes: int,
        *,
        model: torch.nn.Module | None,
        model_name: str,
        is_primitive: Callable[[OpOverload], bool],
        kernels: LayoutKernels | None = None,
    ) -> None:
        self.graph = fx.Graph()
        self.probes = probes
        self.dims = DimTable(axes)
        self.scopes = ScopeStack(model, model_name)
        self.is_primitive = is_primitive
        self.kernels = kernels or LayoutKernels()
        self.freezes: list[Freeze] = []
        self.warnings: list[str] = []
        self.constants: dict[str, Constant] = {}
        self._warned: set[tuple[str, Source | None]] = set()
        self._constant_nodes: dict[Any, fx.Node] = {}
        self._state = _state_of(model)
        self._size_nodes: dict[Any, fx.Node] = {}
        self._born: set[int] = set()  # storages that plain ops made during this trace
        self._kept: set[int] = set()  # storages that constants of the graph read
        self._promoted: dict[int, Traced] = {}  # plain memory that traced data was written to
        self._promoted_views: dict[Any, Traced] = {}
        self._fresh = 0
        self.inside = 0  # depth of our own decompositions: sizes asked there are not the model's decisions

    # --- inputs ----------------------------------------------------------------------------------------------------
    def input(self, name: str, real: torch.Tensor, layouts: Sequence[Layout]) -> Traced:
        """A graph input: the example's tensor (a copy of the caller's) and its other sizes."""
        node = self.graph.create_node("placeholder", name, (), {}, name)
        traced = self._wrap(real, tuple(layouts), ())
        self._own(traced, node)
        for axis, dim in enumerate(traced.fact.shape):
            if not isinstance(dim, int) and self.dims.name_of(dim.values):
                self._size_nodes.setdefault(dim.values, AxisOf(node, axis))
        return traced

    # --- the dispatcher's entry ------------------------------------------------------------------------------------
    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """One op of the running model."""
        query = METADATA_QUERIES.get(op)
        if query is not None and isinstance(args[0], Traced):
            return query(self, *args, **kwargs)
        if not isinstance(op, OpOverload):
            raise CaptureError(
                f"{op} is not supported while tracing", source=self._where(), module=self.scopes.current.path or None
            )
        if self._promoted:
            args, kwargs = self._see_promoted(args, kwargs)
        info = traits(op)
        if not self._involves_trace(args, kwargs) and not info.is_random:
            return self._plain(op, info, args, kwargs)
        if op in DATA_QUERIES:
            return self._data_query(op, args, kwargs)
        if info.writes:
            return self._write_op(op, info, args, kwargs)
        if not self.is_primitive(op):
            result = self._decompose(op, args, kwargs)
            if result is not NotImplemented:
                return result
        if op is aten.index.Tensor:
            args = self._masks_as_indices(args)
        return self._record(op, info, args, kwargs)

    def _involves_trace(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, (Traced, *SYMBOLIC)):
                return True
            if isinstance(value, (list, tuple)) and any(isinstance(each, (Traced, *SYMBOLIC)) for each in value):
                return True
        return False

    # --- ops on plain tensors --------------------------------------------------------------------------------------
    def _plain(self, op: OpOverload, info: Traits, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Nothing traced among the arguments: the op just runs, and what it returns is a constant."""
        for position, name in info.writes:
            target = args[position] if position < len(args) else kwargs.get(name)
            targets = target if isinstance(target, (list, tuple)) else [target]
            if any(isinstance(each, torch.Tensor) and not self._may_write(each) for each in targets):
                return self._write_op(op, info, args, kwargs)
        result = op(*args, **kwargs)
        given = {
            _storage(value)
            for value in _leaves((args, tuple(kwargs.values())))
            if isinstance(value, torch.Tensor)
        }
        for value in _leaves(result):
            if isinstance(value, torch.Tensor) and (op is aten.lift_fresh.default or _storage(value) not in given):
                self._born.add(_storage(value))
        return result

    def _may_write(self, tensor: torch.Tensor) -> bool:
        """Only memory that this trace made, and that no recorded constant reads, is written for real."""
        storage = _storage(tensor)
        return storage in self._born and storage not in self._kept

    def _see_promoted(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        def look(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return type(value)([look(each) for each in value])
            return self.promoted(value)

        return tuple(look(value) for value in args), {name: look(value) for name, value in kwargs.items()}

    def promoted(self, value: Any) -> Any:
        """The traced stand-in of a plain tensor whose memory traced data was written to; other values as they are."""
        if not isinstance(value, torch.Tensor) or isinstance(value, Traced) or not self._promoted:
            return value
        base = self._promoted.get(_storage(value))
        return value if base is None else self._promoted_view(base, value)

    def _promote(self, tensor: torch.Tensor) -> Traced:
        """Give plain memory a traced stand-in, so that the caller's own tensor is never written."""
        storage = _storage(tensor)
        base = self._promoted.get(storage)
        if base is None:
            whole = self._state.get(storage, (None, tensor))[1]
            if whole.numel() * whole.element_size() != whole.untyped_storage().nbytes() or not whole.is_contiguous():
                count = tensor.untyped_storage().nbytes() // tensor.element_size()
                whole = tensor.detach().as_strided((count,), (1,), 0)
            node = self._constant_node(whole)
            real = whole.detach().clone()
            base = self._wrap(real, (Layout.of(real),) * (self.probes - 1), ())
            self._own(base, node)
            base.plain = whole  # type: ignore[attr-defined]
            self._promoted[storage] = base
        return self._promoted_view(base, tensor)

    def _promoted_view(self, base: Traced, tensor: torch.Tensor) -> Traced:
        key = _geometry(tensor)
        whole = base.plain  # type: ignore[attr-defined]
        if key == _geometry(whole):
            return base
        view = self._promoted_views.get(key)
        if view is None:
            view = base
            for op, args in as_view_of(whole, tensor):
                view = self._record(op, traits(op), (view, *args), {})
            self._promoted_views[key] = view
        return view

    # --- questions about data --------------------------------------------------------------------------------------
    def _data_query(self, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """`.item()`, `if tensor`: answered from the example, which becomes part of the graph."""
        real, _, _ = self._split(args, kwargs)
        answer = op(*real[0], **real[1])
        self.warn(
            f"a value was read out of a tensor ({DATA_QUERIES[op]}), and the graph keeps the example's answer "
            f"({answer!r}); inputs that would give another answer are computed wrongly",
            hint="use torch.where or torch.cond for a choice, or script the function to keep its loops and branches",
        )
        return answer

    def warn(self, what: str, hint: str) -> None:
        """Warn once per line of the user's code."""
        source = user_source()
        if (what[:40], source) in self._warned:
            return
        self._warned.add((what[:40], source))
        text = f"{source or 'unknown line'}: {what}. To avoid this, {hint}."
        self.warnings.append(text)
        warnings.warn(text, CaptureWarning, stacklevel=2)

    # --- sizes -----------------------------------------------------------------------------------------------------
    def commit(self, size: Size) -> Any:
        """Python wants a plain number."""
        if not size.is_uniform:
            self.freezes.append(
                Freeze(
                    axes=self._axes_of(size),
                    expression=written(size),
                    value=size.values[0],
                    values=size.values,
                    source=user_source(),
                    scope=self.scopes.current.path,
                )
            )
        elif size.is_bool() and not self.inside and isinstance(size.origin, Computed):
            self._note_assumption(size)
        return size.values[0]

    def _axes_of(self, size: Size) -> frozenset[str]:
        if isinstance(size.origin, Computed):
            return frozenset().union(*(self._axes_of(each) for each in size.origin.operands if not each.is_uniform))
        return self.dims.depends_on(size.values)

    def _note_assumption(self, size: Size) -> None:
        """The probes agree on a branch, yet sizes that nobody tried might not: say so."""
        assert isinstance(size.origin, Computed)
        operands = [each for each in size.origin.operands if not each.is_uniform]
        if not operands:
            return
        example = {name: values[0] for name, values in self.dims.axes.items()}
        for axis in sorted(frozenset().union(*(self._axes_of(each) for each in operands))):
            for other in (1, 2, 3, *range(max(1, example[axis] - 1), example[axis])):
                if other >= example[axis]:
                    continue
                sizes = {**example, axis: other}
                values = [each.at(sizes) for each in size.origin.operands]
                if any(value is None for value in values):
                    return
                if size.origin.function(*values) != size.values[0]:
                    self.warn(
                        f"a branch depends on the size of axis {axis!r}: the graph holds where "
                        f"`{written(size)}` is {size.values[0]}, and {axis} = {other} would take the other branch",
                        hint="use torch.cond, or keep to sizes on this side of the branch",
                    )
                    return

    def size_node(self, size: Size) -> Any:
        """The fx node that computes a size; the same fingerprint is computed once."""
        if size.is_uniform:
            return size.values[0]
        key = size.values if size.is_int() else (type(size.values[0]), size.values)
        known = self._size_nodes.get(key)
        if isinstance(known, fx.Node):
            return known
        origin = known or size.origin
        if isinstance(origin, AxisOf):
            node = self.graph.create_node("call_function", aten.sym_size.int, (origin.node, origin.axis))
        elif isinstance(origin, Computed):
            operands = tuple(self.size_node(each) for each in origin.operands)
            node = self.graph.create_node("call_function", origin.function, operands)
        else:
            raise CaptureError(
                f"the model computes with a number that has no form in the graph ({written(size)}: {size.values[0]})",
                source=self._where(),
                module=self.scopes.current.path or None,
                hint="strides and storage offsets cannot be exported where they depend on a dynamic axis",
            )
        node.meta.update(val=SizeFact(size.values), scope=self.scopes.current, source=user_source())
        self._size_nodes[key] = node
        return node

    def symbol(self, values: tuple[Any, ...], origin: AxisOf | Computed | None) -> Any:
        return symbol(Size(self, values, origin))

    # --- writes ----------------------------------------------------------------------------------------------------
    def _write_op(self, op: OpOverload, info: Traits, args: tuple, kwargs: dict[str, Any]) -> Any:
        """`add_`, `copy_`, `out=`: compute functionally, then put the result where the write goes."""
        targets = []
        for position, name in info.writes:
            target = args[position] if position < len(args) else kwargs.get(name)
            if isinstance(target, torch.Tensor) and not isinstance(target, Traced):
                target = self._promote(target)
                if position < len(args):
                    args = (*args[:position], target, *args[position + 1 :])
                else:
                    kwargs = {**kwargs, name: target}
            if not isinstance(target, Traced):
                raise self._cannot(f"{info.name} writes to a list of tensors, which tracing does not follow", op)
            targets.append(target)
        if info.functional is None:
            raise self._cannot(f"{info.name} changes a tensor in place and has no functional form", op)
        if info.is_out:
            kwargs = {name: value for name, value in kwargs.items() if name not in {n for _, n in info.writes}}
        results = self.dispatch(info.functional, args, kwargs)
        if len(targets) == 1:
            results = (results,)
        for target, result in zip(targets, results, strict=True):
            self._write(target, result, op)
        return targets[0] if len(targets) == 1 else tuple(targets)

    def _write(self, target: Traced, result: Any, op: OpOverload) -> None:
        """Make `result` the new content of `target`, and of everything that shares its memory."""
        if not isinstance(result, Traced):
            result = self._lift(result)
        if result.fact.shape != target.fact.shape:
            raise self._cannot(
                f"{op} would resize its target from {_shape(target.fact)} to {_shape(result.fact)}", op
            )
        if result.fact.dtype != target.fact.dtype:
            result = self.dispatch(aten.to.dtype, (result, target.fact.dtype), {})
        chain = [target]
        while chain[-1].parent is not None:
            chain.append(chain[-1].parent)
        old = [self.node_of(each) for each in chain]
        new = self.node_of(result)
        if target.cell.shared or target.example.stride() != result.example.stride():
            target.example.copy_(result.example)
        else:
            target.example = result.example if not result.cell.shared else result.example.clone()
            result.cell.shared = True
        target.cell.version += 1
        for each, parent, parent_node in zip(chain, [*chain[1:], None], [*old[1:], None], strict=True):
            each.node, each.version = new, target.cell.version
            if parent is None:
                break
            assert each.step is not None and parent_node is not None
            back = put_back(each.step, parent.fact, each.fact)
            if back is None:
                raise self._cannot(f"a write through {each.step.op} cannot be expressed", op)
            args = tuple(parent_node if value is PARENT else value for value in back.args)
            head = (parent_node, new) if back.takes_parent else (new,)
            new = self._node(back.op, (*head, *args), back.kwargs, parent.fact)

    def node_of(self, tensor: Traced) -> fx.Node:
        """The node that computes a tensor's present content."""
        if tensor.version != tensor.cell.version:
            assert tensor.parent is not None and tensor.step is not None
            step = tensor.step
            node = self._node(step.op, (self.node_of(tensor.parent), *step.args), step.kwargs, tensor.fact)
            if step.index is not None:
                node.meta["val"] = {step.index: tensor.fact}
                node = self._node(operator.getitem, (node, step.index), {}, tensor.fact)
            tensor.node, tensor.version = node, tensor.cell.version
        return tensor.node

    # --- recording -------------------------------------------------------------------------------------------------
    def _decompose(self, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run what PyTorch says the op is made of."""
        self.inside += 1
        try:
            with self.mode_again():
                result = op.decompose(*args, **kwargs)
                if result is NotImplemented:
                    rule = torch._decomp.decomposition_table.get(op)
                    if rule is None:
                        return NotImplemented
                    result = rule(*args, **kwargs)
            return result
        finally:
            self.inside -= 1

    def mode_again(self) -> Any:
        """The mode that brings ops to this tracer; a session sets it, and decompositions run under it."""
        raise AssertionError("a Tracer records only inside a session")

    def _masks_as_indices(self, args: tuple) -> tuple:
        """`x[mask]` is `x[mask.nonzero().unbind(1)]`: only nonzero has a size that depends on data."""
        indices: list[Any] = []
        for index in args[1]:
            if isinstance(index, Traced) and index.fact.dtype in (torch.bool, torch.uint8):
                positions = self.dispatch(aten.nonzero.default, (index,), {})
                for axis in range(index.fact.rank):
                    indices.append(self.dispatch(aten.select.int, (positions, 1, axis), {}))
            else:
                indices.append(index)
        return (args[0], indices, *args[2:])

    def _record(self, op: OpOverload, info: Traits, args: tuple, kwargs: dict[str, Any]) -> Any:
        (real_args, real_kwargs), (node_args, node_kwargs), traced = self._split(args, kwargs)
        if op in _HIDDEN_WRITES:
            real_args = _protect(op, real_args)
        out = op(*real_args, **real_kwargs)
        if isinstance(out, torch.Tensor) and traced and out is traced[0].example:
            same = self._unchanged(op, args, kwargs, traced[0])
            if same is not None:
                return same
        layouts = self._probe(op, args, kwargs, out)
        node = self.graph.create_node("call_function", op, node_args, node_kwargs)
        node.meta["scope"] = self.scopes.current
        node.meta["source"] = user_source()
        parent = args[0] if args and isinstance(args[0], Traced) else None
        step = (op, tuple(node_args[1:]), node_kwargs)
        made_from = [dim for each in traced for dim in each.fact.shape]
        if isinstance(out, torch.Tensor):
            result = self._wrap(self._unaliased(out, args), layouts, made_from)
            node.meta["val"] = result.fact
            self._own(result, node, parent, ViewStep(*step, None))
            return result
        if not isinstance(out, (tuple, list)):
            node.meta["val"] = out
            return out
        results: list[Any] = []
        for index, each in enumerate(out):
            if not isinstance(each, torch.Tensor):
                results.append(each)
                continue
            result = self._wrap(self._unaliased(each, args), tuple(layout[index] for layout in layouts), made_from)
            getitem = self._node(operator.getitem, (node, index), {}, result.fact)
            self._own(result, getitem, parent, ViewStep(*step, index))
            results.append(result)
        node.meta["val"] = tuple(each.fact if isinstance(each, Traced) else None for each in results)
        return type(out)(results)

    def _unchanged(self, op: OpOverload, args: tuple, kwargs: dict[str, Any], tensor: Traced) -> Traced | None:
        """The op gave back its very argument (dropout in eval, contiguous, to the same dtype): nothing to record."""
        layouts = self._probe(op, args, kwargs, tensor.example)
        return tensor if all(a.size == b.size for a, b in zip(layouts, tensor.layouts, strict=True)) else None

    def _probe(self, op: OpOverload, args: tuple, kwargs: dict[str, Any], out: Any) -> tuple[Any, ...]:
        """What the other probes' results look like."""
        if op in _DATA_SIZED:
            return self._data_sized(op, out)
        if not self._is_dynamic((*args, *kwargs.values())):
            layout = _layout_of(out)
            return (layout,) * (self.probes - 1)
        calls = [
            ([_at_probe(value, probe) for value in args], {name: _at_probe(v, probe) for name, v in kwargs.items()})
            for probe in range(self.probes)
        ]
        results = self.kernels.shortcut(op, calls, out)
        if results is not None:
            return tuple(results)
        results = []
        for at_args, at_kwargs in calls[1:]:
            try:
                result = self.kernels.run(op, tuple(at_args), at_kwargs)
            except ProbeFailure as failure:
                raise ProbeRejected(str(op), user_source(), self.scopes.current.path, str(failure)) from failure
            self._same_structure(op, out, result)
            results.append(result)
        return tuple(results)

    def _same_structure(self, op: OpOverload, out: Any, layout: Any) -> None:
        if isinstance(out, torch.Tensor):
            ranks = out.dim(), len(layout.size)
            if ranks[0] != ranks[1]:
                reason = f"its result has {ranks[0]} axes at the example's sizes and {ranks[1]} at others"
                raise ProbeRejected(str(op), user_source(), self.scopes.current.path, reason)
        elif isinstance(out, (tuple, list)):
            if len(out) != len(layout):
                reason = f"it returns {len(out)} tensors at the example's sizes and {len(layout)} at others"
                raise ProbeRejected(str(op), user_source(), self.scopes.current.path, reason)
            for each, other in zip(out, layout, strict=True):
                self._same_structure(op, each, other)

    def _data_sized(self, op: OpOverload, out: torch.Tensor) -> tuple[Layout, ...]:
        axis = _DATA_SIZED[op]
        self._fresh += 1
        sizes = tuple(1009 + 97 * self._fresh + 211 * probe * probe for probe in range(1, self.probes))
        stem = op._schema.name.split("::")[1]
        self.dims.fresh((out.size(axis), *sizes), f"{stem}_{self._fresh}")
        layouts = []
        for size in sizes:
            shape = list(out.size())
            shape[axis] = size
            layouts.append(Layout.of(torch.empty(shape, dtype=out.dtype, device="meta")))
        return tuple(layouts)

    def _is_dynamic(self, values: tuple | list) -> bool:
        for value in values:
            if isinstance(value, Traced):
                if not value.fact.is_static:
                    return True
            elif isinstance(value, SYMBOLIC) or (isinstance(value, (list, tuple)) and self._is_dynamic(value)):
                return True
        return False

    def _split(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any, list[Traced]]:
        """The arguments as the example has them and as fx has them, and the traced tensors among them."""
        traced: list[Traced] = []

        def both(value: Any) -> tuple[Any, Any]:
            if isinstance(value, Traced):
                traced.append(value)
                return value.example, self.node_of(value)
            if isinstance(value, torch.Tensor):
                return value, self._constant_node(value)
            if isinstance(value, (list, tuple)):
                pairs = [both(each) for each in value]
                return [real for real, _ in pairs], [node for _, node in pairs]
            if isinstance(value, SYMBOLIC):
                return value.node.values[0], self.size_node(value.node)
            return value, value

        pairs = [both(value) for value in args]
        named = {name: both(value) for name, value in kwargs.items()}
        real = tuple(each[0] for each in pairs), {name: each[0] for name, each in named.items()}
        nodes = tuple(each[1] for each in pairs), {name: each[1] for name, each in named.items()}
        return real, nodes, traced

    def _wrap(self, real: torch.Tensor, layouts: tuple[Layout, ...], made_from: Sequence[Dim]) -> Traced:
        sizes = zip(real.size(), *(layout.size for layout in layouts), strict=True)
        fact = TensorFact(real.dtype, tuple(self.dims.dim(values, made_from) for values in sizes))
        return Traced(real, layouts, fact, self)

    def _own(self, tensor: Traced, node: fx.Node, parent: Traced | None = None, step: ViewStep | None = None) -> None:
        """Connect a new tensor with its node and with the memory it lives in."""
        tensor.node = node
        node.meta.setdefault("val", tensor.fact)
        if parent is not None and _storage(tensor.example) == _storage(parent.example):
            tensor.parent, tensor.step, tensor.cell = parent, step, parent.cell
            parent.cell.shared = True
        else:
            tensor.cell = Cell()
        tensor.version = tensor.cell.version

    def _unaliased(self, out: torch.Tensor, args: tuple) -> torch.Tensor:
        """A result that lives in a constant's memory is copied, so that a write to it does not reach the constant."""
        storage = _storage(out)
        for value in _leaves(args):
            if isinstance(value, torch.Tensor) and not isinstance(value, Traced) and _storage(value) == storage:
                return out.clone()
        return out

    def _node(self, target: Any, args: tuple, kwargs: dict[str, Any], fact: Any) -> fx.Node:
        node = self.graph.create_node("call_function", target, args, kwargs)
        node.meta.update(val=fact, scope=self.scopes.current, source=user_source())
        return node

    def _lift(self, value: Any) -> Traced:
        """A traced tensor for a constant."""
        tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
        lifted = self._wrap(tensor, (Layout.of(tensor),) * (self.probes - 1), ())
        self._own(lifted, self._constant_node(tensor))
        lifted.cell.shared = True
        return lifted

    def _constant_node(self, tensor: torch.Tensor) -> fx.Node:
        key = _geometry(tensor)
        node = self._constant_nodes.get(key)
        if node is None:
            named = self._state.get(key)
            name, kind = named if named else (f"constant_{len(self.constants)}", "constant")
            node = self.graph.create_node("get_attr", name, (), {}, name.replace(".", "_"))
            node.meta.update(
                val=TensorFact(tensor.dtype, tuple(tensor.size())), scope=self.scopes.current, source=None
            )
            self.constants[name] = Constant(name, tensor.detach(), kind)
            self._constant_nodes[key] = node
            self._kept.add(_storage(tensor))
        return node

    # --- the result ------------------------------------------------------------------------------------------------
    def output_node(self, value: Any) -> tuple[fx.Node, TensorFact, torch.Tensor]:
        """A model's output: its node, what is known of it, and the example's answer."""
        value = self.promoted(value)
        if isinstance(value, SYMBOLIC):
            value = self.dispatch(aten.scalar_tensor.default, (value,), {"dtype": _number_dtype(value)})
        if not isinstance(value, Traced):
            value = self._lift(value)
        return self.node_of(value), value.fact, value.example

    def _where(self) -> str | None:
        source = user_source()
        return str(source) if source else None

    def _cannot(self, what: str, op: OpOverload) -> CaptureError:
        return CaptureError(what, op=str(op), source=self._where(), module=self.scopes.current.path or None)


def _state_of(model: torch.nn.Module | None) -> dict[Any, tuple[Any, Any]]:
    """Parameters and buffers by memory: {geometry: (name, kind)} and {storage: (name, tensor)}."""
    state: dict[Any, tuple[Any, Any]] = {}
    if model is not None:
        for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
            for name, tensor in named:
                state.setdefault(_geometry(tensor), (name, kind))
                state.setdefault(_storage(tensor), (name, tensor))
    return state


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _geometry(tensor: torch.Tensor) -> tuple:
    return (
        tensor.untyped_storage()._cdata,
        tensor.storage_offset(),
        tuple(tensor.size()),
        tensor.stride(),
        tensor.dtype,
    )


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]


def _layout_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return Layout.of(value)
    return [_layout_of(each) for each in value] if isinstance(value, (list, tuple)) else value


def _at_probe(value: Any, probe: int) -> Any:
    if isinstance(value, Traced):
        return value.layouts[probe - 1] if probe else Layout.of(value.example)
    if isinstance(value, torch.Tensor):
        return Layout.of(value)
    if isinstance(value, SYMBOLIC):
        return value.node.values[probe]
    if isinstance(value, (list, tuple)):
        return [_at_probe(each, probe) for each in value]
    return value


def _protect(op: OpOverload, real_args: tuple) -> tuple:
    """Copies of running statistics, where the op would update them."""
    positions, flag = _HIDDEN_WRITES[op]
    if not real_args[flag]:
        return real_args
    return tuple(
        value.clone() if index in positions and value is not None else value for index, value in enumerate(real_args)
    )


def _number_dtype(value: Any) -> torch.dtype:
    if isinstance(value, torch.SymBool):
        return torch.bool
    return torch.float32 if isinstance(value, torch.SymFloat) else torch.int64


def _shape(fact: TensorFact) -> str:
    return f"[{', '.join(map(str, fact.shape))}]"
