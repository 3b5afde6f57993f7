"""One run of a quantized model: every torch function that its code calls passes through here.

The outermost hooked module starts a session, a `TorchFunctionMode`. A function with a handler (`families/`) is
computed by it, any other runs in float on the values of the grids, and its result has no grid. What a handler computes
depends on the phase:

    CALIBRATE   float arithmetic; every site watches what comes along
    TRAIN       float arithmetic on values that are rounded to their grids, gradients go straight through
    EXACT       integers, bit for bit as onnxruntime's kernels compute them; what export writes is what runs here
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ...capture.attempt.session import is_capturing
from ...capture.memory.versions import share_memory
from ...errors import QuantizationError
from ..config.checks import QuantizationWarning
from ..config.settings import Activations, QuantConfig, Resolved
from ..exact.integers import centered, dequantize, quantize
from ..grids.fake_quantize import fake_quantize, fake_quantize_following, within
from ..grids.grid import Grid, grid_from_range
from ..grids.learned import fake_quantize_learned
from ..grids.observers import RangeError
from ..grids.sites import MASK, Site, ranges_of
from ..native import UNBOUNDED, Bounds
from .calls import Call, Frame, Known, made_by_table
from .controller import Controller
from .handlers import ABOUT, HANDLERS, INSIDE, SWITCHED_OFF, WEIGHT_ONLY
from .states import Entered, OnGrid, Overwritten, Pending, Product, is_made, is_marked_weight, mark_made, mark_weight
from .study import is_rounded
from .surroundings import (
    hint_for,
    in_full,
    is_autocast,
    is_checkpointed,
    kept,
    leave_autocast,
    no_autocast,
    saved_hooks,
)
from .tensors import Phase, Tensors, tensors_in, writes


class QuantSession(Tensors, TorchFunctionMode):
    """See the top of this file. Handlers get it as their first argument."""

    def __init__(self, controller: Controller, phase: Phase, model: nn.Module, path: str) -> None:
        TorchFunctionMode.__init__(self)
        Tensors.__init__(self, phase)
        self.controller, self.model, self.path = controller, model, path
        self.study = controller.study
        self.frames: list[Frame] = []
        self.autocast: tuple[str, ...] = ()  # what it was turned off for
        self._given: list[Tensor] = []  # the inputs of a model that is evaluated
        self._runs: dict[int, int] = {}  # of each module, by its id

    def begin(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """From here on every function passes through here; what the model is called with, as it sees it."""
        if self.phase is Phase.EXACT and is_autocast():
            self.autocast = leave_autocast()
            args, kwargs = in_full(args, kwargs)
        if self.phase is Phase.EXACT:
            self._given = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        self.__enter__()
        return args, kwargs

    # Modules come and go

    def enter_module(
        self, module: nn.Module, path: str, settings: Resolved | None, is_whole: bool, known: Known
    ) -> Frame:
        """A module's forward begins."""
        if self.phase is Phase.CALIBRATE:
            self.controller.reached.add(path)
        runs, key = self._runs, id(module)
        repeat = runs.get(key, 0)
        runs[key] = repeat + 1
        frame = Frame(module, path, settings, repeat, is_whole, known)
        self.frames.append(frame)
        return frame

    def leave_module(self, result: Any) -> Any:
        """A module's forward ends; its result is put on its grid if the module is one function."""
        frame = self.frames.pop()
        if frame.whole is None or not isinstance(result, Tensor) or result.dtype is not torch.float32:
            return result
        keeping = kept(self.controller) if is_checkpointed() else contextlib.nullcontext()
        with self._paused(), keeping:
            by_table = None if frame.given is None else made_by_table(frame.module, *frame.given, result)
            return self.finish(self.values(result), frame.call("module").site("output"), by_table)

    def arguments(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
        """What a module that is one function gets instead of its arguments; None for those as they are.

        onnxruntime 1.31 gives everybody who reads from a DequantizeLinear one of his own, and then recognizes no norm
        that reads its input twice. The multiplication by the scale, apart, is read by all.
        """
        frame = self.frames[-1]
        if self.phase is not Phase.EXACT or frame.whole is None:
            return None
        apart = self.values if self.for_a_chip else self.apart  # whose file says the scales that values have
        with self._paused():
            tensors = tensors_in(args, kwargs)
            if len(tensors) == 1:
                frame.given = self.wide_integers(self.values(tensors[0]), frame.whole)
            given: tuple[tuple, dict[str, Any]] = pytree.tree_map_only(Tensor, apart, (args, kwargs))
        return given

    def apart(self, x: Tensor) -> Tensor:
        """The values of a tensor, computed from its integers in two steps, so that no DequantizeLinear gives them."""
        x = self.values(x)
        found = self.integers(x)
        return x if found is None else torch.mul(centered(*found), found[1].scale)

    @contextlib.contextmanager
    def _paused(self) -> Iterator[None]:
        """Functions that are our own, while the model's pass through here."""
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()

    # Functions

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func in ABOUT:
            return func(*args, **(kwargs or {}))
        if self.phase is Phase.TRAIN:
            if saved_hooks(True) is not None and is_checkpointed():
                with kept(self.controller):
                    return self.__torch_function__(func, types, args, kwargs)
        elif self.phase is Phase.CALIBRATE:
            self.controller.read.update(id(each) for each in tensors_in(args, kwargs or {}) if self.is_weight(each))
        elif is_autocast():  # the model's own
            with no_autocast():
                return self.__torch_function__(func, types, args, kwargs)
        if not kwargs:
            kwargs = {}
        elif "out" in kwargs:
            if kwargs["out"] is not None:
                return self._into(func, *args, **kwargs)
            del kwargs["out"]
        frame = self.frames[-1]
        settings = frame.settings
        if settings is None:
            handlers = SWITCHED_OFF if frame.given is None else INSIDE
        else:
            handlers = WEIGHT_ONLY if settings.weight_only else HANDLERS
        handler = handlers.get(func)
        try:
            if handler is not None:
                if self._overwrote:
                    args, kwargs = self.current(args, kwargs)
                result = handler(self, func, *args, **kwargs)
                if result is not NotImplemented:
                    return result
            return self.in_float(func, *args, **kwargs)
        except RangeError as error:
            raise QuantizationError(
                f"{frame.path or 'the model itself'}: {error}",
                hint="look for the cause in the float model; a rule with off=True leaves a module in float",
            ) from error
        except RuntimeError as error:
            self.explain(error)
            raise

    def explain(self, error: RuntimeError) -> None:
        """Say it in other words, where something is known of the reason."""
        instead = hint_for(self.controller, self.model, self.path, error)
        if instead is not None:
            raise instead from error

    def in_float(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function on the values themselves; what it gives lies on no grid."""
        args, kwargs = self.current(args, kwargs)
        first: Any = args[0] if args else None
        into = isinstance(first, Tensor) and (writes(func) or bool(kwargs.get("inplace")))
        if into:
            args = (self.take_view(first), *args[1:])
        tensors = tensors_in(args, kwargs)
        if len(tensors) == 1 and self._is_nothing_special(tensors[0]) and not into:
            return func(*args, **kwargs)
        if any(isinstance(self.tag(each), (Pending, Entered)) for each in tensors):
            args, kwargs = pytree.tree_map_only(Tensor, self.values, (args, kwargs))
            tensors = tensors_in(args, kwargs)
        read = tensors[:1] if func in _TO_A_KIND else tensors
        made = all(is_made(each) for each in read if each.is_floating_point())
        if into and self.is_replaceable(args[0]):
            args = (args[0].clone(), *args[1:])
        result = func(*args, **kwargs)
        if into:
            self.written(args[0])
            if args[0] is not first:  # it waited, and was put on its grid for this
                self.put(first, Overwritten(args[0]))
        elif self._may_be_view(result):
            self._share(tensors)
        if tensors and all(map(self.is_weight, tensors)):
            _each_tensor(mark_weight, result)
        elif made:
            _each_tensor(mark_made, args[0] if result is None and into else result)
        return result

    def _may_be_view(self, result: Any) -> bool:
        """Whether a function gave a view. PyTorch does not say so in inference mode, nor while a model is captured."""
        first = result[0] if isinstance(result, (tuple, list)) and result else result
        if not isinstance(first, Tensor):
            return False
        return first._is_view() or (self.phase is not Phase.TRAIN and (first.is_inference() or is_capturing()))

    def _share(self, tensors: list[Tensor]) -> None:
        """There are views of these in float, which see what is written to them: nothing else may take their place."""
        for each in tensors:
            if self.is_on_grid(each):
                self.shared(each)

    def _is_nothing_special(self, x: Tensor) -> bool:
        """Whether a tensor is from outside: on no grid, no weight, no mask."""
        return x.is_floating_point() and self.tag(x) is None and not is_made(x) and not self.is_weight(x)

    def is_weight(self, x: Tensor) -> bool:
        """Whether a tensor is one of the model's own: a parameter, or worked out from parameters alone."""
        kind = type(x)  # asking `isinstance` about parameters is slow
        return kind is nn.Parameter or is_marked_weight(x) or (kind is not Tensor and isinstance(x, nn.Parameter))

    def _into(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A function that writes its result into tensors of the caller's: in float, and these lose their grids."""
        places = pytree.tree_leaves(kwargs["out"])
        for each in places:
            self.take_view(self._now(each))
        result = self.in_float(func, *args, **kwargs)
        for each in places:
            tag = self.tag(each)
            now = tag.now if isinstance(tag, Overwritten) else tag.settled if isinstance(tag, Pending) else None
            self.written(each if now is None else now)
            if now is not None:  # it waited, and was put on its grid for this
                self.put(each, Overwritten(now))
        return result

    def run(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function from a handler as the model would: by its own handler, if it has one."""
        return self.__torch_function__(func, (), args, kwargs)

    def composed(self, run: Callable[[], Any]) -> Any:
        """Run Python code of a handler as if the model had called it: its functions pass through here again."""
        with self:
            return run()

    def again(self, func: Callable[..., Any], *args: Any) -> Any:
        """One function as if the model had called it."""
        return self.composed(lambda: func(*args))

    @property
    def frame(self) -> Frame:
        """The module that is running."""
        return self.frames[-1]

    def call(self, name: str) -> Call:
        """The next call of a function in the module that is running."""
        return self.frames[-1].call(name)

    @property
    def config(self) -> QuantConfig:
        """What quantization of the model is asked to do."""
        return self.controller.config

    @property
    def is_evaluated(self) -> bool:
        """Whether integers are computed here and now, and not written into a file."""
        return self.phase is Phase.EXACT and not is_capturing()

    @property
    def for_a_chip(self) -> bool:
        """Whether halves are rounded up: then it is not onnxruntime that will run the file."""
        return self.config.rounding == "half_up"

    # Grids

    def values(self, x: Tensor) -> Tensor:
        """What a function outside of quantization sees: a waiting result is put on its grid first."""
        return self.settle(x) if isinstance(self.tag(x), Pending) else x

    def settle(self, x: Tensor, entry: Site | None = None) -> Tensor:
        """The tensor on its grid; one that has none enters through the site given."""
        tag = self.tag(x)
        if isinstance(tag, Entered):
            return tag.settled
        if isinstance(tag, Pending):
            return self._settle_pending(x, tag) if tag.settled is None else tag.settled
        if isinstance(tag, OnGrid) and tag.moved:
            return self._from_integers(x, tag)
        if tag is not None or entry is None or not self.is_full(x):
            return x
        settled = self.finish(x, entry)
        if settled is not x:
            self.put(x, Entered(settled))
        return settled

    def _settle_pending(self, x: Tensor, tag: Pending) -> Tensor:
        settled = self._settled(x, tag)
        if tag.forms and self.is_on_grid(settled):
            self.learn(settled, forms=tag.forms)
        self.learn(x, settled=settled)
        return settled

    def _settled(self, x: Tensor, tag: Pending) -> Tensor:
        if tag.rounded is not None and (again := tag.rounded(tag.call)) is not None:
            return self.settle(again)
        waiting = tag
        if tag.bounded is not None and self.controller.observers:  # then it will be bounded on this grid
            self.controller.observers.pop(tag.bounded.label, None)
        if tag.unfolded is not None:
            x, waiting = self._unfolded(tag)
        site = waiting.call.site("output")
        if waiting.otherwise is not None and site.range is None:
            return waiting.otherwise()
        return self.finish(x, site, waiting.requantize)

    def take_view(self, x: Tensor) -> Tensor:
        """Make real views of a waiting result and its other forms, before one of them is written to: the one given, or
        what it is on the grid that it has entered, if there are views of that."""
        tag = self.tag(x)
        if isinstance(tag, Entered) and (inside := self.label(tag.settled)) and inside.memory:
            self.put(x, Overwritten(tag.settled))
            return tag.settled
        if not isinstance(tag, (Pending, OnGrid)):
            return x
        self.learn(x, forms=())
        if isinstance(tag, Pending):
            if tag.view is not None:  # what is there already may be a copy
                self.learn(x, view=None)
                self.learn(x, settled=tag.view())
            if tag.is_viewed:
                self.settle(x)
        for form in tag.forms:
            if (y := form()) is not None:
                self.take_view(y)
        return x

    def finish(
        self, y: Tensor, site: Site, requantize: Callable[[Grid], Tensor] | None = None, bounds: Bounds = UNBOUNDED
    ) -> Tensor:
        """Put a result on the grid of a site, between the bounds of an activation (`requantize` knows them)."""
        y = y if y.dtype is torch.float32 else self._in_full(y)
        if self.phase is Phase.TRAIN:
            return self._fake(y, site, bounds)
        y = within(y, bounds)
        if self.phase is Phase.CALIBRATE:
            if is_made(y) and not y.any():  # a mask that masks nothing
                return y
            if self.study is None:
                self.controller.observe(site, y)
            elif not _is_mask(y):
                y = self.study.passed(site, y)
            return y if _is_mask(y) else self.put(y, OnGrid())  # as in evaluation, so that the same sites come after it
        if self._holds_masks(site, y):
            return y
        grid = site.grid()
        q = quantize(y, grid, site.rounding) if requantize is None else requantize(grid)
        result = self.on_grid(q, grid)
        if self.study is not None and self.study.saw is not None:
            self.study.saw(site, result, q, grid)
        return result

    def finish_within(self, y: Tensor, low: float, high: float, spec: Activations, rounding: str) -> Tensor:
        """Put a result on the grid of a range that is known beforehand."""
        rounds = self.phase is Phase.TRAIN or is_rounded(self.study, self.frames[-1].path)
        if self.phase is Phase.CALIBRATE and not rounds:
            return self.put(y, OnGrid())
        if rounds:
            return self.put(fake_quantize(y, low, high, spec, rounding=rounding), OnGrid())
        grid = grid_from_range(torch.tensor(low), torch.tensor(high), spec, rounding)
        return self.on_grid(quantize(y, grid, rounding), grid)

    def _from_integers(self, x: Tensor, tag: OnGrid) -> Tensor:
        """The values of integers that were moved: computed from these, so that the same moves are not made twice."""
        if tag.settled is not None:
            return tag.settled
        assert tag.integers is not None and tag.grid is not None
        settled = self.on_grid(tag.integers, tag.grid)
        self.learn(x, settled=settled)
        return settled

    def on_grid(self, integers: Tensor, grid: Grid) -> Tensor:
        """The values of integers on a grid, as a tensor that knows about both."""
        return self.put(dequantize(integers, grid), OnGrid(grid, integers))

    def wait(
        self,
        y: Tensor,
        call: Call,
        requantize: Callable[[Grid], Tensor] | None = None,
        product: Product | None = None,
        unfolded: Callable[[], Tensor] | None = None,
    ) -> Tensor:
        """A result that is put on its grid when it is seen what follows."""
        y = y if y.dtype is torch.float32 else self._in_full(y)
        return self.put(y, Pending(call, requantize, product, unfolded))

    def _in_full(self, y: Tensor) -> Tensor:
        """Under autocast a product is of a shorter type, which has no room for the steps of a grid."""
        return y.float() if self.is_full(y) else y

    def is_full(self, x: Tensor) -> bool:
        """Whether a tensor is of float32, or would be if autocast had not made it shorter."""
        return x.dtype is torch.float32 or (x.is_floating_point() and torch.is_autocast_enabled(x.device.type))

    def waiting(self, x: Tensor) -> tuple[Tensor, Pending] | None:
        """A result that waits, for an activation that follows it; None for any other tensor."""
        tag = self.tag(x)
        if not isinstance(tag, Pending) or tag.settled is not None:
            return None
        if tag.rounded is not None and (again := tag.rounded(tag.call)) is not None:
            return self.waiting(again)
        return (x, tag) if tag.unfolded is None else self._unfolded(tag)

    def joined(self, first: Call, site: Site) -> None:
        """What the running module does has become part of an earlier call; a study may want to know."""
        if self.study is not None and self.study.joined is not None:
            self.study.joined(first, self.frames[-1], site)

    def _unfolded(self, tag: Pending) -> tuple[Tensor, Pending]:
        """A product into which the batch norm that used to follow was folded, and this time it did not follow."""
        assert tag.unfolded is not None
        self.controller.set_follower(tag.call, None)
        y = tag.unfolded()
        again = self.tag(y)
        assert isinstance(again, Pending)
        return y, again

    def rescaled(self, y: Tensor, x: Tensor, factor: float) -> Tensor:
        """y = x * factor: the integers of x on a wider or narrower grid."""
        found = self.integers(x)
        if found is None:
            return self.put(y, OnGrid())
        q, grid = found
        return self.on_grid(q, replace(grid, scale=grid.scale * factor))

    def wide_integers(self, x: Tensor, settings: Resolved) -> tuple[Tensor, Grid] | None:
        """The integers of a tensor and their grid, if they or those of a result with these settings have sixteen bits:
        so fine that what is computed in float between two grids has to be exact as well."""
        found = self.integers(x)
        if found is None or self.for_a_chip:
            return None
        return found if settings.activations.bits > 8 or found[1].dtype not in ("uint8", "int8") else None

    def is_exact(self, x: Tensor) -> bool:
        """Whether a float function of a settled tensor is one that onnxruntime will compute, from grid to grid."""
        return self.integers(x) is not None and not self.for_a_chip

    def _fake(self, y: Tensor, site: Site, bounds: Bounds) -> Tensor:
        spec, held = site.settings, site.range
        if is_made(y) and (not y.any() or (spec.learned and held is None)):  # a mask: see _holds_masks
            return y
        if held is None:
            held = self._first_range(site, y, bounds)
        fake = fake_quantize_learned if spec.learned and not site.follows else fake_quantize_following
        out = fake(y, held, site, bounds)
        return within(y, bounds) if out is None else self.put(out, OnGrid())

    def _first_range(self, site: Site, y: Tensor, bounds: Bounds) -> Tensor:
        """The range of the first batch, for a site that calibration has not reached, such as that of an auxiliary head.
        A range that is learned, or that stays as it is, has to come from calibration, in evaluation mode. The optimizer
        was made before this batch, so that the range of the site cannot be learned any more."""
        learned, stays = site.settings.learned, not site.settings.averaging
        if (learned or stays) and not ranges_of(self.model):
            why = "stays as calibration finds it (averaging=0), and there was none"
            raise QuantizationError(
                f"the range of {site.label} {'is learned and has no start yet' if learned else why}",
                hint="run a few batches inside `with onward.calibration(model):` before "
                + ("the optimizer is made" if learned else "training"),
            )
        if learned or stays:
            now = "is that of the first batch" if stays else "is not learned, it follows the batches"
            warnings.warn(
                f"calibration has not reached {site.label}: its range {now}", QuantizationWarning, stacklevel=2
            )
        low, high = torch.aminmax(within(y.detach().float(), bounds))
        if not math.isfinite(high.item()) or math.isnan(low.item()):
            raise QuantizationError(
                f"{site.label} sees NaN or infinity",
                hint="look for the cause in the float model, or switch quantization off for that module",
            )
        site.set_range(low, high, follows=True)
        assert site.range is not None
        return site.range

    def _holds_masks(self, site: Site, y: Tensor) -> bool:
        """Whether a site has seen masks. One that has seen nothing has no range, unless it is a mask, too: transformers
        make some while a model is traced that they leave out when it runs."""
        held = site.range
        if held is None and is_made(y):
            return True
        if held is None:
            raise QuantizationError(
                f"{site.label} has no range yet: nothing was seen there",
                hint="run a few batches inside `with onward.calibration(model):`, or train, before this"
                + ("; one tensor given there for two inputs was seen as one: give a clone" * self._may_be_twice(y)),
            )
        return float(held[0].detach()) < MASK

    def _may_be_twice(self, x: Tensor) -> bool:
        """Whether a tensor is an input of a calibrated model, for which another could have been given there."""
        others = [each for each in self._given if not share_memory(x, each) and each.dim() == x.dim()]
        is_input = any(share_memory(x, each) for each in self._given)
        return is_input and bool(others) and bool(ranges_of(self.model))

    def outputs(self, result: Any) -> Any:
        """What leaves the model: on its grid where one waits."""
        if self.phase is Phase.TRAIN and is_checkpointed():
            with kept(self.controller):
                return self.outputs(result)
        if isinstance(result, Tensor):
            return self._output(result)
        return pytree.tree_map(self._output, result)

    def _widen(self, x: Tensor) -> None:
        """What leaves the model has 8 bits at least, as it is stored in any case: of sixteen logits many are equal."""
        tag = self.tag(x)
        if not isinstance(tag, Pending) or tag.settled is not None or self.for_a_chip:
            return
        if tag.call.bits < 8:
            self.learn(x, call=tag.call.with_activations(bits=8))

    def _output(self, leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            leaf = self._now(leaf)
            self._widen(leaf)
            leaf = self.values(leaf)
            self._outside.append(weakref.ref(leaf))
            return leaf
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            for each in dataclasses.fields(leaf):
                held = getattr(leaf, each.name)
                if (new := self.outputs(held)) is not held:
                    object.__setattr__(leaf, each.name, new)
        return leaf


def _each_tensor(mark: Callable[[Tensor], Tensor], result: Any) -> None:
    if isinstance(result, Tensor):
        mark(result)
    else:
        pytree.tree_map_only(Tensor, mark, result)


_TO_A_KIND = (Tensor.to, Tensor.type_as)  # of a second tensor they want to know the type alone


def _is_mask(x: Tensor) -> bool:
    return x.numel() > 0 and float(x.detach().amin()) < MASK
