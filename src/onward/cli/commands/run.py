"""`onward run`: a file on some inputs, in onnxruntime or on PyTorch."""

from __future__ import annotations

import enum
import io
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console.command import EXIT_CODES, Answer, Debug, Force, Json, ModelFile, check_free, table, working
from ..models.model_options import Inputs, Seed

if TYPE_CHECKING:  # they need PyTorch, and --help and completion do not
    import numpy as np

    from ..files.file_inputs import Opened

EPILOG = f"""Examples:
  onward run m.onnx                                      on inputs made up from what the file declares
  onward run m.onnx -i "x:f32[4,3,224,224]" -o out.npz
  onward run m.onnx -i x=picture.npy --backend onward    on PyTorch instead of onnxruntime
  onward run m.onnx --backend onward --max-seconds 600   a file that takes minutes there

{EXIT_CODES}
"""


class Runtime(str, enum.Enum):
    """What runs the file."""

    onnxruntime = "onnxruntime"
    onward = "onward"


def run(
    model: ModelFile,
    input: Inputs = [],  # noqa: B006 (typer copies it)
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the outputs to an .npz file.")
    ] = None,
    backend: Annotated[
        Runtime, typer.Option(metavar="NAME", help="What runs the file: onnxruntime or onward.")
    ] = Runtime.onnxruntime,
    max_seconds: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.001, help="With --backend onward: stop a run that takes longer."),
    ] = 60,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> Answer:
    """Run an ONNX file and show its outputs."""
    from ..files.file_inputs import given_inputs, open_file

    given = given_inputs(input, seed)
    if output is not None:
        check_free(output, force)
    opened = open_file(model)
    with working(f"running {model}"):
        names, results, seconds = _results(opened, given, backend, max_seconds)
    rows = [row for name, result in zip(names, results, strict=True) for row in _rows(name, result)]
    if output is not None:
        _write(output, dict(rows))
    described = [_described(name, array) for name, array in rows]
    data = {"ok": True, "outputs": described, "seconds": seconds, "file": str(output) if output is not None else None}
    return Answer(data, lambda: _show(data))


def _results(opened: Opened, given: Any, backend: Runtime, max_seconds: float) -> tuple[list[str], list[Any], float]:
    from onward.verify import Session

    from ..files.file_inputs import feeds_of

    names = [str(value.name) for value in opened.model.graph.outputs]
    if backend is Runtime.onward:
        from onward.backend import Limits, prepare

        prepared = prepare(opened.path, limits=Limits(max_seconds=max_seconds))
        feeds = feeds_of(opened, given, lambda feeds: [*prepared.run(feeds)])
        start = time.perf_counter()
        results = [*prepared.run(feeds)]
    else:
        session = Session(opened.path)
        feeds = feeds_of(opened, given, session.run)
        start = time.perf_counter()
        results = list(session.run(feeds))
    return names, results, time.perf_counter() - start


def _rows(name: str, result: Any) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Arrays with a name; a list has one for each element."""
    import numpy as np
    import torch

    if isinstance(result, (list, tuple)):
        return [row for place, each in enumerate(result) for row in _rows(f"{name}.{place}", each)]
    if isinstance(result, torch.Tensor):
        try:
            return [(name, result.detach().numpy())]
        except TypeError:  # bfloat16 and the float8 types, which numpy does not have: float32 holds them all
            return [(name, result.detach().float().numpy())]
    return [(name, np.asarray(result))]


def _described(name: str, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    import numpy as np

    found: dict[str, Any] = {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
    if array.size and array.dtype.kind in "fiub":
        found.update(min=float(array.min()), max=float(array.max()), mean=float(array.mean(dtype=np.float64)))
    return found


def _write(path: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """np.savez takes names as keyword arguments, and cannot have one that is called "file"."""
    import numpy as np

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    path.write_bytes(content.getvalue())


def _show(data: dict[str, Any]) -> None:
    def shown(row: dict[str, Any], key: str) -> str:
        return f"{row[key]:.6g}" if isinstance(row.get(key), float) else str(row.get(key, ""))

    rows = [
        [row["name"], row["dtype"], "x".join(map(str, row["shape"])) or "scalar",
         *(shown(row, key) for key in ("min", "max", "mean"))]
        for row in data["outputs"]
    ]  # fmt: skip
    table(["output", "type", "shape", "min", "max", "mean"], rows)
    print(f"\n{data['seconds'] * 1000:.1f} ms" + (f", written to {data['file']}" if data["file"] else ""))
