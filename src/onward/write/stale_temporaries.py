"""Temporary files of a process that was killed: the next writer of the same name removes them.

A temporary name says whose it is: the machine since its last start, the process and when that began. A file is removed
only if its process ran on this machine, in this process namespace, and is gone. Whatever cannot be told apart stays.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import secrets
import shutil

_LONGEST = 40  # characters of the target's name: a name near the file system's limit must still fit with the ending
_OWNED = re.compile(r"(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-(?P<began>\d+)\.[0-9a-f]{12}(\.(?P<kind>tmp|old))?")
_BEFORE, _BEFORE_FOLDER = ".", ".onward-"


def temporary_name(name: str) -> str:
    """A name beside a file, for what will become that file: `.model.onnx.3f0c2a91-4711-880213.5d1f6a0b93e2.tmp`."""
    return f"{_BEFORE}{name[:_LONGEST]}.{_owner()}.{secrets.token_hex(6)}.tmp"


def temporary_folder(name: str) -> str:
    """A name beside a file, for a folder in which it is made."""
    return f"{_BEFORE_FOLDER}{name[:_LONGEST]}.{_owner()}.{secrets.token_hex(6)}"


def remove_leftovers(path: str, *, backups: bool = False) -> None:
    """Remove what processes that are gone have left of a file and of its data file: half-written files and folders.

    Backups, which hold an older data file, are removed on request: once there is a newer one.
    """
    directory, name = os.path.split(path)
    stems = {f"{before}{each[:_LONGEST]}." for each in (name, f"{name}.data") for before in (_BEFORE, _BEFORE_FOLDER)}
    with contextlib.suppress(OSError):  # a folder that may be written to and not be listed
        for found in os.listdir(directory or "."):
            if any(_is_leftover(found, stem, backups) for stem in stems):
                _remove(os.path.join(directory, found))


def _is_leftover(found: str, stem: str, backups: bool) -> bool:
    owned = _OWNED.fullmatch(found[len(stem) :]) if found.startswith(stem) else None
    if owned is None or (owned["kind"] is None) != stem.startswith(_BEFORE_FOLDER):
        return False
    return (backups or owned["kind"] != "old") and _is_gone(owned)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):  # somebody else's file, or one that another writer has just removed
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)


def _owner() -> str:
    return f"{_machine()}-{os.getpid()}-{_began(os.getpid()) or 0}"


def _is_gone(owned: re.Match[str]) -> bool:
    if owned["machine"] != _machine() or os.name != "posix":
        return False
    process, began = int(owned["process"]), int(owned["began"])
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it is there, and belongs to somebody else
        pass
    now = _began(process)
    return bool(began and now and now != began)  # the same number, given to another process


def _began(process: int) -> int | None:
    """When a process began, in ticks since the machine's start; None where the system does not tell."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            # The second field is the program's name in parentheses, which may contain anything.
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


@functools.cache
def _machine() -> str:
    """The machine, since it was started, and the namespace that the numbers of its processes belong to."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            parts.append(file.read().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
