"""A configuration as a YAML file: `save_config` and `load_config`.

    weights:
      bits: 4
    rules:
    - name: stem
      weights: {bits: 8}

The dataclasses of `config` are the schema: a field that is left out has its default, a field that is not theirs is
refused with its line and the nearest name, and a wrong value is refused by the check that it meets in Python, with the
line added. Files that linger wrote are read too (`linger_config`).

YAML is read as of version 1.2 in what matters here: `off` is a word, not a boolean, and 1e-3 is a number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, TypeVar

import yaml

from ...errors import InputError
from ...write.files import Replacement, check_path, sync_directory, told_clearly
from .checks import Section, unknown_field
from .linger import from_linger, is_lingers
from .settings import Activations, Clamp, QuantConfig, Rule, Weights

_HEADER = "# What onward.init and onward.quantize are asked to do. docs/quantization.md has the fields.\n"
Made = TypeVar("Made")


class _Loader(yaml.SafeLoader):
    """Safe, keeps line numbers, refuses a key that is there twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's own way of keeping them
        first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:bool"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _section(loader: _Loader, node: yaml.MappingNode) -> Section:
    section = Section(node.start_mark.line + 1)
    for key_node, value_node in node.value:
        key, line = loader.construct_object(key_node, deep=True), key_node.start_mark.line + 1
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(None, None, f"{key!r} is not a name", key_node.start_mark)
        if key in section:
            raise yaml.constructor.ConstructorError(None, None, f"{key!r} is there twice", key_node.start_mark)
        section[key], section.lines[key] = loader.construct_object(value_node, deep=True), line
    return section


_Loader.add_constructor("tag:yaml.org,2002:map", _section)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


class _Dumper(yaml.SafeDumper):
    """Writes in quotes what the loader would take for a number."""


for _each in (_Loader, _Dumper):
    _each.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
        list("-+.0123456789"),
    )


def write_config(config: Any, path: str | os.PathLike[str]) -> None:
    """Write a configuration. Whole or not at all."""
    if not isinstance(config, QuantConfig):
        raise InputError(
            f"save_config writes a QuantConfig, or that of an initialised model, not {type(config).__name__}",
            hint='try onward.save_config(onward.QuantConfig(), "quant.yaml")',
        )
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"a configuration is written to the path of a file, not to {path!r}")
    name = os.fspath(path)
    text = _HEADER + yaml.dump(_plain(config), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    check_path(name)
    with told_clearly(name, len(text)), Replacement(name) as target:
        assert target.file is not None
        target.file.write(text.encode())
        target.close(durable=True)
        target.commit()
        sync_directory(name)


def _plain(config: QuantConfig) -> dict[str, Any]:
    """In types that YAML has. A rule has the fields that it was given."""
    found = asdict(config)
    found["rules"] = [{key: value for key, value in asdict(rule).items() if value is not None} for rule in config.rules]
    plain: dict[str, Any] = _in_plain_types(found)
    return plain


def _in_plain_types(value: Any) -> Any:
    """numpy's float64 is a float to Python, and nothing to YAML."""
    if isinstance(value, dict):
        return {key: _in_plain_types(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_in_plain_types(each) for each in value]
    return next((kind(value) for kind in (float, str) if isinstance(value, kind)), value)


def load_config(path: str | os.PathLike[str]) -> QuantConfig:
    """Read a configuration that `save_config`, a person or linger wrote."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"a configuration is read from the path of a file, not from {path!r}")
    name = os.fspath(path)
    found = _parsed(name)
    if is_lingers(found):
        return from_linger(name, found)
    _check_fields(name, "the configuration", found, QuantConfig)
    given: dict[str, Any] = dict(found)
    for part, kind in (("weights", Weights), ("activations", Activations), ("clamp", Clamp)):
        if part in found:
            given[part] = _made(name, part, found, kind)
    if "rules" in found:
        given["rules"] = _rules(name, found)
    try:
        return QuantConfig(**given)
    except InputError:
        return _at_its_line(name, _refused(found, given), lambda: QuantConfig(**given))


def _refused(found: Section, given: dict[str, Any]) -> Section:
    """The section for which a configuration is refused: that of the first rule with which it is, or the whole."""
    for count, section in enumerate([found, *found.get("rules", ())]):
        try:
            QuantConfig(**{**given, "rules": given.get("rules", [])[:count]})
        except InputError:
            return section
    return found


def given_config(what: str, config: Any, config_file: str | os.PathLike[str] | None) -> Any:
    """The configuration that a function was given, as it is or in a file; `what` is the function, for the error."""
    if config_file is None:
        return config
    if config is not None:
        raise InputError(f"{what} is given both config and config_file", hint="leave one of them out")
    return load_config(config_file)


def _parsed(name: str) -> Section:
    try:
        with open(name, encoding="utf-8") as file:
            found = yaml.load(file, _Loader)  # a SafeLoader
    except OSError as error:
        raise InputError(f"cannot read the configuration '{name}': {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"'{name}' is not a text file in UTF-8: {error.reason}") from error
    except RecursionError as error:
        raise InputError(f"the configuration '{name}' is nested too deeply to be read") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(
            f"'{name}' is not YAML that a configuration can be read from: {problem}",
            source=f"{name}:{mark.line + 1}" if mark else name,
            hint=_TAG_HINT if "python/" in problem else _STAR_HINT if "an alias" in str(error) else None,
        ) from error
    if not isinstance(found, Section):
        what = "is empty" if found is None else f"has a {type(found).__name__} where fields should be"
        raise InputError(f"the configuration '{name}' {what}", hint="for example one line: weights: {bits: 8}")
    return found


_TAG_HINT = "objects of Python are not read from a file; write the fields themselves"
_STAR_HINT = "a pattern that begins with * is written in quotes: name: '*.norm'"


def _check_fields(name: str, owner: str, section: Section, kind: type) -> None:
    known = [field.name for field in fields(kind)]
    for key in section:
        if key not in known:
            error = unknown_field(owner, key, known)
            raise InputError(error.what, source=f"{name}:{section.lines[key]}", hint=error.hint)


def _made(name: str, part: str, around: Section, kind: Callable[..., Made]) -> Made:
    """A dataclass of the configuration, made of its section."""
    section = around[part]
    if not isinstance(section, Section):
        raise InputError(
            f"{part} has fields, and here is {section!r}",
            source=f"{name}:{around.lines[part]}",
            hint=f"for example {part}: {{bits: 8}}",
        )
    _check_fields(name, part, section, kind)  # type: ignore[arg-type]
    return _at_its_line(name, section, lambda: kind(**section))


def _rules(name: str, around: Section) -> list[Rule]:
    found = around["rules"]
    if not isinstance(found, list) or not all(isinstance(each, Section) for each in found):
        raise InputError(
            "rules is a list, and each rule has fields",
            source=f"{name}:{around.lines['rules']}",
            hint="for example rules: [{name: stem, off: true}]",
        )
    rules = []
    for section in found:
        _check_fields(name, "a rule", section, Rule)
        _check_quoted(name, section)
        rules.append(_at_its_line(name, section, lambda given=section: Rule(**given)))  # type: ignore[misc]
    return rules


def _check_quoted(name: str, section: Section) -> None:
    """Paths in an nn.Sequential look like numbers."""
    given = section.get("name")
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        raise InputError(
            f"rule.name must be the path of a module or a pattern of paths, not the number {given}",
            source=f"{name}:{section.lines['name']}",
            hint=f"in quotes it is one: name: '{given}'",
        )


def _at_its_line(name: str, section: Section, make: Callable[[], Made]) -> Made:
    """Make something; what is refused is refused at the line of the field that the error speaks of."""
    try:
        return make()
    except InputError as error:
        words = set(re.findall(r"[a-z_]+", error.what.split(" ")[0]))
        line = next((line for key, line in section.lines.items() if key in words), section.line)
        raise InputError(error.what, source=f"{name}:{line}", hint=error.hint, details=error.details) from None
