"""Peak resident memory of a stretch of code, from the kernel's own high-water mark."""

from __future__ import annotations

import ctypes
import gc
import re
from pathlib import Path

_RESET_PEAK = "5"  # proc(5), clear_refs: set the high-water mark to the current resident size


class PeakMeter:
    """Measures from `start()` to `stop()` how far the resident size rose above where it stood.

    Linux only. Memory that was freed but kept by the allocator is handed back first, otherwise it would be reused
    without showing.
    """

    def __init__(self) -> None:
        self.before = 0

    def start(self) -> None:
        gc.collect()
        _return_freed_memory()
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
        self.before = _status_bytes("VmRSS")

    def stop(self) -> int:
        return max(0, _status_bytes("VmHWM") - self.before)


def _return_freed_memory() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc; musl has no such call and keeps little
    if trim is not None:
        trim(0)


def _status_bytes(field: str) -> int:
    match = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if match is None:
        raise RuntimeError(f"/proc/self/status has no {field}; peak memory can only be measured on Linux")
    return int(match.group(1)) * 1024
