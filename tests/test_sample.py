"""`--sample N` keeps the first case of every test, and each Nth."""

from __future__ import annotations

import pytest

pytest_plugins = "pytester"


def test_each_third_case_is_kept(pytester: pytest.Pytester, request: pytest.FixtureRequest) -> None:
    conftest = request.config.rootpath / "tests" / "conftest.py"
    pytester.makeconftest(conftest.read_text(encoding="utf-8"))
    pytester.makepyfile("""
        import pytest

        @pytest.mark.parametrize("case", range(7))
        def test_many(case):
            assert case in (0, 3, 6)

        def test_one():
            pass
    """)
    pytester.runpytest_inprocess("--sample", "3").assert_outcomes(passed=4, deselected=4)
