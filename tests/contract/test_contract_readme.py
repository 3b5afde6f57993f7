"""README.md of this folder names every test file, in the row that the file's number says."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROWS = {
    f"{row[0]}{int(row[1:])}": set(re.findall(r"`([\w/]+\.py)`", tested))
    for row, tested in re.findall(
        r"^\| ([A-H]\d+) \| [^|]+ \| ([^|]+) \|$", (HERE / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
}


def _row_of(file: str) -> str:
    return f"{file[5].upper()}{int(file[6:8])}"


def test_every_file_is_listed_in_its_row() -> None:
    files = {path.name for path in HERE.glob("test_[a-h][0-9]*.py")}
    others = {path.name for path in HERE.glob("test_*.py")} - files
    assert others == {Path(__file__).name}, "a test file is named after the row of the contract that it tests"
    assert {name for name in files if name not in ROWS.get(_row_of(name), set())} == set()


def test_every_row_names_files_that_exist() -> None:
    assert {row[0] for row in ROWS} == set("ABCDEFGH")
    for row, files in ROWS.items():
        assert files, f"{row} has no test"
        assert all((HERE / file).exists() or (ROOT / file).exists() for file in files), row


def test_the_rows_of_a_section_have_no_gap() -> None:
    for section in "ABCDEFG":
        numbers = [int(row[1:]) for row in ROWS if row[0] == section]
        assert numbers == list(range(1, len(numbers) + 1)), section
    assert [row for row in ROWS if row[0] == "H"] == [f"H{number}" for number in range(7)]
