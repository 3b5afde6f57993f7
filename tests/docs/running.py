"""A page run from top to bottom: one folder, one namespace, what each block prints held against what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import traceback
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from onward.cli.app import app

from .blocks import ROOT, Block, blocks, matches, name_of

PREPARED = Path(__file__).parent / "prepared"


def run_page(page: Path) -> int:
    """Run the blocks of a page in the current folder; how many were run."""
    return _Page(page).run()


class _Page:
    def __init__(self, page: Path) -> None:
        self.page, self.count = page, 0
        self.printed: str | None = None  # by the last block; None where nothing was run
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def run(self) -> int:
        prepared = PREPARED / f"{name_of(self.page).removeprefix('docs/').replace('/', '_').removesuffix('.md')}.py"
        if prepared.exists():
            exec(compile(prepared.read_text(encoding="utf-8"), str(prepared), "exec"), self.names)
        for block in blocks(self.page.read_text(encoding="utf-8")):
            self.step(block)
        return self.count

    def step(self, block: Block) -> None:
        where = f"{name_of(self.page)}:{block.line}"
        if "not run" in block.said:
            self.printed = None
            return
        if block.language == "text":
            assert self.printed is not None, f"{where} shows what a block prints, and none was run before it"
            if not matches(block.text, self.printed):
                pytest.fail(f"{where} shows\n{block.text}\nand what is printed is\n{self.printed}", pytrace=False)
            self.printed = None
            return
        self.count += 1
        self.printed = {"python": self.python, "sh": self.shell, "yaml": self.yaml}[block.language](block, where)

    def python(self, block: Block, where: str) -> str:
        stem = re.sub(r"\W", "_", self.page.stem.lower())
        file = Path(block.said.get("file", f"{stem}.py"))
        file.write_text(block.text, encoding="utf-8")  # lines of models and sources of scripts are looked up there
        printed, error = io.StringIO(), None
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what pages say of warnings, they print
            try:
                exec(compile(block.text, str(file), "exec"), self.names)
            except Exception as raised:
                error = raised
        if (expected := block.said.get("raises")) is None:
            if error is not None:
                pytest.fail(f"{where} raises\n" + "".join(traceback.format_exception(error)), pytrace=False)
            return printed.getvalue()
        assert type(error).__name__ == expected, f"{where} raises {error!r}, not {expected}"
        return printed.getvalue() + "".join(traceback.format_exception_only(error))

    def shell(self, block: Block, where: str) -> str:
        printed = ""
        for command in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(command, comments=True)
            if not words:
                continue
            if words[0] == "make":
                _check_targets(words[1:], where)
                continue
            assert words[0] == "onward", f"{where} has a command that no test runs: {command}"
            done = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"}).invoke(app, words[1:])
            expected = int(block.said.get("fails", "0"))
            if done.exit_code != expected:
                pytest.fail(f"{where}: `{command}` ends with {done.exit_code}\n{done.output}", pytrace=False)
            printed += done.output
        return printed

    def yaml(self, block: Block, where: str) -> str:
        del where
        file = Path(block.said.get("file", "page.yaml"))
        file.write_text(block.text, encoding="utf-8")
        assert isinstance(yaml.safe_load(block.text), dict)
        self.names["onward"].load_config(file)
        return ""


def _check_targets(words: list[str], where: str) -> None:
    """The targets that are named exist; what they do is not for here."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    unknown = [word for word in words if "=" not in word and word not in targets]
    assert not unknown, f"{where} names targets that the Makefile does not have: {unknown}"
