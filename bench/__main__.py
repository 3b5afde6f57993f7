"""The command line: `python -m bench`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console

from .exporters import EXPORTERS
from .models import MODELS, QUICK
from .report import show
from .runner import FORMAT, Plan, run


def _names(allowed: Iterable[str], what: str) -> Any:
    known = tuple(allowed)

    def parse(text: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in text.split(",") if name.strip())
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise argparse.ArgumentTypeError(f"{what} {', '.join(unknown) or 'missing'}; known: {', '.join(known)}")
        return tuple(dict.fromkeys(names))

    return parse


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _earlier_results(text: str) -> dict[str, Any]:
    try:
        results = json.loads(Path(text).read_text())
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"cannot read {text}: {error}") from error
    if not isinstance(results, dict) or results.get("format") != FORMAT:
        raise argparse.ArgumentTypeError(f"{text} is not a result of this version of bench")
    return results


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m bench", description="Compare onward with torch.onnx.export.")
    add = result.add_argument
    add("--models", type=_names(MODELS, "unknown model"), help="comma-separated; all by default")
    add("--exporters", type=_names(EXPORTERS, "unknown exporter"), default=tuple(EXPORTERS), help="comma-separated")
    add("--repeat", type=_positive, default=2, help="processes per model and exporter (2), the lower median counts")
    add("--opset", type=int, help="for all exporters; each one's own default otherwise")
    add("--json", type=Path, default=Path("out/bench.json"), help="where the results go (out/bench.json)")
    add("--quick", action="store_true", help=f"only {', '.join(QUICK)} unless --models is given, shorter latency runs")
    add("--peers-from", type=_earlier_results, metavar="JSON", help="reuse the peers' results of an earlier run")
    add("--keep-files", action="store_true", help="keep the exported files, several GB, beside the JSON")
    add("--threads", type=_positive, help="of PyTorch while exporting; 1 is steadier on a busy machine")
    add("--timeout", type=float, default=900, help="seconds after which a process counts as failed (900)")
    return result


def main() -> None:
    options = parser().parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=150)  # a log has no width of its own, and the tables need one
    target: Path = options.json
    target.parent.mkdir(parents=True, exist_ok=True)

    def save(results: dict[str, Any]) -> None:
        target.write_text(json.dumps(results, indent=1) + "\n")

    plan = Plan(
        models=options.models or (QUICK if options.quick else tuple(MODELS)),
        exporters=options.exporters,
        repeat=options.repeat,
        opset=options.opset,
        latency_seconds=0.4 if options.quick else 1.5,
        timeout=options.timeout,
        threads=options.threads,
        files=target.resolve().with_suffix(".files"),
        keep_files=options.keep_files,
        earlier=options.peers_from,
    )
    with console.status("starting") as status:

        def say(message: str) -> None:
            status.update(message)
            if not console.is_terminal:
                console.print(message, markup=False)

        results = run(plan, say, save)
    show(results, console)
    console.print(f"written to {target}", markup=False)


if __name__ == "__main__":
    main()
