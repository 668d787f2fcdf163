"""The tests' Redis is found on machines without a wheel of its package."""

import subprocess
import sys
from pathlib import Path

from tests.support.program_launch import ROOT

FIND = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.support.redis_server import server_program
print(server_program())
"""


def found(folder: Path) -> subprocess.CompletedProcess[str]:
    """Find the server without installed packages, with ``folder`` as PATH."""
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-I", "-S", "-c", FIND, ROOT],
        capture_output=True,
        check=False,
        env={"PATH": str(folder)},
        text=True,
    )


def test_the_server_on_path_is_used_without_the_package(tmp_path: Path) -> None:
    for name in ("redis-server", "valkey-server"):
        program = tmp_path / name
        program.touch(mode=0o755)
        assert found(tmp_path).stdout == f"{program}\n"


def test_the_package_to_install_is_named_if_the_server_is_missing(tmp_path: Path) -> None:
    complaint = found(tmp_path).stderr
    assert "install the package valkey or redis" in complaint
    assert "valkey-server" in complaint
