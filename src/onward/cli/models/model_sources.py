"""TARGET of the command line: where a model comes from.

    pkg.module:attribute     a module, a class, or a function that builds one
    path/to/file.py:attribute
    archive.pt               of torch.jit.save
    program.pt2              of torch.export.save
    timm:NAME                random weights unless --weights gives others
    hf:NAME, hf:config.json  a model of transformers from its configuration alone; hf:bert:BertForMaskedLM says which

Python targets are imported and run: they are as trusted as any program that one starts.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import inspect
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from onward.capture.frontends.front_ends import is_model
from onward.errors import InputError, MissingDependencyError, first_line

from ..console.usage_errors import UsageMistake
from ..inputs.values import ExampleCall

FORMS = "write pkg.module:attribute, path/to/file.py:attribute, archive.pt, program.pt2, timm:NAME or hf:NAME"


@dataclass(frozen=True)
class SourceModel:
    """A model, and an example call if the target has one itself."""

    model: Any
    name: str
    example: ExampleCall | None = None


def load_target(text: str, arguments: Mapping[str, Any], *, function: bool = False, seed: int = 0) -> SourceModel:
    """The model that TARGET means. `arguments` are for whoever builds it; `function` exports a function as it is.

    The seed is set before the import and again before the building: what a module draws while it is imported, and
    whether it was imported before, changes no weight.
    """
    torch.manual_seed(seed)
    if text.startswith("timm:"):
        return _timm(text.removeprefix("timm:"), arguments, seed)
    if text.startswith("hf:"):
        return _transformers(text.removeprefix("hf:"), arguments, seed)
    place, colon, attribute = text.rpartition(":")
    if colon and attribute and all(part.isidentifier() for part in attribute.split(".")):
        module = _from_file(place) if place.endswith(".py") else _from_package(place)
        return _built(_attribute(module, attribute, place), text, arguments, function, seed)
    if text.endswith(".py"):
        raise UsageMistake(f"'{text}' is a file of Python; say what in it", hint=f"{text}:build, for example")
    if text.endswith((".pt2", ".pt", ".pth", ".jit", ".ts", ".zip")) or os.path.isfile(text):
        if arguments:
            raise UsageMistake("--arg is for whoever builds a model, and a file is built already")
        return _archive(text)
    raise UsageMistake(f"'{text}' is no target", hint=FORMS)


# Python


def _from_package(name: str) -> Any:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageMistake(f"'{name}' is no name of a module", hint=FORMS)
    with _user_code(f"importing '{name}'"):
        _look_in(os.getcwd())
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = str(error.name)
            if name != missing and not name.startswith(f"{missing}."):
                raise
            near = _near_modules(name, missing)
            hint = f"did you mean '{near}'?" if near else "is it installed, or in the folder you are in?"
            raise InputError(f"there is no module '{missing}'", hint=hint) from error


def _near_modules(name: str, missing: str) -> str | None:
    import pkgutil

    parent, _, last = missing.rpartition(".")
    if parent:
        folder = getattr(sys.modules.get(parent), "__path__", None)
        names = [each.name for each in pkgutil.iter_modules(folder)] if folder else []
    else:
        names = [each.name for each in pkgutil.iter_modules()]
    near = difflib.get_close_matches(last, names, 1)
    return (f"{parent}.{near[0]}" if parent else near[0]) + name.removeprefix(missing) if near else None


def _from_file(path: str) -> Any:
    if not os.path.isfile(path):
        raise InputError(f"there is no file '{path}'")
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(f"_onward_target_{name}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"'{path}' cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickles look their module up
    with _user_code(f"importing '{path}'"):
        _look_in(os.path.dirname(os.path.abspath(path)))
        spec.loader.exec_module(module)
    return module


def _look_in(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _attribute(module: Any, attribute: str, place: str) -> Any:
    found = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            known = [name for name in dir(found) if not name.startswith("_")]
            near = difflib.get_close_matches(part, known, 1)
            builders = [name for name in known if callable(getattr(found, name, None))][:8]
            hint = (
                f"did you mean '{near[0]}'?" if near else f"it has {', '.join(builders) or 'nothing that builds one'}"
            )
            raise InputError(f"'{place}' has no '{part}'", hint=hint) from None
    return found


def _built(found: Any, text: str, arguments: Mapping[str, Any], function: bool, seed: int) -> SourceModel:
    if function:
        if arguments or not callable(found):
            what = "--arg and --function exclude each other" if arguments else f"'{text}' is no function"
            raise UsageMistake(what, hint="--function exports TARGET itself, and does not call it")
        return SourceModel(found, text)
    if is_model(found):
        if arguments:
            raise UsageMistake(f"--arg is for whoever builds a model, and '{text}' is one already")
        return SourceModel(found, text)
    if not callable(found):
        raise InputError(f"'{text}' is of type {type(found).__name__}, neither a model nor a builder of one")
    _check_arguments(found, text, arguments)
    with _user_code(f"building '{text}'"):
        torch.manual_seed(seed)
        model = found(**arguments)
    return _with_example(model, text)


def _check_arguments(builder: Callable[..., Any], text: str, arguments: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(builder)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**arguments)
    except TypeError as error:
        known = [str(each) for each in signature.parameters.values()]
        near = [
            f"did you mean --arg {match[0]}={arguments[name]!r}?"
            for name in arguments
            if name not in signature.parameters
            for match in [difflib.get_close_matches(name, list(signature.parameters), 1)]
            if match
        ]
        hint = near[0] if near else "give arguments with --arg NAME=VALUE; --function exports a function as it is"
        raise InputError(f"'{text}' takes ({', '.join(known)}): {error}", hint=hint) from error


def _with_example(made: Any, text: str) -> SourceModel:
    """A builder returns a model, or a model and an example call of it."""
    example = None
    model = made
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module):
        model, call = made
        example = ExampleCall((), call) if isinstance(call, Mapping) else ExampleCall(_as_tuple(call))
    if not is_model(model):
        raise InputError(
            f"'{text}' returned {type(model).__name__}, not a model",
            hint="a builder returns an nn.Module, or one and its inputs; --function exports a function as it is",
        )
    return SourceModel(model, text, example)


def _as_tuple(call: Any) -> tuple[Any, ...]:
    return call if isinstance(call, tuple) else tuple(call) if isinstance(call, list) else (call,)


@contextlib.contextmanager
def _user_code(what: str) -> Iterator[None]:
    """An exception of the user's code is told with the line it comes from."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            f"{what} raised {type(error).__name__}: {first_line(error)}",
            source=_line_of(error),
            hint="--debug shows the traceback",
        ) from error


def _line_of(error: BaseException) -> str | None:
    """The innermost line that is neither Python's, PyTorch's nor ours."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    theirs = (os.path.dirname(os.__file__), os.path.dirname(torch.__file__), str(Path(__file__).parents[1]), "<frozen")
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(theirs)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


# Archives


def _archive(path: str) -> SourceModel:
    if not os.path.isfile(path):
        raise InputError(f"there is no file '{path}'")
    if path.endswith(".pt2"):
        return SourceModel(_exported_program(path), path)
    try:
        return SourceModel(torch.jit.load(path, map_location="cpu"), path)
    except Exception as error:  # the reader's own words are of little help
        raise InputError(
            f"'{path}' is no archive of torch.jit.save: {first_line(error)}",
            hint="a checkpoint goes to --weights, with a TARGET that builds the model; whole pickled models are not "
            "loaded, for they could run code",
        ) from error


def _exported_program(path: str) -> Any:
    """torch.export.load goes back to unpickling anything (2.13); with this variable set it does not."""
    before = os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    try:
        return torch.export.load(path)
    except Exception as error:  # the reader has no class of its own
        raise InputError(f"'{path}' is no program of torch.export.save: {first_line(error)}") from error
    finally:
        if before is None:
            del os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"]
        else:
            os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = before


# Collections of models


def _package(name: str, prefix: str) -> Any:
    _import_torchvision()
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingDependencyError(
            f"'{prefix}:' needs the package {name} ({first_line(error)})", hint=f"pip install {name}"
        ) from error
    except Exception as error:  # a package that does not fit the installed torch
        raise MissingDependencyError(
            f"the package {name} cannot be imported: {type(error).__name__}: {first_line(error)}",
            hint=f"does it fit the torch that is installed ({torch.__version__})?",
        ) from error


_declared = torch.library.Library("torchvision", "FRAGMENT")  # its declarations last as long as it does


def _import_torchvision() -> None:
    """timm and transformers import torchvision, which fails where its compiled operators do not load: in a build for
    another PyTorch (one with CUDA beside one without, for instance) it registers fake kernels for operators that are
    not there. Few models use these operators: once they are declared the import succeeds, and a model that calls one
    ends in an error that names it.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            return  # whoever imports it next will say so
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                _declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        warnings.warn(
            f"torchvision's compiled operators do not load beside torch {torch.__version__}; going on without them",
            stacklevel=2,
        )
    except ImportError:
        return  # not installed, and not always needed


def _nearest(what: str, name: str, known: Sequence[str]) -> InputError:
    near = difflib.get_close_matches(name, known, 1)
    return InputError(f"{what} '{name}'", hint=f"did you mean '{near[0]}'?" if near else None)


def _timm(name: str, arguments: Mapping[str, Any], seed: int) -> SourceModel:
    timm = _package("timm", "timm")
    if not timm.is_model(name.partition(".")[0]):
        raise _nearest("timm has no model", name, timm.list_models())
    with _user_code(f"building 'timm:{name}'"):
        torch.manual_seed(seed)
        model = timm.create_model(name, **{"pretrained": False, **arguments})
    size = (getattr(model, "pretrained_cfg", None) or {}).get("input_size")
    example = ExampleCall((torch.randn(1, *size),)) if size else None
    return SourceModel(model, f"timm:{name}", example)


def _transformers(text: str, arguments: Mapping[str, Any], seed: int) -> SourceModel:
    transformers = _package("transformers", "hf")
    name, _, architecture = text.partition(":") if not text.endswith(".json") else (text, "", "")
    if name.endswith(".json"):
        settings = _settings(name)
        kind = str(settings.pop("model_type", ""))
        architecture = architecture or next(iter(settings.get("architectures") or ()), "")
    else:
        settings, kind = {}, name
    types = transformers.CONFIG_MAPPING
    if kind not in types:
        raise _nearest("transformers has no configuration", kind, list(types.keys()))
    with _user_code(f"building 'hf:{text}'"):
        torch.manual_seed(seed)
        config = types[kind](**{**settings, **arguments})
        if architecture:
            model = _class_of(transformers, architecture)(config)
        else:
            model = transformers.AutoModel.from_config(config)
    return SourceModel(model, f"hf:{text}", _dummy(model))


def _dummy(model: Any) -> ExampleCall | None:
    """The ids that transformers itself tries text models with."""
    if getattr(model, "main_input_name", None) != "input_ids":
        return None
    return ExampleCall((), {"input_ids": model.dummy_inputs["input_ids"]})


def _class_of(transformers: Any, name: str) -> Any:
    found = getattr(transformers, name, None)
    if not isinstance(found, type) or not issubclass(found, torch.nn.Module):
        raise _nearest("transformers has no model", name, [each for each in dir(transformers) if each[0].isupper()])
    return found


def _settings(path: str) -> dict[str, Any]:
    try:
        settings = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file '{path}'") from None
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' is no configuration: {first_line(error)}") from error
    if not isinstance(settings, dict) or "model_type" not in settings:
        raise InputError(f"'{path}' is no configuration of transformers: it has no model_type")
    return settings
