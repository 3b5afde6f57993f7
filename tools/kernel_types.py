"""Write src/onward/lower/_kernel_types.py: the element types that onnxruntime's CPU kernels accept.

    python tools/kernel_types.py            rewrite the table from the installed onnxruntime
    python tools/kernel_types.py --check    fail if the committed table differs

The table is committed so that an exported file depends on onward's version alone, not on the runtime beside it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

from onward.lower.dtypes import LETTERS, from_type_string

TARGET = Path(__file__).parent.parent / "src" / "onward" / "lower" / "_kernel_types.py"
HEADER = '''"""Element types that onnxruntime {version} runs on the CPU. Written by tools/kernel_types.py; do not edit.

operator -> [(first version, last version, {{type variable: letters, see dtypes.LETTERS}})]
A variable that is missing takes every type of the schema.
"""
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

KERNEL_TYPES: dict[str, list[tuple[int, int, dict[str, str]]]] = {{
'''


def collect() -> dict[str, dict[tuple[int, int], list[dict[str, list[str]]]]]:
    """All kernels of the default domain: operator -> version range -> the constraints of each kernel."""
    table: dict[str, dict[tuple[int, int], list[dict[str, list[str]]]]] = defaultdict(lambda: defaultdict(list))
    for kernel in get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider" and kernel.domain == "":
            table[kernel.op_name][kernel.version_range].append(kernel.type_constraints)
    return table


def merge(kernels: list[dict[str, list[str]]]) -> dict[str, str]:
    """The union over kernels of one version; a variable that any of them leaves open is open."""
    shared = set(kernels[0]).intersection(*kernels)
    merged = {}
    for variable in sorted(shared):
        types = {from_type_string(text) for kernel in kernels for text in kernel[variable]}
        letters = "".join(letter for letter, dtype in LETTERS.items() if dtype in types)
        if letters:
            merged[variable] = letters
    return merged


def render() -> str:
    lines = [HEADER.format(version=onnxruntime.__version__)]
    for op, versions in sorted(collect().items()):
        rows = [(first, last, merge(kernels)) for (first, last), kernels in sorted(versions.items())]
        text = ", ".join(f"({first}, {last}, {_braced(variables)})" for first, last, variables in rows)
        lines.append(f'    "{op}": [{text}],\n')
    lines.append("}\n")
    return "".join(lines)


def _braced(variables: dict[str, str]) -> str:
    return "{" + ", ".join(f'"{name}": "{letters}"' for name, letters in variables.items()) + "}"


def main() -> int:
    text = render()
    if "--check" in sys.argv[1:]:
        same = TARGET.exists() and TARGET.read_text() == text
        print("up to date" if same else f"{TARGET} differs from onnxruntime {onnxruntime.__version__}")
        return 0 if same else 1
    TARGET.write_text(text)
    print(f"wrote {TARGET} ({len(text)} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
