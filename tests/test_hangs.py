"""A hanging test fails by its time limit and is named."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.bounds import BOUND_S
from tests.support.program_launch import ROOT

HANGS = {
    "a wait of the event loop": """
import asyncio

async def test_hangs() -> None:
    await asyncio.Event().wait()
""",
    "a thread": """
import threading

def test_hangs() -> None:
    thread = threading.Thread(target=threading.Event().wait, daemon=True)
    thread.start()
    thread.join()
""",
    "a fixture": """
import threading, pytest

@pytest.fixture
def slow() -> None:
    threading.Event().wait()

def test_hangs(slow: None) -> None: ...
""",
    "what survives the exception": """
import threading

def test_hangs() -> None:
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            pass
""",
}


@pytest.mark.parametrize("hang", HANGS)
def test_a_hanging_test_is_named(tmp_path: Path, hang: str) -> None:
    (tmp_path / "test_it.py").write_text(HANGS[hang] + "\n\ndef test_other() -> None: ...\n")
    bounds = ["-o", "timeout=1", "-o", "faulthandler_timeout=2"]
    done = subprocess.run(  # noqa: S603 - our own program
        [
            *(sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml")),
            *("--rootdir", str(tmp_path), *bounds, "--numprocesses", "1"),
            *("-p", "no:cacheprovider", str(tmp_path)),
        ],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        text=True,
        timeout=BOUND_S,
    )
    assert "FAILED test_it.py::test_hangs" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_a_hang_ends_within_two_minutes(pytestconfig: pytest.Config) -> None:
    bounds = [float(str(pytestconfig.getini(it))) for it in ("timeout", "faulthandler_timeout")]
    assert [BOUND_S, *bounds, 120] == sorted([BOUND_S, *bounds, 120])
