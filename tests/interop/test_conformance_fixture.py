"""The suite finds no fault in the fixture itself, so its findings are the gateway's."""

from pathlib import Path

import pytest

from tests.interop.conformance_suite import run_suite


@pytest.mark.parametrize(("version", "passed"), [("2025-11-25", 84), ("2026-07-28", 152)])
def test_the_fixture_passes_every_check_when_tested_directly(
    fixture_url: str, tmp_path: Path, version: str, passed: int
) -> None:
    direct = run_suite(fixture_url, version, tmp_path)
    failed = {name: checks for name, checks in direct.failed.items() if checks}
    assert (failed, direct.passed) == ({}, passed)
