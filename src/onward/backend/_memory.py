"""How much memory the machine has left, and how much this process holds."""

from __future__ import annotations

import os
from pathlib import Path

_UNKNOWN = 2**36


def available_bytes() -> int:
    """Four fifths of what could be taken now, by the machine and by the container that this runs in."""
    left = [_of_machine()]
    for folder, most, used in (
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        limit, current = _number(f"{folder}/{most}"), _number(f"{folder}/{used}")
        if limit is not None and current is not None:
            left.append(limit - current + _cached(f"{folder}/memory.stat"))
    return max(0, min(left)) * 4 // 5


def _of_machine() -> int:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not a Unix
        return _UNKNOWN


def resident_bytes() -> int:
    """What this process holds in memory; 0 where the system does not say."""
    for line in _lines("/proc/self/statm"):
        return int(line.split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _cached(path: str) -> int:
    """Bytes of files that a container counts as its own and gives back when they are needed."""
    for line in _lines(path):
        if line.startswith(("inactive_file ", "total_inactive_file ")):
            return int(line.split()[1])
    return 0


def _number(path: str) -> int | None:
    for line in _lines(path):
        return int(line) if line.strip().isdigit() else None
    return None


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
