"""The sweep itself: a process for each operator, which is started again behind a call that it died of."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_map

from onward.capture.ground.size_checks import SizesDoNotFit, check_sizes

from .calls import Call, below_autograd, collect
from .mutate import mutations

_SECONDS = 5  # for one call
_MOST_DEATHS = 40  # of one operator; by then it is known
_MEMORY = 6 << 30
Seen = dict[str, Any]


def sweep(names: list[str] | None = None) -> dict[str, Seen]:
    """What was seen, by operator."""
    ctypes.CDLL(os.environ["LD_PRELOAD"].split(":")[0]).guard_on()
    calls = collect()
    if names:
        calls = {op: each for op, each in calls.items() if {str(op), op._schema.name.split("::")[1]} & set(names)}
    found = {}
    for place, op in enumerate(sorted(calls, key=str), 1):
        found[str(op)] = seen = _operator(op, calls[op])
        print(f"\r{place}/{len(calls)} {op!s:60.60}", end="", file=sys.stderr, flush=True)
        if seen["died"]:
            print(f"\n{op}: {seen['died'][0]}", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def _operator(op: OpOverload, calls: list[Call]) -> Seen:
    seen: Seen = {"tried": 0, "refused": 0, "accepted": 0, "died": [], "meta": {}}
    for number, call in enumerate(calls):
        start = -1  # the call as it is, first: a kernel that dies of it is not to be judged here
        while start is not None and len(seen["died"]) < _MOST_DEATHS:
            start = _from(op, call, number, start, seen)
    return seen


def _from(op: OpOverload, call: Call, number: int, start: int, seen: Seen) -> int | None:
    """Run the changed calls from one on in another process; where to go on if it died, None at the end."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _run(op, call, start, write)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    begun: tuple[int, str] | None = None
    for line in lines:
        kind, place, text = json.loads(line)
        if kind == "begin":
            begun = (place, text)
            continue
        begun = None
        seen["tried"] += place >= 0
        seen[kind.split()[0]] += 1
        if place >= 0:
            seen["meta"][kind] = seen["meta"].get(kind, 0) + 1
        else:
            seen["meta"][f"fitting: {kind}"] = seen["meta"].get(f"fitting: {kind}", 0) + 1
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
        return None
    place, text = begun or (10**9, "at its end: memory was written that is not a tensor's")
    code = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
    seen["died"].append(f"{code}, call {number}, {text}")
    seen["tried"] += 1
    return place + 1


def _run(op: OpOverload, call: Call, start: int, pipe: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)

    def say(kind: str, place: int, text: str) -> None:
        os.write(pipe, (json.dumps([kind, place, text]) + "\n").encode())

    cases = [(-1, "as it is", call[1], call[2])]
    cases += [(place, *each) for place, each in enumerate(mutations(call))]
    for place, text, args, kwargs in cases:
        if place < start:
            continue
        say("begin", place, f"{text}, on meta")
        signal.alarm(_SECONDS)
        meta = _meta(op, args, kwargs)
        say("begin", place, f"{text}, meta {meta}")
        real = _outcome(op, args, kwargs)
        signal.alarm(0)
        say(f"{real} {meta}", place, text)


def _outcome(op: OpOverload, args: Any, kwargs: Any) -> str:
    """What onward would see: a kernel with a check of ours is called only if its sizes pass."""
    try:
        check_sizes(op, args, kwargs)
    except SizesDoNotFit:
        return "refused"
    args, kwargs = tree_map(lambda value: value.clone() if isinstance(value, torch.Tensor) else value, (args, kwargs))
    try:
        with torch.no_grad(), below_autograd():
            op(*args, **kwargs)
    except Exception:
        return "refused"
    return "accepted"


def _meta(op: OpOverload, args: Any, kwargs: Any) -> str:
    def meta(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.layout is not torch.strided or value.is_quantized:
                raise NotImplementedError
            return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
        return torch.device("meta") if isinstance(value, torch.device) else value

    try:
        check_sizes(op, args, kwargs)
        args, kwargs = tree_map(meta, (args, kwargs))
        check_sizes(op, args, kwargs)
        if any(each.name == "device" for each in op._schema.arguments):
            kwargs["device"] = torch.device("meta")
        with torch.no_grad(), below_autograd():
            op(*args, **kwargs)
    except NotImplementedError:
        return "missing"
    except Exception:
        return "refused"
    return "accepted"
