"""Where the peers come from: npm and PyPI, at the versions and hashes of our lock files."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import ROOT

FOLDER = Path(__file__).resolve().parent
MODULES = FOLDER / "node_modules"
ENVIRONMENTS = ROOT / ".venv-peers"
REQUIREMENTS = ROOT / "requirements"
FETCH_LIMIT_S = 600.0


class NotFetched(Exception):
    """A peer that its registry did not deliver, or that lacks Node."""


@dataclass(frozen=True, slots=True)
class Package:
    """One peer's package; ``is_node`` for npm, otherwise PyPI."""

    name: str
    is_node: bool

    @property
    def version(self) -> str:
        """Return the pinned version."""
        if self.is_node:
            pins = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
            return str(pins["dependencies"][self.name])
        pin = (REQUIREMENTS / f"peer-{self.name}.in").read_text(encoding="utf-8")
        return pin.strip().partition("==")[2]

    def program(self, script: str) -> list[str]:
        """Return how the package's program is run. Raises NotFetched."""
        if self.is_node:
            return [_node(), str(MODULES / self.name / script)]
        return [str(ENVIRONMENTS / self.name / "bin" / script)]

    def fetch(self) -> None:
        """Install the package, unless its lock is older than what is there. Raises NotFetched."""
        if self.is_node:
            _node()
            _fetch_npm()
        else:
            _fetch_pip(self.name)


def _node() -> str:
    node = shutil.which("node")
    if node is None:
        raise NotFetched("Node is not on PATH")
    return node


def _fetch_npm() -> None:
    """Install all peers of npm at once; without the scripts that packages bring."""
    lock = FOLDER / "package-lock.json"
    if _is_current(MODULES, lock):
        return
    options = ["--ignore-scripts", "--no-audit", "--no-fund"]
    _execute(["npm", "ci", "--prefix", str(FOLDER), *options])
    _record(MODULES)


def _fetch_pip(name: str) -> None:
    """Install one peer of PyPI in its own environment: they need different versions of mcp."""
    lock = REQUIREMENTS / f"peer-{name}.lock"
    environment = ENVIRONMENTS / name
    if _is_current(environment, lock):
        return
    _execute([sys.executable, "-m", "venv", str(environment)])
    pip = [str(environment / "bin/python"), "-m", "pip", "--disable-pip-version-check"]
    _execute([*pip, "install", "--quiet", "--no-deps", "--require-hashes", "-r", str(lock)])
    _record(environment)


def _is_current(folder: Path, lock: Path) -> bool:
    installed = folder / ".installed"
    return installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime


def _record(folder: Path) -> None:
    (folder / ".installed").touch()


def _execute(command: Sequence[str]) -> None:
    """Run a program to its end. Raises NotFetched with the first error that it wrote."""
    try:
        done = subprocess.run(  # noqa: S603 - npm, or Python's own pip
            command, capture_output=True, text=True, check=False, timeout=FETCH_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFetched(f"{Path(command[0]).name}: {error}") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        first = next((line for line in lines if "error" in line.lower()), lines[-1])
        raise NotFetched(f"{Path(command[0]).name} failed: {first.strip()}")
