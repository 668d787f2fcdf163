"""The public conformance suite: its scenarios for servers and clients, and their results."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.bounds import BOUND_S

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
PROGRAM = MODULES / "@modelcontextprotocol/conformance/dist/index.js"
VERSIONS = ("2025-11-25", "2026-07-28")
FAILED = {"FAILURE", "WARNING"}
"""Statuses that the suite's own baseline counts as failed."""

NO_CHECKS = "could-not-be-run"
"""The check of a scenario that ended without checks."""

SUITE_S = 300.0
"""Seconds after which a run of all scenarios counts as hung."""

FOLDER = re.compile(r"(?:server-)?(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
SCENARIO = re.compile(r"^  - (?P<scenario>[\w-]+) \[(?P<versions>[\d,-]+)\]$", re.MULTILINE)
SCORED = re.compile(r"^Client scenarios.*:\n(?P<list>(?:  - .+\n)+)", re.MULTILINE)
REPORTED = re.compile(r"^    - (?P<scenario>\S+) \[client\]$", re.MULTILINE)
EXPECTED = re.compile(r"^  - (?P<scenario>[\w/-]+):(?P<check>[\w-]+) # (?P<reason>.+)$")


def node22() -> str:
    """Return a Node that can run the suite and the Inspector: npm's package, or the one on PATH.

    npm has no such package for some machines; those need a separate Node 22.
    """
    for package in sorted(MODULES.glob("node-*/bin/node")):
        return str(package)
    found = shutil.which("node")
    assert found is not None, "Node is needed; see make test-interop"
    return found


def scenarios(version: str) -> list[str]:
    """List the suite's scenarios for a server of a version."""
    listed = _run_program("list", "--server", "--spec-version", version).stdout
    return [
        found["scenario"]
        for found in SCENARIO.finditer(listed)
        if version in found["versions"].split(",")
    ]


@dataclass(frozen=True)
class ClientScenarios:
    """The suite's scenarios for a client: required by a revision, and only reported."""

    scored: Sequence[str]
    reported: Sequence[str]


def client_scenarios(version: str) -> ClientScenarios:
    """List the suite's scenarios for a client of a version."""
    listed = _run_program("list", "--requirements", version).stdout
    found = SCORED.search(listed)
    assert found is not None, listed
    scored = [line.removeprefix("  - ") for line in found["list"].splitlines()]
    return ClientScenarios(scored, [it["scenario"] for it in REPORTED.finditer(listed)])


@dataclass(frozen=True)
class Outcome:
    """The result of one run: the failed checks of each scenario with their messages."""

    failed: Mapping[str, Mapping[str, str]]
    passed: int


def run_suite(url: str, version: str, folder: Path) -> Outcome:
    """Run every server scenario of a version against a URL; results are kept in ``folder``."""
    _run_program(
        "server", "--url", url, "--suite", "all", "--spec-version", version, "-o", str(folder)
    )
    return _outcome(folder)


def run_client_suite(command: str, version: str, folder: Path) -> Outcome:
    """Run every client scenario of a version with a command; results are kept in ``folder``."""
    options = ["--requirements", version, "--timeout", str(1000 * BOUND_S), "-o", str(folder)]
    _run_program("client", "--command", command, *options)
    return _outcome(folder)


def _outcome(folder: Path) -> Outcome:
    failed: dict[str, dict[str, str]] = {}
    passed = 0
    for scenario, checks in _results(folder):
        failed[scenario] = {
            check["id"]: check.get("errorMessage", check["description"])
            for check in checks
            if check["status"] in FAILED
        }
        passed += sum(check["status"] == "SUCCESS" for check in checks)
    return Outcome(failed, passed)


def _results(folder: Path) -> Iterator[tuple[str, Sequence[dict[str, str]]]]:
    nothing = {"id": NO_CHECKS, "status": "FAILURE", "description": "it gave no checks"}
    for each in folder.rglob("*Z"):
        named = FOLDER.fullmatch(each.relative_to(folder).as_posix())
        assert named is not None, each.name
        checks = each / "checks.json"
        yield named["scenario"], json.loads(checks.read_text()) if checks.exists() else [nothing]


def _run_program(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the suite's program; its exit code only repeats its results."""
    return subprocess.run(  # noqa: S603 - the pinned package
        [node22(), str(PROGRAM), *words],
        capture_output=True,
        text=True,
        timeout=SUITE_S,
        check=False,
    )


def expected_failures(version: str, leg: str = "server") -> dict[str, dict[str, str]]:
    """Read the reasons of expected failures, of the server or client, by scenario and check.

    The file has the suite's format, one check per line, followed by its reason.
    """
    expected: dict[str, dict[str, str]] = {}
    section = ""
    text = (HERE / f"expected_failures_{version}.yml").read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line.startswith("  - "):
            section = line.partition(":")[0]
        elif section == leg:
            found = EXPECTED.fullmatch(line)
            assert found is not None, f"no check with a reason: {line}"
            expected.setdefault(found["scenario"], {})[found["check"]] = found["reason"]
    return expected
