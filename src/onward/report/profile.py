"""How long every node takes in onnxruntime, as it runs the file: with its optimizations, which change the graph.

onnxruntime is asked for its profile and for the graph that it made of the file. Both graphs are cut at the values that
they have in common, and what a stretch of onnxruntime's takes is the time of the same stretch of the file:

    file:     m = MatMul (x, w)    y = Add (m, b)    z = Reshape (y, s)
    runtime:  r = Reshape (x, t)   g = Gemm (r, w, b)   z = Reshape (g, s)

Here `z` is in both, so MatMul, Add and Reshape together take what Reshape, Gemm and Reshape take. The time is shown at
the node that computes most, and the others are said to be part of it. What onnxruntime computes when it loads the file
takes no time at all, and what it puts in by itself, to reorder memory, belongs to no node.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
import onnx_ir as ir
import torch

from onward.verify import Session, load_onnxruntime

from .call_shapes import named_bodies
from .common_cuts import Stretch, cut, file_steps, runtime_steps, unique_names
from .contents import Contents, Json
from .inline import Path, inlined
from .memory import of_weights_alone

_WARM_UP, _FEWEST, _MOST, _SECONDS = 1, 5, 20, 0.5
_MOST_WEIGHTS = 1 << 30  # bytes; onnxruntime writes its graph with the weights, and above this it is not asked to
_KERNEL = "_kernel_time"
Shapes = dict[str, list[tuple[int, ...]]]
_AROUND = ("QuantizeLinear", "DequantizeLinear")  # they are around what is computed in integers
_LOADED = "computed once, when onnxruntime loads the model"
_NAMELESS = "onnxruntime runs it as several nodes without names, so its time is not known"


@dataclass(frozen=True)
class Profile:
    """What a few runs told.

    runs       microseconds of every node of onnxruntime's by its name, run by run
    whole      microseconds of the whole run, run by run
    optimized  onnxruntime's graph, without weights; None of a model that is too large to ask for it
    file       the graph that was run, functions written out; `paths` say where its nodes are in the file
    shapes     of what the nodes of onnxruntime's gave, by their names
    """

    runs: Sequence[Mapping[str, float]]
    whole: Sequence[float]
    optimized: onnx.ModelProto | None
    file: ir.Graph
    paths: Mapping[ir.Node, Path] = field(default_factory=dict)
    shapes: Mapping[str, list[tuple[int, ...]]] = field(default_factory=dict)

    def median(self, names: Sequence[str]) -> float | None:
        """Of nodes together, each by itself: an interruption is not theirs. None if none of them was seen."""
        seen = [name for name in names if any(name in run for run in self.runs)]
        if not seen:
            return None
        return sum(statistics.median(run.get(name, 0.0) for run in self.runs) for name in seen)


def profile(
    model: ir.Model,
    feeds: Mapping[str, torch.Tensor],
    *,
    path: str | os.PathLike[str] | None = None,
    optimize: bool = True,
) -> Profile:
    """Run a model a few times, and once without optimizations. Raises VerifyError if onnxruntime does not run it.
    `path` is the file that the model was read from, if there is one."""
    weights = sum(
        value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None
    )
    with tempfile.TemporaryDirectory(prefix="onward-") as folder:
        graph = os.path.join(folder, "optimized.onnx") if optimize and weights <= _MOST_WEIGHTS else None

        def prepare(options: Any) -> None:
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(folder, "profile")
            if graph is not None:
                options.optimized_model_filepath = graph
                options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights")
                options.add_session_config_entry(
                    "session.optimized_model_external_initializers_min_size_in_bytes", "1024"
                )

        written_out, paths = inlined(model)
        session = Session(_to_run(model, written_out, path), optimize=optimize, prepare=prepare, reproducible=False)
        spent = _run(session, feeds, once=not optimize)
        with open(session.end_profiling(), encoding="utf-8") as file:
            events = json.load(file)
        optimized = onnx.load(graph, load_external_data=False) if graph is not None else None
    runs, whole, shapes = _read(events)
    return Profile(runs[spent:], whole[spent:], optimized, written_out.graph, paths, shapes)


def _run(session: Session, feeds: Mapping[str, torch.Tensor], *, once: bool) -> int:
    """Returns how many runs are not to be counted."""
    if once:
        session.run(feeds)
        return 0
    for _ in range(_WARM_UP):
        session.run(feeds)
    start = time.perf_counter()
    for count in range(_MOST):
        session.run(feeds)
        if count + 1 >= _FEWEST and time.perf_counter() - start > _SECONDS:
            break
    return _WARM_UP


def _to_run(
    model: ir.Model, written_out: ir.Model, path: str | os.PathLike[str] | None
) -> ir.Model | str | os.PathLike[str]:
    """The file, if its nodes have names of their own and call no functions: a large one need not be written again."""
    if path is not None and all(node.name == name for node, name in unique_names(model.graph).items()):
        return path if not model.functions else written_out
    return written_out


def _read(events: Sequence[Json]) -> tuple[list[dict[str, float]], list[float], Shapes]:
    whole = sorted((each["ts"], each["dur"]) for each in events if each.get("name") == "model_run")
    runs: list[dict[str, float]] = [defaultdict(float) for _ in whole]
    shapes: Shapes = {}
    for each in events:
        name = str(each.get("name", ""))
        if each.get("cat") != "Node" or not name.endswith(_KERNEL):
            continue
        place = next((i for i, (start, length) in enumerate(whole) if start <= each["ts"] <= start + length), None)
        if place is not None:
            runs[place][name.removesuffix(_KERNEL)] += each["dur"]
        given = each.get("args", {}).get("output_type_shape") or []
        shapes[name.removesuffix(_KERNEL)] = [tuple(shape) for kind in given for shape in kind.values()]
    return [dict(run) for run in runs], [float(length) for _, length in whole], shapes


def attach(found: Contents, profiled: Profile, at: str) -> None:
    """Write the times of a profile into the data; `at` says at which sizes it was taken."""
    data, totals = found.data, found.data["totals"]
    onnxruntime = load_onnxruntime()
    whole = statistics.median(profiled.whole)
    totals["microseconds"] = profiled.median(_outer_names(profiled))
    totals["run_microseconds"] = whole
    totals["profiled_at"] = (
        f"{at}{'; ' if at else ''}medians of {len(profiled.whole)} runs in onnxruntime {onnxruntime.__version__} "
        f"on the CPU, optimized as it does by default; a whole run took {whole / 1e3:.3g} ms with its profiler"
    )
    file = profiled.file
    told = [_at(data["nodes"], profiled.paths[node]) for node in file]
    if profiled.optimized is None:
        _by_name(file, told, profiled)
        _sum_up(data["nodes"], found.sized.model)
        data["notes"].append("times are of nodes that onnxruntime kept; what it fused is not told of so large a model")
        return
    graph = profiled.optimized.graph
    constants = {str(value.name) for value in of_weights_alone(file)} | {each.name for each in graph.initializer}
    steps = [step for step in runtime_steps(graph) if step.op != "Constant"]
    parts = cut(file_steps(file), steps, constants)
    for stretch in parts.stretches:
        _share(told, stretch, profiled)
    for place in parts.loaded:
        told[place]["runtime_note"] = _LOADED
    totals["inserted_microseconds"] = profiled.median([step.name for step in parts.inserted])
    _of_bodies(file, told, profiled)
    _sum_up(data["nodes"], found.sized.model)


def _at(nodes: Sequence[Json], path: Path) -> Json:
    """The data of a node; a function that is called is the first graph of the call."""
    first, *rest = path
    return nodes[first] if not rest else _at(nodes[first]["graphs"][0]["nodes"], tuple(rest))


def _sum_up(told: Sequence[Json], model: ir.Model) -> None:
    """The time of a call is that of the nodes of the function."""
    functions = {(domain, name) for domain, name, _ in model.functions}
    for data in told:
        if (data["domain"], data["op"]) not in functions or data["microseconds"] is not None:
            continue
        inner = data["graphs"][0]["nodes"]
        _sum_up(inner, model)
        spent = [each["microseconds"] for each in inner if each["microseconds"] is not None]
        data["microseconds"] = sum(spent) if spent else None
        if not spent and inner:
            data["runtime_note"] = inner[-1]["runtime_note"]


def _outer_names(profiled: Profile) -> list[str]:
    """The nodes of onnxruntime's that are in no other: the time of a loop is that of its body too."""
    if profiled.optimized is not None:
        return list({node.name for node in profiled.optimized.graph.node})
    inner = {str(node.name) for node in profiled.file.all_nodes()} - {str(node.name) for node in profiled.file}
    return list({name for run in profiled.runs for name in run} - inner)


def _share(nodes: Sequence[Json], stretch: Stretch, profiled: Profile) -> None:
    members = [nodes[place] for place in stretch.file]
    spent = profiled.median([step.name for step in stretch.runtime if step.name])
    if not all(step.name for step in stretch.runtime):  # parts of an operator that onnxruntime has no kernel for
        for node in members:
            node["runtime_note"] = _NAMELESS
        return
    if spent is None:
        return
    carrier = max(reversed(members), key=lambda node: (node["op"] not in _AROUND, node["flops"] or 0))
    carrier["microseconds"] = spent
    if len(members) == 1:
        return
    main = max(stretch.runtime, key=lambda step: profiled.median([step.name]) or 0.0)
    for node in members:
        node["fused_into"] = f"{main.op} '{main.name}'"
        if node is not carrier:
            node["runtime_note"] = f"part of the time of '{carrier['name']}'"


def _by_name(graph: ir.Graph, told: Sequence[Json], profiled: Profile) -> None:
    for node, data in zip(graph, told, strict=True):
        data["microseconds"] = profiled.median([str(node.name)])
    _of_bodies(graph, told, profiled)


def _of_bodies(graph: ir.Graph, told: Sequence[Json], profiled: Profile) -> None:
    """Nodes inside of others; all turns of a loop together."""
    for node, data in zip(graph, told, strict=True):
        for (_, body), inner in zip(named_bodies(node), data["graphs"], strict=False):
            _by_name(body, inner["nodes"], profiled)


def observed_shapes(model: ir.Model, feeds: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    """The shape of every value in a run without optimizations, by name: data decides over some."""
    profiled = profile(model, feeds, optimize=False)
    found: dict[str, tuple[int, ...]] = {}
    for node in profiled.file.all_nodes():
        given = [value for value in node.outputs if value.name]
        seen = profiled.shapes.get(str(node.name), [])
        if len(seen) == len(given):
            found.update((str(value.name), shape) for value, shape in zip(given, seen, strict=True))
    return found
