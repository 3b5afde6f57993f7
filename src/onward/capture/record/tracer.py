"""Follow a model: every op that touches a traced tensor runs on all probes in step and is recorded once."""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

from ...errors import CaptureError
from ..bodies.higher_order import HIGHER_ORDER
from ..bodies.levels import Level, import_node, known_size
from ..bodies.made_up import made_up
from ..bodies.traced_list import TracedList, TracedNumbers
from ..call.weights import Weights, is_made_of_weights
from ..decisions.decisions import Decisions
from ..decisions.journal import CannotThaw, Comparison, Journal
from ..decompose.algorithms import algorithm_for
from ..decompose.by_size import rewritten
from ..decompose.decompositions import own_rule
from ..decompose.foreach import foreach, is_foreach
from ..decompose.linalg import refer
from ..decompose.packed import Packings
from ..ground.axes import AxisSpace, Formula
from ..ground.memory import leaves, storage
from ..ground.size_checks import check_sizes
from ..ground.source import ScopeStack, user_source
from ..ground.traits import draws, traits
from ..memory.aliasing import MIRRORED, Cell, ViewStep, resolves
from ..memory.op_calls import conjugating, is_hidden_view, is_made_of_others, protect
from ..memory.plain import PlainTensors
from ..memory.tensor import Traced
from ..memory.writes import IN_PLACE_VIEWS, Writes
from ..program.facts import STORED, Dim, ListFact, Output, SizeFact, Source, TensorFact, is_complex
from ..sizes.arithmetic import is_astray
from ..sizes.data_sizes import Freedom, is_data_long
from ..sizes.dims import DimTable
from ..sizes.layouts import COPIES_IF_IT_MUST, Layout, LayoutKernels, is_view_elsewhere
from ..sizes.queries import ASKS_SIZES, DATA_QUERIES, METADATA_QUERIES, NUMBER_QUERIES
from ..sizes.size_tensors import SizeTensors
from ..sizes.sizes import SYMBOLIC, AxisOf, Computed, NumberOf, Origin, Size, number_dtype, size_lines, symbol, written
from ..state.state_changes import Change
from .elsewhere import Elsewhere, ProbeRejected

if TYPE_CHECKING:
    from ..explore.recorder import Recorder

aten = torch.ops.aten


# Ops that update running statistics without saying so in their schema: positions of these, of the training flag.
_HIDDEN_WRITES = {aten.batch_norm.default: ((3, 4), 5), aten.instance_norm.default: ((3, 4), 5)}


# PyTorch calls them for tensors of some kinds and not for others: runs are not compared by them.
_UNNOTICED = frozenset({aten.detach.default, aten.alias.default, aten.lift_fresh.default})


class Tracer:
    """One run of a model. `is_primitive(op, of_complex)` says whether lowering takes an op as it is, where complex
    numbers are among its arguments and where not; others are decomposed."""

    def __init__(
        self,
        axes: dict[str, tuple[int, ...]],
        probes: int,
        *,
        model: torch.nn.Module | None,
        model_name: str,
        is_primitive: Callable[[Any, bool], bool],
        kernels: LayoutKernels | None = None,
        weights: Weights | None = None,
        space: AxisSpace | None = None,
        freedom: Freedom | None = None,
        points: Sequence[Mapping[str, int]] = (),
    ) -> None:
        self.levels = [Level(fx.Graph())]  # the program, then the bodies of control flow that are being traced
        self.nested = False  # whether there was any body
        self.has_vectors = False  # eigenvectors or singular vectors, whose signs are a matter of choice
        self.probes = probes
        axes = {name: (*values, *(each[name] for each in points)) for name, values in axes.items()}
        self.space = space or AxisSpace()
        following = {name: _at_probes(each, axes) for name, each in self.space.formulas.items()}
        self.dims = DimTable(axes, following, probes=probes, width=probes + len(points))
        self.scopes = ScopeStack(model, model_name)
        self.is_primitive = is_primitive
        self.elsewhere = Elsewhere(self, kernels or LayoutKernels(), freedom or Freedom())
        self.decisions = Decisions(self.dims, self.scopes, self.space)
        self.plain = PlainTensors(self, weights or Weights())
        self.size_tensors = SizeTensors(self)
        self.writes = Writes(self)
        self.packings = Packings(self)
        self.pen: Journal | Comparison | None = None
        self.recorder: Recorder | None = None  # of a run that is explored
        self.untaken = (
            0  # how many sides of branches are being traced, inside of each other, that are not the example's
        )
        self.script_attributes: dict[tuple[Any, str], Any] = {}  # what scripts read from their modules, or assigned
        self.sizes_as_numbers = False  # `x.shape` holds plain numbers: see numbers_of_sizes.py
        self.draws_numbers = False  # whether an op is random
        self.wants_gradients = False  # whether the model asked for gradients inside of itself
        self.thread = threading.get_ident()  # in others, its tensors are the example's
        self.moved: set[str] = set()  # generators of Python's or numpy's that the model drew from
        self.changes: dict[tuple[int, Any], Change] = {}  # plain values that the model replaced
        self.asked: dict[str, Source] = {}  # clocks, and random numbers of the operating system, and who asked
        self.copies_into_lists = False  # whether tensors went into lists that hold copies of them
        self._aside = False  # ops are ours, on plain tensors, and concern nobody
        self._depth = 0  # inside an op of the model, ours are not the model's
        self._written_at = 0  # the depth at which ops go into the journal: the model's, or those an op is made of
        self._within: list[OpOverload] = []  # ops that are being decomposed, outermost first

    @property
    def graph(self) -> fx.Graph:
        """The graph that is being written: the program's, or that of the innermost body."""
        return self.levels[-1].graph

    def create(self, target: Any, args: tuple, kwargs: dict[str, Any] | None = None) -> fx.Node:
        """A node of the present graph. What it reads from outside comes in through a placeholder."""
        if self.nested:
            args, kwargs = fx.map_arg((args, kwargs or {}), self.here)
        return self.graph.create_node("call_function", target, args, kwargs or {}, _node_name(target))

    def here(self, node: fx.Node) -> fx.Node:
        """A node of an outer graph, as the present one has it."""
        return import_node(self.levels, node)

    # --- inputs ----------------------------------------------------------------------------------------------------
    def input(self, name: str, real: torch.Tensor, layouts: Sequence[Layout]) -> Traced:
        """A graph input: the example's tensor (a copy of the caller's) and its other sizes."""
        node = self.graph.create_node("placeholder", name, (), {}, name)
        traced = self.wrap(real, tuple(layouts))
        self.own(traced, node)
        for axis, dim in enumerate(traced.fact.shape):
            if not isinstance(dim, int) and self.dims.name_of(dim.values):
                self.levels[-1].sizes.setdefault(self.dims.key(dim.values), AxisOf(node, axis))
        return traced

    # --- the dispatcher's entry ------------------------------------------------------------------------------------
    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """One op of the running model."""
        if self._aside:
            return op(*args, **kwargs)
        query = METADATA_QUERIES.get(op)
        if query is not None and isinstance(args[0], Traced):
            if self.recorder is not None:
                self.recorder.asked(args[0])
            return query(self, *args, **kwargs)
        if self.recorder is not None and not self._depth:
            if op not in DATA_QUERIES:
                return self.recorder.follow(op, args, kwargs, lambda: self._enter(op, args, kwargs))
            self.recorder.question = args[:1]
        return self._enter(op, args, kwargs)

    def _enter(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if isinstance(op, HigherOrderOperator) and op.name() in HIGHER_ORDER:
            return HIGHER_ORDER[op.name()](self, *args, **kwargs)
        if not isinstance(op, OpOverload):
            raise CaptureError(
                f"{op} is not supported while tracing", source=self.where(), module=self.scopes.current.path or None
            )
        if self.pen is not None and self._depth == self._written_at and op not in _UNNOTICED:
            args, kwargs = self.pen.enter(self, op, args, kwargs)
        self._depth += 1
        try:
            return self._follow(op, args, kwargs)
        except Exception as error:
            self.elsewhere.failed(op, args, kwargs, error)
            raise
        finally:
            self._depth -= 1

    def _follow(self, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        if op in IN_PLACE_VIEWS and not isinstance(args[0], Traced):
            return self.writes.view_plain(op, args, kwargs)
        if is_foreach(op):
            with self.mode_again():
                return foreach(op, args, kwargs)
        args = self.plain.stand_in(args)
        kwargs = {name: self.plain.stand_in(value) for name, value in kwargs.items()}
        info = traits(op)
        is_random = draws(op, args, kwargs)
        self.draws_numbers |= is_random
        if not self._involves_trace(args, kwargs) and not is_random:
            if self.plain.may_write(info, args, kwargs):
                made = self.plain.run(op, args, kwargs)
                return self.plain.lift(made) if op is aten.empty.memory_format and not made.numel() else made
            return self.writes.run(op, info, args, kwargs)
        if op in DATA_QUERIES:
            return self._data_query(op, args, kwargs)
        if info.writes:
            return self.writes.run(op, info, args, kwargs)
        result = rewritten(self, op, args, kwargs)
        if result is not NotImplemented:
            return result
        if info.is_view and isinstance(args[0], torch.Tensor) and not isinstance(args[0], Traced):
            args = (self.plain.borrow(args[0]), *args[1:])  # a view at a dynamic place: a write to it must be seen
        if info.hides_views or not self.is_primitive(op, is_complex(args) or is_complex(kwargs)):
            result = self._decompose(op, args, kwargs)
            if op is aten.sum_to_size.default and isinstance(result, Traced):
                self.writes.note_copy(args[0], result, ViewStep(op, args[1:], kwargs, None))
            if result is not NotImplemented:
                return result
        if resolves(op, args[0] if args else None):
            op = aten.clone.default
        if op is aten.index.Tensor:
            args = self._masks_as_indices(args)
        elif op is aten.as_strided.default:
            args = self.writes.from_base(args, kwargs)
        result = self.record(op, args, kwargs)
        if is_hidden_view(result, (*args, *kwargs.values())):  # its node is read by nobody
            result = self._decompose(op, args, kwargs)
            if result is NotImplemented:
                raise self.cannot(f"{op} returns a view of an argument, and nobody says which", op, "take a clone()")
        return result

    def _involves_trace(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, (Traced, *SYMBOLIC)):
                return True
            if isinstance(value, (list, tuple)) and any(isinstance(each, (Traced, *SYMBOLIC)) for each in value):
                return True
        return False

    # --- questions about data --------------------------------------------------------------------------------------
    def _data_query(self, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """`.item()` is a number that depends on data. `if tensor` is answered from the example, which becomes part of
        the graph."""
        real, nodes, _ = self._split(args, kwargs)
        answer = op(*real[0], **real[1])
        if is_made_of_weights(nodes[0][0]):
            self.plain.note_read(op, nodes[0][0], DATA_QUERIES[op], answer)
            return answer
        is_number = op in NUMBER_QUERIES and isinstance(answer, (bool, int, float))
        of_sizes = self.size_tensors.answer(op, nodes, answer, is_number=is_number)
        asking = self.recorder if op is aten.is_nonzero.default else None
        if of_sizes is not None and (asking is None or not asking.asks_of_sizes()):
            return of_sizes
        if is_number and self.elsewhere.data_sizes.gives_number():
            if self.recorder is None or self.recorder.is_off:
                return self.number(self.create(aten.item.default, nodes[0]), answer)
            answer = self.recorder.read(answer)
            made = functools.partial(self.number, self.create(aten.item.default, nodes[0]), answer)
            return self.recorder.follow(aten.item.default, self.recorder.question, {}, made)
        if self.recorder is not None and not self.recorder.is_off and op is aten.is_nonzero.default:
            return self.recorder.decide(self.recorder.question[0], answer, "the value of a tensor")
        self.decisions.value_read(DATA_QUERIES[op], answer)
        return answer

    def number(self, node: fx.Node, example: Any) -> Any:
        """A number that depends on data, as the node computes it: fresh ones stand for it at the other probes."""
        values = (example,) * self.dims.width
        tensor = node.args[0]
        if type(example) is not bool and isinstance(tensor, fx.Node):
            values = (example, *self.elsewhere.data_sizes.number_in(tensor, example))
        node.meta.update(val=SizeFact(values), scope=self.scopes.current, source=user_source())
        return symbol(Size(self, values, NumberOf(node)))

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Ops on real tensors inside are not the model's."""
        before, self._aside = self._aside, True
        try:
            yield
        finally:
            self._aside = before

    @contextlib.contextmanager
    def within_an_op(self) -> Iterator[None]:
        """Ops inside are parts of one of the model's, and not entered in a journal one by one."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    # --- sizes -----------------------------------------------------------------------------------------------------
    def size_node(self, size: Size) -> Any:
        """The fx node that computes a size, the same expression once.

        Sizes of tensors are known by their fingerprint. Computed ones are not: few values make poor fingerprints, and
        `height % 2` may well agree with `width % 2` on all probes.
        """
        if self.decisions.is_settled(size):
            return size.values[0]
        origin = size.origin
        if isinstance(origin, Computed) and not (size.is_int() and self.dims.name_of(size.values)):
            operands = tuple(self.size_node(each) for each in origin.operands)
            key: Any = (origin.function, tuple((type(each), each) for each in operands))
        else:
            key = self.dims.key(size.values)
        if isinstance(origin, NumberOf):
            return self.here(origin.node)
        known = known_size(self.levels, key)
        if isinstance(known, fx.Node):
            return self.here(known)
        origin = known or origin
        level = self.levels[-1]
        if isinstance(origin, AxisOf):
            level = next(level for level in reversed(self.levels) if level.graph is origin.node.graph)
            node = level.graph.create_node("call_function", aten.sym_size.int, (origin.node, origin.axis))
        elif isinstance(origin, Computed):
            operands = tuple(self.size_node(each) for each in origin.operands)
            node = self.create(origin.function, operands)
        else:
            raise CaptureError(
                f"the model computes with a number that has no form in the graph ({written(size)}: {size.values[0]})",
                source=self.where(),
                module=self.scopes.current.path or None,
                hint="strides and storage offsets cannot be exported where they depend on a dynamic axis",
            )
        node.meta.update(val=SizeFact(size.values), scope=self.scopes.current, source=user_source())
        level.sizes[key] = node
        return self.here(node)

    def axis_sizes(self) -> dict[str, Size]:
        """The dynamic axes of the inputs, as sizes."""
        found = {}
        for name, values in self.dims.input_axes.items():
            origin = self.levels[0].sizes.get(self.dims.key(values))
            if isinstance(origin, fx.Node):
                origin = AxisOf(*origin.args)  # type: ignore[arg-type]
            if origin is not None:
                found[name] = Size(self, values, origin)
        return found

    def symbol(self, values: tuple[Any, ...], origin: Origin | None) -> Any:
        return symbol(Size(self, values, origin))

    # --- writes ----------------------------------------------------------------------------------------------------
    def write(self, target: Traced, result: Any, op: str) -> None:
        """Make `result` the new content of `target`, and of everything that shares its memory."""
        self.writes.write(target, result, op)

    def node_of(self, tensor: Traced) -> fx.Node:
        """The node that computes a tensor's present content."""
        if tensor.cell.doubt:
            raise self.cannot(
                "the model reads a tensor that is the same memory as another one on one side of a branch only, or for "
                f"some numbers of turns of a loop, and that other one was written to ({tensor.cell.doubt})",
                "branch",
                "return a copy from the branch or the loop (x.clone()), or write before it",
            )
        if tensor.version != tensor.cell.version:
            assert tensor.parent is not None and tensor.step is not None
            self.levels[-1].remember(tensor)
            node = self.writes.view_again(tensor, tensor.parent, self.node_of(tensor.parent))
            tensor.node, tensor.version = node, tensor.cell.version
        if tensor.node.graph is not self.graph:
            for level in self.levels[1:]:  # every body between takes it from outside too
                level.examples[tensor.node] = tensor.example
        return tensor.node

    # --- recording -------------------------------------------------------------------------------------------------
    def _decompose(self, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run what the op is made of, by our own table or by PyTorch's; NotImplemented if nobody says, or wrongly.

        A decomposition of PyTorch's that fails leaves the op as it is, to be reported as missing by its own name.
        """
        self._within.append(op)
        try:
            algorithm = algorithm_for(op, args)
            if algorithm is not None:
                with self.model_again():
                    result = algorithm(self, *args, **kwargs)
                if result is not NotImplemented:
                    refer(op, args, kwargs, result)
                    return result
            return self._decompose_by_pytorch(op, args, kwargs)
        finally:
            self._within.pop()

    def _decompose_by_pytorch(self, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """C++ code may ask for sizes as plain numbers, and compute with them: its ops go into the journal as well. Not
        so where only views are taken, which a run of plain tensors does not take one by one."""
        outer = self._written_at
        if self._depth == outer + 1 and not traits(op).hides_views:  # the op itself is in the journal
            self._written_at = self._depth
        try:
            with self.mode_again():
                own = own_rule(op)
                result = op.decompose(*args, **kwargs) if own is None else own(*args, **kwargs)
                rule = torch._decomp.decomposition_table.get(op) if result is NotImplemented else None
                return result if rule is None else rule(*args, **kwargs)
        except (ProbeRejected, CannotThaw, KeyboardInterrupt):
            raise
        except Exception:  # PyTorch's rule failed, not the model: the op is recorded whole
            return NotImplemented
        finally:
            self._written_at = outer

    def mode_again(self) -> Any:
        """The mode that brings ops to this tracer; a session sets it, and decompositions run under it."""
        raise AssertionError("a Tracer records only inside a session")

    def model_again(self) -> Any:
        """The same for code of the model's own, which PyTorch calls where both modes are out of action."""
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

    def record(
        self, op: OpOverload, args: tuple, kwargs: dict[str, Any], layouts: tuple[Any, ...] | None = None
    ) -> Any:
        """Run an op on the example and write it down; `layouts` are its results at the other probes, if known."""
        if op in ASKS_SIZES and isinstance(args[0], Traced):
            ASKS_SIZES[op](self, *args)
        (real_args, real_kwargs), (node_args, node_kwargs), traced = self._split(args, kwargs)
        if op in _HIDDEN_WRITES and real_args[_HIDDEN_WRITES[op][1]]:
            positions, _ = _HIDDEN_WRITES[op]
            self.plain.note_update([node_args[place] for place in positions])
            real_args = protect(real_args, positions)
            if any(self.plain.is_adopted(args[place]) for place in positions):
                self.writes.update_statistics(op, args)
        check_sizes(op, real_args, real_kwargs)  # the example may be one that was made larger
        with conjugating() if is_made_of_others(op) else contextlib.nullcontext():
            out = self._computed(op, real_args, real_kwargs)
        if isinstance(out, torch.Tensor) and (out.is_conj() or out.is_neg()):
            out = out.resolve_conj().resolve_neg()  # PyTorch cannot see these bits on a traced tensor
        if isinstance(out, torch.Tensor) and traced and out is traced[0].example:
            same = self._unchanged(op, args, kwargs, traced[0])
            if same is not None:
                return same
            out = out.clone(memory_format=torch.contiguous_format)  # as at other sizes
        dims = None
        if layouts is None:
            layouts, dims = self.elsewhere.results(op, args, kwargs, node_args, out)
        if op in COPIES_IF_IT_MUST and isinstance(args[0], Traced) and not is_view_elsewhere(args[0], layouts):
            out = out.clone(memory_format=torch.contiguous_format)
        node = self.create(op, node_args, node_kwargs)
        node.meta.update(scope=self.scopes.current, call=self.scopes.call, source=user_source())
        if self._within:
            node.meta["within"] = self._within[0]
        parent = args[0] if args and isinstance(args[0], Traced) else None
        step = (op, tuple(node_args[1:]), node_kwargs)
        made_from = [dim for each in traced for dim in each.fact.shape]
        given = [each.node for each in leaves((args, tuple(kwargs.values()))) if isinstance(each, SYMBOLIC)]
        lines = frozenset[Any]().union(*map(size_lines, given))
        if isinstance(out, torch.Tensor):
            result = self.wrap(self._unaliased(out, args), layouts, made_from, lines, dims[0] if dims else None)
            node.meta["val"] = result.fact
            self.own(result, node, parent, ViewStep(*step, None))
            if parent is not None and (op in COPIES_IF_IT_MUST or op is aten.contiguous.default):
                self.writes.note_copy(parent, result, ViewStep(*step, None))
            return result
        if not isinstance(out, (tuple, list)):
            node.meta["val"] = out
            return out
        results: list[Any] = []
        for index, each in enumerate(out):
            if not isinstance(each, torch.Tensor):
                if isinstance(each, (list, tuple)):  # its tensors would be taken for constants
                    raise self.cannot(f"{op} returns a list among other results, which cannot be followed", op)
                results.append(each)
                continue
            at_others = tuple(layout[index] for layout in layouts)
            result = self.wrap(self._unaliased(each, args), at_others, made_from, lines, dims[index] if dims else None)
            getitem = self.make(operator.getitem, (node, index), {}, result.fact)
            self.own(result, getitem, parent, ViewStep(*step, index))
            results.append(result)
        node.meta["val"] = tuple(each.fact if isinstance(each, Traced) else None for each in results)
        return type(out)(results)

    def _computed(self, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The example's result. On a way that the example does not take, data may not fit, and is made up."""
        try:
            result = op(*args, **kwargs)
            return self.recorder.rows(result) if self.recorder is not None and is_data_long(op) else result
        except Exception:
            if not is_astray(self):
                raise
            return made_up(op, args, kwargs)

    def _unchanged(self, op: OpOverload, args: tuple, kwargs: dict[str, Any], tensor: Traced) -> Traced | None:
        """The op gave back its very argument (dropout in eval, contiguous, to the same dtype): nothing to record.

        Unless other sizes are copied: an example with axes of size 1 may be contiguous by chance.
        """
        layouts = self.elsewhere.probe(op, args, kwargs, tensor.example)
        matters = slice(None) if op is aten.contiguous.default else slice(1)  # size and stride, or size alone
        same = all(a[matters] == b[matters] for a, b in zip(layouts, tensor.layouts, strict=True))
        return tensor if same else None

    def _split(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any, list[Traced]]:
        """The arguments as the example has them and as fx has them, and the traced tensors among them."""
        traced: list[Traced] = []
        pairs = [self._both(value, traced) for value in args]
        named = {name: self._both(value, traced) for name, value in kwargs.items()}
        real = tuple(each[0] for each in pairs), {name: each[0] for name, each in named.items()}
        nodes = tuple(each[1] for each in pairs), {name: each[1] for name, each in named.items()}
        return real, nodes, traced

    def _both(self, value: Any, traced: list[Traced]) -> tuple[Any, Any]:
        """One argument in both forms. (A function inside of `_split` that calls itself would keep tensors alive.)"""
        if isinstance(value, Traced):
            traced.append(value)
            return value.example, self.node_of(value)
        if isinstance(value, torch.Tensor):
            return value, self.plain.node(value)
        if isinstance(value, (list, tuple)):
            pairs = [self._both(each, traced) for each in value]
            return [real for real, _ in pairs], [node for _, node in pairs]
        if isinstance(value, SYMBOLIC):
            return value.node.values[0], self.size_node(value.node)
        return value, value

    def wrap(
        self,
        real: torch.Tensor,
        layouts: tuple[Layout, ...],
        made_from: Sequence[Dim] = (),
        lines: frozenset[Any] = frozenset(),
        dims: tuple[Dim, ...] | None = None,
    ) -> Traced:
        """A traced tensor. Where nobody says its dimensions, they are what the layouts say."""
        if dims is None:
            sizes = zip(real.size(), *(layout.size for layout in layouts), strict=True)
            dims = tuple(self.dims.at_probes(values, made_from, lines) for values in sizes)
        fact = TensorFact(STORED.get(real.dtype, real.dtype), dims)
        return Traced(real, layouts, fact, self)

    def own(self, tensor: Traced, node: fx.Node, parent: Traced | None = None, step: ViewStep | None = None) -> None:
        """Connect a new tensor with its node and with the memory it lives in."""
        tensor.node = node
        node.meta.setdefault("val", tensor.fact)
        memory = storage(tensor.example)
        is_view = parent is not None and (memory == storage(parent.example) or (step and step.op in MIRRORED))
        if parent is not None and is_view:
            tensor.parent, tensor.step, tensor.cell = parent, step, parent.cell
            parent.cell.shared = True
            parent.cell.add_view(tensor)
            if parent.cell.borrowed and memory == storage(parent.cell.borrowed[0].example):
                parent.cell.borrowed.append(tensor)
        else:
            tensor.cell = Cell(self.levels[-1])
        tensor.version = tensor.cell.version

    def _unaliased(self, out: torch.Tensor, args: tuple) -> torch.Tensor:
        """A result that lives in a constant's memory is copied, so that a write to it does not reach the constant."""
        memory = storage(out)
        for value in leaves(args):
            if isinstance(value, torch.Tensor) and not isinstance(value, Traced) and storage(value) == memory:
                return out.clone()
        return out

    def make(self, target: Any, args: tuple, kwargs: dict[str, Any], fact: Any) -> fx.Node:
        node = self.create(target, args, kwargs)
        node.meta.update(val=fact, scope=self.scopes.current, call=self.scopes.call, source=user_source())
        return node

    # --- the result ------------------------------------------------------------------------------------------------
    def output_node(self, value: Any) -> tuple[fx.Node, TensorFact | ListFact, Output]:
        """A model's output: its node, what is known of it, and the example's answer."""
        if isinstance(value, TracedList):
            return value.node, value.fact, list(value.example)
        if isinstance(value, TracedNumbers):  # floats as those that are returned one by one
            value = value.tensor.to(torch.float32) if value.kind is float else value.tensor
        value = self.plain.stand_in(value)
        if isinstance(value, SYMBOLIC):
            with self.within_an_op():
                value = self.dispatch(aten.scalar_tensor.default, (value,), {"dtype": number_dtype(value)})
        if not isinstance(value, Traced):
            value = self.plain.lift(value)
        return self.node_of(value), value.fact, value.example

    def where(self) -> str | None:
        source = user_source()
        return str(source) if source else None

    def cannot(self, what: str, op: OpOverload | str, hint: str | None = None) -> CaptureError:
        return CaptureError(what, op=str(op), source=self.where(), module=self.scopes.current.path or None, hint=hint)


@functools.lru_cache(maxsize=1 << 10)
def _node_name(target: Any) -> str:
    """What the nodes that call a function are called, before they are numbered: as PyTorch would call them."""
    name: str = fx.Graph()._target_to_str(target)
    return name


def _at_probes(formula: Formula, axes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The fingerprint of an axis that follows others."""
    columns = zip(*(axes[name] for name in formula.names), strict=True)
    return tuple(formula.at(dict(zip(formula.names, sizes, strict=True))) for sizes in columns)
