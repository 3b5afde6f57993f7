"""`python -m reliability.kernels`: call every CPU kernel with sizes that do not fit, and see which of them check.

    python -m reliability.kernels                      all operators, about half an hour on one core
    python -m reliability.kernels --ops grid_sampler_2d,lstm   some entries of the database or operators
    python -m reliability.kernels --write              also write src/onward/capture/ground/_checking_kernels.py
    python -m reliability.kernels --json sweep.json    everything that was seen

Each operator runs in a process of its own, in which every tensor ends at the end of a page (guard.c): a kernel that
reads or writes past a tensor dies there and is found, however little it was. A kernel is on the list that is written
if it was called with wrong sizes and neither died nor ran into its time limit. Needs a C compiler and Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from reliability.page import record

from .sweep import sweep
from .table import write

_HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", help="entries of the database or operators, with commas between them")
    parser.add_argument("--write", action="store_true", help="write the list of kernels that check their sizes")
    parser.add_argument("--json", type=Path, help="where to write everything that was seen")
    options = parser.parse_args()
    if "guard.so" not in os.environ.get("LD_PRELOAD", ""):
        sys.exit(_again_with_guard())
    found = sweep(options.ops.split(",") if options.ops else None)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    unsafe = {name: each for name, each in found.items() if each["died"]}
    for name, each in unsafe.items():
        print(f"{name}: {len(each['died'])} of {each['tried']} calls died")
        for text in each["died"][:6]:
            print(f"    {text}")
    print(f"{len(found)} operators, {sum(each['tried'] for each in found.values())} calls, {len(unsafe)} do not check")
    if options.write:
        write(found)
        record("kernels", _figures(found))


def _figures(found: dict[str, Any]) -> list[str]:
    calls, refused = (sum(each[key] for each in found.values()) for key in ("tried", "refused"))
    unsafe = sorted(name for name, each in found.items() if each["died"])
    version = torch.__version__.split("+")[0]
    return [
        f"PyTorch {version}: {len(found)} operators, {calls:,} calls with sizes that do not fit, {refused:,} of them",
        f"refused. {len(unsafe)} operators died in guarded memory after all checks of onward, and are never run at",
        "sizes that are made up:",
        "",
        *(f"- `{name}`" for name in unsafe),
    ]


def _again_with_guard() -> int:
    """The same command in a process whose tensors have guarded memory."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "guard.so"
        compiler = os.environ.get("CC", "cc")
        build = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(_HERE / "guard.c"), "-ldl", "-lpthread"]
        subprocess.run(build, check=True)
        environment = {**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", "-m", "reliability.kernels", *sys.argv[1:]]
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    main()
