"""What quantization is asked to do: frozen dataclasses, checked as they are made.

    QuantConfig(                                              # W8A8: what the defaults say
        weights=Weights(bits=4),                              # W4 everywhere ...
        activations=Activations(bits=4, learned=True),        # ... A4, with thresholds that are trained
        rules=[
            Rule("stem", weights={"bits": 8}),                # mixed precision, by name
            Rule(type="LayerNorm", off=True),                 # or by type
            Rule("decoder.*.out", activations={"bits": 16}),  # later rules win, field by field
        ],
    )

A rule covers the modules that it names *and what is inside them*. `for_model` applies the rules to a model and refuses
a name that no module has; `for_module` answers for one module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from torch import nn
from torch.nn.utils.parametrize import ParametrizationList

from ...errors import InputError
from .checks import check_choice, check_flag, check_number, check_share, check_whole, nearest, unknown_field

RANGES = ("minmax", "moving_average", "percentile", "topk", "entropy", "mse")  # of activations
WEIGHT_RANGES = ("minmax", "mse")
ROUNDINGS = ("half_even", "half_up")
LSTM_MODES = ("float", "dynamic")
PLATFORMS = ("venus", "mars", "arcs", "venusA", "jupiter")
_BLOCK_SIZES = (16, 32, 64, 128, 256)  # what onnxruntime's MatMulNBits takes


REGISTERED_METHODS: dict[str, Any] = {}  # classes of observers by the names that users have given them


def calibrate_methods() -> tuple[str, ...]:
    """The names that `Activations.range` may have."""
    return (*RANGES, *REGISTERED_METHODS)


def _check_bits(field: str, value: Any, allowed: Sequence[int], hint: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value not in allowed:
        text = "from 2 to 8" + (" or 16" if 16 in allowed else "")
        raise InputError(f"{field} must be a whole number {text}, not {value!r}", hint=hint)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """How weights become integers: always symmetric, zero stays zero.

    bits          2 to 8; fewer than 8 lie in an int8 whose bounds are narrower
    per_channel   one scale for every output channel, or one for the whole tensor
    power_of_two  scales are powers of two, for chips that shift instead of multiplying
    block_size    one scale for so many input values of a channel: weight-only, 4 or 8 bits (onnxruntime's MatMulNBits)
    range         "minmax" keeps every weight, "mse" clips outliers where that lowers the mean squared error
    reduce_range  7 bits of the 8: keeps AVX2 machines without VNNI from saturating 16-bit sums
    """

    bits: int = 8
    per_channel: bool = True
    power_of_two: bool = False
    block_size: int | None = None
    range: str = "minmax"
    reduce_range: bool = False

    def __post_init__(self) -> None:
        _check_bits("weights.bits", self.bits, range(2, 9), "weights of 16 or 32 bits have no integer kernel")
        for name in ("per_channel", "power_of_two", "reduce_range"):
            check_flag(f"weights.{name}", getattr(self, name))
        check_choice("weights.range", self.range, WEIGHT_RANGES)
        if self.reduce_range and self.bits != 8:
            raise InputError(
                f"weights.reduce_range is for 8 bits, and weights.bits is {self.bits}: sums cannot saturate there",
                hint="leave reduce_range out",
            )
        if self.block_size is not None:
            self._check_block()

    def _check_block(self) -> None:
        if isinstance(self.block_size, bool) or self.block_size not in _BLOCK_SIZES:
            sizes = ", ".join(map(str, _BLOCK_SIZES))
            raise InputError(f"weights.block_size must be None or one of {sizes}, not {self.block_size!r}")
        if self.bits not in (4, 8):
            raise InputError(
                f"weights.block_size is for 4 or 8 bits, and weights.bits is {self.bits}",
                hint="try Weights(bits=4, block_size=...), or leave block_size out",
            )
        if not self.per_channel:
            raise InputError(
                "weights.per_channel=False contradicts weights.block_size: a block belongs to one channel",
                hint="leave per_channel out",
            )


@dataclass(frozen=True, kw_only=True)
class Activations:
    """How activations become integers.

    bits          2 to 8 (stored as uint8) or 16
    symmetric     the zero point is the middle (128 of uint8), or wherever the range puts it (0 after a ReLU)
    power_of_two  scales are powers of two, for chips that shift instead of multiplying
    range         how calibration finds the range: "minmax", "moving_average", "percentile", "topk", "entropy", "mse",
                  or a name of `register_calibrate_method`
    learned       thresholds are parameters and get gradients (LSQ, TQT); `range` says where they start
    averaging     how much a new batch counts in "moving_average", and in training: at a hundredth ranges fall so far
                  behind weights that learn fast that every value is cut off, and no gradient is left; at 0 they stay
                  where calibration has put them
    percentile    how much of the values "percentile" keeps, in percent
    top_k         "topk" takes the k-th largest value: k - 1 outliers are clipped
    bins          the histogram of "percentile", "entropy" and "mse"
    """

    bits: int = 8
    symmetric: bool = False
    power_of_two: bool = False
    range: str = "moving_average"
    learned: bool = False
    averaging: float = 0.1
    percentile: float = 99.99
    top_k: int = 10
    bins: int = 2048

    def __post_init__(self) -> None:
        _check_bits(
            "activations.bits",
            self.bits,
            (*range(2, 9), 16),
            "what should stay in float is turned off by a rule: Rule(name, off=True)",
        )
        for name in ("symmetric", "power_of_two", "learned"):
            check_flag(f"activations.{name}", getattr(self, name))
        check_choice(
            "activations.range",
            self.range,
            calibrate_methods(),
            hint="a method of your own is registered first: onward.register_calibrate_method(name, cls)",
        )
        check_share("activations.averaging", self.averaging)
        check_number("activations.percentile", self.percentile, 50, 100)
        check_whole("activations.top_k", self.top_k, 1)
        check_whole("activations.bins", self.bins, 64, 1 << 16)
        if self.range == "entropy" and self.bits > 8:
            raise InputError(
                f"activations.range='entropy' compares histograms of 2**bits levels, and {self.bits} bits have more "
                f"levels than the histogram has bins",
                hint="try range='mse' or range='percentile'",
            )


@dataclass(frozen=True)
class Rule:
    """What is different in some modules: those whose path matches `name`, those of `type`, and all inside them.

    name         a module's path as `named_modules` gives it, or a pattern: * any characters, ? one, [ab] one of these
    type         a module class, or its name, which other classes may have too; subclasses count. With `name` too, a
                 module must match both
    off          True leaves the modules in float, False turns them on again, None changes nothing
    weights      the fields of `Weights` that change: {"bits": 4}
    activations  the fields of `Activations` that change
    weight_only  overrides `QuantConfig.weight_only`
    """

    name: str | None = None
    _: KW_ONLY
    type: str | type[nn.Module] | None = None
    off: bool | None = None
    weights: Mapping[str, Any] | Weights | None = None
    activations: Mapping[str, Any] | Activations | None = None
    weight_only: bool | None = None

    def __post_init__(self) -> None:
        if self.name is None and self.type is None:
            raise InputError("a rule needs a name or a type", hint='for example Rule("layer1.*", off=True)')
        given: Any = self.name
        if given is not None and not (isinstance(given, str) and given):
            raise InputError(
                f"rule.name must be the path of a module or a pattern of paths, not {self.name!r}",
                hint='for example Rule("layer1.*", off=True); Rule("*", ...) matches every module',
            )
        if self.type is not None:
            object.__setattr__(self, "type", _class_name(self.type))
        for name in ("off", "weight_only"):
            if getattr(self, name) is not None:
                check_flag(f"rule.{name}", getattr(self, name))
        object.__setattr__(self, "weights", _changes("weights", self.weights, Weights))
        object.__setattr__(self, "activations", _changes("activations", self.activations, Activations))
        if all(part is None for part in (self.off, self.weights, self.activations, self.weight_only)):
            raise InputError(
                f"{self.told} changes nothing", hint='for example Rule(..., off=True) or Rule(..., weights={"bits": 4})'
            )

    def __hash__(self) -> int:
        changes = [tuple(sorted((part or {}).items())) for part in (self.weights, self.activations)]  # type: ignore[union-attr]
        return hash((self.name, self.type, self.off, self.weight_only, *changes))

    @property
    def told(self) -> str:
        """The rule, for a message."""
        name = [repr(self.name)] if self.name is not None else []
        return f"Rule({', '.join([*name, *([f'type={self.type!r}'] if self.type else [])])})"

    def names(self, path: str) -> bool:
        """Whether `name` is the path of a module, or of one that it is inside of."""
        if self.name is None:
            return True
        parts = path.split(".")
        return any(fnmatchcase(".".join(parts[: end + 1]), self.name) for end in range(len(parts)))

    def covers(self, path: str, modules: Iterable[nn.Module]) -> bool:
        """Whether the rule speaks of the module at `path`; `modules` are that module and those around it."""
        return self.names(path) and (self.type is None or any(_is_a(module, self.type) for module in modules))


@dataclass(frozen=True, kw_only=True)
class Clamp:
    """How far values may go while a float model is trained to be quantized later: `onward.constrain`. None: anywhere.

    weight         weights stay within plus and minus this
    weight_factor  or within this many times their mean magnitude, which wins if both are given
    bias           biases stay within plus and minus this
    activation     results of layers stay within plus and minus this
    """

    weight: float | None = None
    weight_factor: float | None = None
    bias: float | None = None
    activation: float | None = None

    def __post_init__(self) -> None:
        for name in ("weight", "weight_factor", "bias", "activation"):
            if getattr(self, name) is not None:
                check_number(f"clamp.{name}", getattr(self, name), 0, float("inf"))


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """What the configuration and its rules say of one module."""

    weights: Weights
    activations: Activations
    rounding: str
    weight_only: bool


@dataclass(frozen=True, kw_only=True)
class QuantConfig:
    """What `onward.init` and `onward.quantize` are asked to do.

    weights          how weights become integers
    activations      how activations become integers
    rules            what is different in some modules; later rules win, field by field
    rounding         "half_even" as onnxruntime rounds, or "half_up", floor(x + 0.5), as linger's chips do
    fold_batch_norm  a BatchNorm after a convolution is folded into its weights, during training too
    outputs          the model's outputs are quantized, with 8 bits at least; otherwise the last operation gives floats
    lstm             "float", or "dynamic": onnxruntime's DynamicQuantizeLSTM, which has 8-bit weights
    weight_only      activations stay in float
    widen_channels   convolutions get channels of zeros where onnxruntime's kernels are twice as fast with them
    clamp            the bounds of `onward.constrain`
    platform         the chip that a file of linger's kind is for: "venus", "mars", "arcs", "venusA" or "jupiter"
    """

    weights: Weights = Weights()
    activations: Activations = Activations()
    rules: Sequence[Rule] = ()
    rounding: str = "half_even"
    fold_batch_norm: bool = True
    outputs: bool = True
    lstm: str = "float"
    weight_only: bool = False
    widen_channels: bool = True
    clamp: Clamp = Clamp()
    platform: str | None = None

    def __post_init__(self) -> None:
        for name, kind in (("weights", Weights), ("activations", Activations), ("clamp", Clamp)):
            if not isinstance(getattr(self, name), kind):
                raise InputError(
                    f"{name} must be {kind.__name__}(...), not {getattr(self, name)!r}",
                    hint=f"for example QuantConfig({name}={kind.__name__}())",
                )
        rules: Any = self.rules
        if isinstance(rules, (str, bytes)) or not isinstance(rules, Sequence):
            raise InputError(f"rules must be a list of rules, not {self.rules!r}", hint='try rules=[Rule("stem", ...)]')
        for rule in self.rules:
            if not isinstance(rule, Rule):
                raise InputError(f"rules has {rule!r}, which is not a Rule", hint='for example Rule("stem", off=True)')
        object.__setattr__(self, "rules", tuple(self.rules))
        check_choice("rounding", self.rounding, ROUNDINGS)
        check_choice("lstm", self.lstm, LSTM_MODES)
        if self.platform is not None:
            check_choice("platform", self.platform, PLATFORMS)
        for name in ("fold_batch_norm", "outputs", "weight_only", "widen_channels"):
            check_flag(name, getattr(self, name))
        if self.lstm == "dynamic" and self.weight_only:
            raise InputError(
                'lstm="dynamic" quantizes the activations of an LSTM as it runs, and weight_only=True leaves '
                "activations in float",
                hint='try lstm="float"',
            )
        _combine(self, ())
        for index, rule in enumerate(self.rules):  # refused here, not when the first model is met
            try:
                _combine(self, self.rules[: index + 1])
            except InputError:
                _combine(self, (rule,))

    def for_module(self, path: str, module: nn.Module, around: Iterable[nn.Module] = ()) -> Resolved | None:
        """What holds in one module; None leaves it in float. `around` are the modules that it is inside of.

        What makes a weight of other parameters (`nn.utils.parametrizations`) is in float: its result is rounded."""
        modules = (module, *around)
        if any(isinstance(each, ParametrizationList) for each in modules):
            return None
        return _combine(self, tuple(rule for rule in self.rules if rule.covers(path, modules)))

    def for_model(self, model: nn.Module) -> dict[str, Resolved | None]:
        """What holds in every module, by path. A rule that speaks of no module at all is refused."""
        modules = dict(model.named_modules(remove_duplicate=False))
        around = {path: [modules[above] for above in _above(path)] for path in modules}
        for rule in self.rules:
            if not any(rule.covers(path, (module, *around[path])) for path, module in modules.items()):
                raise self._unmatched(rule, modules)
        return {path: self.for_module(path, module, around[path]) for path, module in modules.items()}

    def _unmatched(self, rule: Rule, modules: Mapping[str, nn.Module]) -> InputError:
        classes = sorted({type(module).__name__ for module in modules.values()})
        told = f"its modules are of the classes {', '.join(classes)}"
        if rule.name is not None and not any(rule.names(path) for path in modules):
            close = nearest(rule.name, [path for path in modules if path])
            first = [path for path in modules if path and "." not in path]
            told = f"its modules are {', '.join(first[:12])}{', ...' if len(first) > 12 else ''}" if first else told
        else:
            lower = {name.lower(): name for name in classes}
            close = lower.get(nearest(str(rule.type).rpartition(".")[2], lower) or "")
        hint = f"did you mean {close!r}?" if close else told
        return InputError(f"{rule.told} speaks of no module of {type(modules['']).__name__}", hint=hint)


Part = TypeVar("Part", Weights, Activations)


def _combine(config: QuantConfig, rules: Sequence[Rule]) -> Resolved | None:
    """The configuration with the rules applied in their order."""
    weights, activations, weight_only, off = config.weights, config.activations, config.weight_only, False
    try:
        # All changes at once: bits=4 of one rule and block_size of the next are a pair only together.
        weights = replace(weights, **_merged(rule.weights for rule in rules))
        activations = replace(activations, **_merged(rule.activations for rule in rules))
    except InputError as error:
        for rule in rules:
            error.add_detail(f"by {rule.told}")
        raise
    for rule in rules:
        weight_only = weight_only if rule.weight_only is None else rule.weight_only
        off = off if rule.off is None else rule.off
    if off:
        return None
    if weights.block_size is not None and not weight_only:
        raise InputError(
            f"weights.block_size={weights.block_size} is for weight-only quantization: no integer kernel takes "
            f"block-wise weights",
            details=[f"by {rule.told}" for rule in rules],
            hint="add weight_only=True, or leave block_size out",
        )
    return Resolved(weights=weights, activations=activations, rounding=config.rounding, weight_only=weight_only)


def _merged(changes: Iterable[Any]) -> dict[str, Any]:
    return {name: value for part in changes if part for name, value in part.items()}


def _changes(name: str, given: Any, kind: type[Weights] | type[Activations]) -> dict[str, Any] | None:
    """The changed fields, each good in itself; whether they fit together depends on what they change."""
    if given is None:
        return None
    if isinstance(given, kind):
        return asdict(given)
    if not isinstance(given, Mapping):
        raise InputError(
            f"rule.{name} must be a dict of the fields that change, not {given!r}",
            hint=f'for example {name}={{"bits": 4}}',
        )
    known = [field.name for field in fields(kind)]
    for field in given:
        if field not in known:
            raise unknown_field(f"rule.{name}", field, known)
    return dict(given) or None


def _class_name(kind: Any) -> str:
    """The name that a class is known by, and no other: what a file can hold. A name that is given stays as it is."""
    if isinstance(kind, str) and kind:
        return kind
    if isinstance(kind, type) and issubclass(kind, nn.Module):
        return _full_names(kind)[0]
    raise InputError(
        f"rule.type must be a module class or its name, not {kind!r}", hint='for example Rule(type="Conv2d", off=True)'
    )


def _full_names(kind: type) -> tuple[str, ...]:
    """The names of a class, with its module: torch.nn.Linear is torch.nn.modules.linear.Linear, too."""
    full = f"{kind.__module__}.{kind.__qualname__}"
    return (f"torch.nn.{kind.__name__}", full) if getattr(nn, kind.__name__, None) is kind else (full,)


def _is_a(module: nn.Module, name: Any) -> bool:
    return any(name == kind.__name__ or name in _full_names(kind) for kind in type(module).__mro__)


def _above(path: str) -> list[str]:
    """The paths of the modules around one, the model itself ("") included."""
    parts = path.split(".") if path else []
    return [".".join(parts[:end]) for end in range(len(parts))]
