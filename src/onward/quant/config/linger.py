"""linger's configuration files, read as what they mean here.

linger always has symmetric weights and activations with power-of-two scales. Its file has `quant_info` (bits, methods,
rounding), `clamp_info` (for `constrain`), a `platform`, and sections of any name with a `name` of their own, for mixed
precision. What linger writes loads as it is. A field that has a meaning only inside linger is named in a warning if it
asks for something, and a value that cannot be honoured is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ...errors import InputError
from .checks import QuantizationWarning, Section, listed, nearest, unknown_field
from .settings import PLATFORMS, Activations, Clamp, QuantConfig, Rule, Weights, calibrate_methods

_TOP = (
    "clamp_info", "quant_info", "platform", "device", "dtype", "seed", "open_quant", "quant_method", "calibration",
    "mix_parts",
)  # fmt: skip

# What says nothing here, unless it is one of the values with which linger says nothing either.
_ADVICE: dict[str, tuple[tuple[Any, ...], str]] = {
    "device": ((), "the model stays where it is: call model.to(device)"),
    "dtype": (("torch.float32",), "the model keeps its type: call model.to(dtype)"),
    "seed": ((), "call torch.manual_seed(seed) before the training"),
    "quant_method": (("NATIVE",), "there is one implementation, and it runs on every device"),
    "calibration": ((False,), "run the batches inside `with onward.calibration(model):`"),
}
_ROUNDINGS = {"floor_add": "half_up", "round": "half_even"}
_WEIGHT_RANGES = {"abs_max": "minmax", "w_like": "mse"}
_ACTIVATION_RANGES = {"abs_max": "minmax", "w_like": "mse", "top_10": "topk"}
_MOMENTUM = 0.1  # of linger's MOM
_WEIGHTS = {"bits": 8, "per_channel": False, "range": "minmax"}  # its defaults
_ACTIVATIONS = {"bits": 8, "symmetric": True, "range": "topk"}


def is_lingers(found: Mapping[str, Any]) -> bool:
    """Whether a file has linger's fields. `platform` alone is one of both."""
    ours = {field.name for field in fields(QuantConfig)}
    return any(key in found and key not in ours for key in _TOP) or (
        "platform" in found and len(ours & set(found)) == 1
    )


def from_linger(name: str, found: Section) -> QuantConfig:
    """The configuration that a file of linger's stands for."""
    reader = _Reader(name)
    parts: dict[str, Any] = {key: value for key, value in found.items() if isinstance(value, dict) and "name" in value}
    for key in found:
        if key not in _TOP and key not in parts:
            raise reader.refused(found, key, unknown_field("linger's configuration", key, _TOP))
    info = reader.section(found, "quant_info")
    weights, activations, rounding = reader.quant_info(info)
    config = QuantConfig(
        weights=Weights(power_of_two=True, **{**_WEIGHTS, **weights}),
        activations=Activations(power_of_two=True, averaging=_MOMENTUM, **{**_ACTIVATIONS, **activations}),
        # The first section that names a module wins in linger, the last rule here.
        rules=[rule for key in reversed(parts) for rule in reader.rules(parts[key])],
        rounding=rounding or "half_up",
        platform=reader.platform(found),
        clamp=reader.clamp(reader.section(found, "clamp_info")),
    )
    reader.check_the_rest(found)
    reader.warn()
    return config


class _Reader:
    """Reads one file, and remembers what it says that has no meaning here."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ignored: list[str] = []

    def refused(self, section: Section, key: str, error: InputError | str, hint: str | None = None) -> InputError:
        what, hint = (error.what, error.hint) if isinstance(error, InputError) else (error, hint)
        return InputError(what, source=f"{self.name}:{section.lines[key]}", hint=hint)

    def section(self, found: Section, key: str) -> Section | None:
        value = found.get(key)
        if value is not None and not hasattr(value, "lines"):
            raise self.refused(found, key, f"{key} has fields, and here is {value!r}")
        return value

    def ignore(self, section: Section, key: str, advice: str) -> None:
        self.ignored.append(f"line {section.lines[key]}: {key}: {section[key]} ({advice})")

    def warn(self) -> None:
        if self.ignored:
            told = "\n  ".join(self.ignored)
            warnings.warn(
                f"fields of linger's configuration '{self.name}' that have no meaning here:\n  {told}",
                QuantizationWarning,
                stacklevel=5,
            )

    def quant_info(self, info: Section | None) -> tuple[dict[str, Any], dict[str, Any], str | None]:
        """The changed fields of the weights and of the activations, and the rounding."""
        weights: dict[str, Any] = {}
        activations: dict[str, Any] = {}
        rounding = None
        readers: dict[str, Callable[[Any], None]] = {
            "weight_bits": lambda value: weights.update(bits=value),
            "activate_bits": lambda value: activations.update(bits=value),
            "output_bits": lambda value: activations.update(bits=value),
            "is_perchannel": lambda value: weights.update(per_channel=value),
            "is_symmetry": lambda value: activations.update(symmetric=value),
        }
        choices: dict[str, Mapping[str, Any]] = {
            "w_calibrate_name": {key: {"range": value} for key, value in _WEIGHT_RANGES.items()},
            "a_calibrate_name": {
                **{key: {"range": key} for key in calibrate_methods()},
                **{key: {"range": value} for key, value in _ACTIVATION_RANGES.items()},
            },
            "qat_method": {"MOM": {"learned": False}, "TQT": {"learned": True}},
        }
        for key in info or ():
            assert info is not None
            value = info[key]
            if key in readers:
                readers[key](value)
            elif key in choices:
                changes = self._choice(info, key, choices[key])
                (weights if key.startswith("w_") else activations).update(changes)
            elif key == "round_mode":
                rounding = self._choice(info, key, _ROUNDINGS, "floor and ceil would shift every mean")
            else:
                self._silent(info, key, value, [*readers, *choices])
        self._check(info, weights, activations)
        return weights, activations, rounding

    def _choice(self, section: Section, key: str, allowed: Mapping[str, Any], hint: str | None = None) -> Any:
        value = section[key]
        if not isinstance(value, str) or value not in allowed:
            close = nearest(value, allowed) if isinstance(value, str) else None
            hint = f'did you mean "{close}"?' if close else hint
            raise self.refused(section, key, f"{key} must be {listed(list(allowed))}, not {value!r}", hint)
        return allowed[value]

    def _silent(self, info: Section, key: str, value: Any, known: list[str]) -> None:
        """Fields that have one value which asks for nothing."""
        if key == "bias_bits":
            if value != 32:
                raise self.refused(
                    info, key, f"bias_bits must be 32, not {value!r}: biases are added to sums of 32 bits"
                )
        elif key in ("a_strategy", "w_strategy"):
            if value != "RANGE_MEAN":
                other = f"{key[0]}_calibrate_name"
                self.ignore(info, key, f"linger itself does not look at it; {other} says how ranges are found")
        elif key == "activation_type":
            if value != "none":
                self.ignore(info, key, "activations that follow a layer are found where they are called")
        elif key == "input_bits":
            raise self.refused(
                info,
                key,
                "input_bits is not a setting of the module that reads the input",
                "give output_bits to the module that computes it",
            )
        else:
            names = [*known, "round_mode", "bias_bits", "a_strategy", "w_strategy", "activation_type"]
            raise self.refused(info, key, unknown_field("quant_info", key, names))

    def _check(self, info: Section | None, weights: Mapping[str, Any], activations: Mapping[str, Any]) -> None:
        """Refuse wrong values at their lines."""
        names = {"bits": ("weight_bits", "activate_bits", "output_bits"), "per_channel": ("is_perchannel",)}
        names |= {"symmetric": ("is_symmetry",)}
        for changes, kind in ((weights, Weights), (activations, Activations)):
            for field, value in changes.items():
                try:
                    kind(**{field: value})
                except InputError as error:
                    keys = [key for key in names.get(field, ()) if info is not None and info.get(key) == value]
                    if info is None or not keys:
                        raise
                    raise self.refused(info, keys[0], f"{keys[0]}: {error.what}", error.hint) from None

    def rules(self, part: Section) -> list[Rule]:
        """A section for mixed precision: modules by path, each with what is inside it. In linger it speaks of all
        settings: what it leaves out is not that of the whole model, but linger's default."""
        names = part["name"]
        if isinstance(names, str) or not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise self.refused(
                part, "name", f"name must be a list of modules, not {names!r}", "for example name: ['0', 'layer1.0']"
            )
        for key in part:
            if key not in ("name", "quant_info", "clamp_info"):
                raise self.refused(part, key, unknown_field("a section", key, ("name", "quant_info", "clamp_info")))
        if "clamp_info" in part:
            self.ignore(part, "clamp_info", "one clamp_info holds for the whole model")
        info = self.section(part, "quant_info")
        weights, activations, rounding = self.quant_info(info)
        if rounding is not None:
            assert info is not None
            self.ignore(info, "round_mode", "one rounding holds for the whole model")
        if activations.pop("learned", None) is not None:
            assert info is not None
            self.ignore(info, "qat_method", "linger looks at that of the whole model alone")
        weights, activations = {**_WEIGHTS, **weights}, {**_ACTIVATIONS, **activations}
        return [Rule(each, weights=weights, activations=activations) for each in names]

    def platform(self, found: Section) -> str | None:
        if "platform" not in found:
            return None
        return self._choice(found, "platform", {each: each for each in PLATFORMS})

    def clamp(self, info: Section | None) -> Clamp:
        names = {f"clamp_{each}_value": each for each in ("weight", "bias", "activation", "factor")}
        names["clamp_factor_value"] = "weight_factor"
        for key in info or ():
            if key not in names:
                assert info is not None
                raise self.refused(info, key, unknown_field("clamp_info", key, list(names)))
        try:
            return Clamp(**{names[key]: value for key, value in (info or {}).items()})
        except InputError as error:
            assert info is not None
            key = next(key for key, field in names.items() if f".{field} " in error.what)
            raise self.refused(info, key, f"{key}: {error.what}", error.hint) from None

    def check_the_rest(self, found: Section) -> None:
        if found.get("open_quant", True) is not True:
            raise self.refused(
                found, "open_quant", f"open_quant is {found['open_quant']!r}", "leave out onward.init for a float model"
            )
        if found.get("mix_parts"):
            raise self.refused(
                found, "mix_parts", "mix_parts is linger's own form", "write sections that have a name, or rules"
            )
        for key, (silent, advice) in _ADVICE.items():
            if key in found and found[key] not in silent:
                self.ignore(found, key, advice)
