"""What becomes one layer of integers (`trace_layers`), and every tensor of a run in files (`dump_layers`)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from ...capture.frontends.model import set_training
from ...errors import InputError, WriteError
from ..grids.grid import Grid
from ..grids.sites import Site
from ..run.calls import Call, Frame
from ..run.study import Study
from ..setup.initialize import controller_of
from .quantize import as_call, check_call


@contextlib.contextmanager
def studying(model: nn.Module, study: Study, what: str) -> Iterator[None]:
    """Run the model in evaluation mode and under a study."""
    controller = controller_of(model, what)
    before = controller.study
    controller.study = study
    try:
        with set_training(model, False), torch.no_grad():
            yield
    finally:
        controller.study = before


def run(model: nn.Module, batch: Any, study: Study, what: str) -> Any:
    """One batch through the model."""
    args, kwargs = as_call(batch)
    check_call(model, args, kwargs)
    with studying(model, study, what):
        return model(*args, **kwargs)


@dataclass(frozen=True)
class Layer:
    """One integer operation: the module whose function it is, and the modules whose work is folded into it.

    sites   the labels of those where what comes out is put on a grid by one of the latter
    """

    module: str
    function: str
    parts: tuple[str, ...]
    kinds: tuple[str, ...]
    sites: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layers:
    """In the order in which they run."""

    layers: tuple[Layer, ...]

    def __str__(self) -> str:
        rows = [
            f"{each.module or 'the model itself'} ({each.function})"
            + "".join(
                f" + {part or 'the model itself'} ({kind})" for part, kind in zip(each.parts, each.kinds, strict=True)
            )
            for each in self.layers
        ]
        return "\n".join(rows) or "nothing is folded or fused"


def trace_layers(model: nn.Module, batch: Any) -> Layers:
    """Which batch norms are folded and which activations fused, seen by running a batch."""
    found: dict[str, tuple[Call, list[Frame]]] = {}
    sites: dict[str, list[str]] = {}

    def joined(first: Call, frame: Frame, site: Site) -> None:
        _, frames = found.setdefault(first.label, (first, []))
        sites.setdefault(first.label, []).append(site.label)
        if all(each.module is not frame.module for each in frames):
            frames.append(frame)

    run(model, batch, Study(exact=False, joined=joined), "trace_layers")
    by_norm = {frame.path: label for label, (_, frames) in found.items() for frame in frames}
    layers = []
    for call, frames in found.values():
        if call.path in by_norm and call.name.startswith("batch_norm"):
            continue  # an activation behind a folded batch norm: told with the product
        parts, ends = list(frames), list(sites[call.label])
        for frame in frames:
            first, behind = next(
                (each for each in found.values() if each[0].path == frame.path and each[1]), (call, [])
            )
            parts += [each for each in behind if all(each.module is not one.module for one in parts)]
            ends += sites[first.label]
        names = tuple(each.path for each in parts)
        kinds = tuple(type(each.module).__name__ for each in parts)
        layers.append(Layer(call.path, call.name, names, kinds, tuple(dict.fromkeys(ends))))
    return Layers(tuple(layers))


def dump_layers(model: nn.Module, batch: Any, folder: str | os.PathLike[str]) -> Path:
    """Write the integers of every site of one run into a folder, for comparison with a device.

    `<module>.<site>.npy` holds the integers, `layers.json` their order, grids and shapes. The folder must not exist; it
    appears whole or not at all.
    """
    target = Path(folder)
    if target.exists():
        raise InputError(f"{target} exists already", hint="give the name of a folder that is to be made")
    if not target.parent.is_dir():
        raise InputError(f"the folder {target.parent} does not exist")
    entries: list[dict[str, Any]] = []
    staged = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))

    def saw(site: Site, values: Tensor, q: Tensor | None, grid: Grid | None) -> None:
        if q is None or grid is None:
            return
        stem = re.sub(r"[/\\]", "_", f"{site.path}.{site.name}".lstrip("."))  # keys of a ModuleDict may have them
        taken = sum(each["file"].startswith(f"{stem}.") for each in entries)
        name = f"{stem}.{taken}.npy" if taken else f"{stem}.npy"
        numpy.save(staged / name, q.cpu().numpy())
        entries.append(
            {
                "file": name,
                "module": site.path,
                "site": site.name,
                "shape": list(q.shape),
                "dtype": grid.dtype,
                "scale": float(grid.scale),
                "zero_point": grid.zero_point,
            }
        )

    try:
        run(model, batch, Study(exact=True, saw=saw), "dump_layers")
        (staged / "layers.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
        staged.chmod(0o755)
        staged.rename(target)
    except OSError as error:
        raise WriteError(f"{target} could not be written: {error}") from error
    finally:
        if staged.exists():
            shutil.rmtree(staged)
    return target
