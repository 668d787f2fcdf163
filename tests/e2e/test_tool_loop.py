"""The tool loop of the tutorial: what users copy is what runs."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.bounds import BOUND_S

ROOT = Path(__file__).parents[2]
LOOP = ROOT / "examples/tool_loop.py"


def test_the_loop_runs_without_a_network_and_ends_with_the_models_answer() -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, LOOP],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
    )
    called, answer = done.stdout.splitlines()
    result = json.loads(called.partition(" -> ")[2])
    assert (list(result["structured_content"]), answer) == (
        ["vpn"],
        "Switch the VPN client to TCP port 443.",
    )


def test_the_tutorial_shows_the_loop_as_it_is() -> None:
    code = LOOP.read_text(encoding="utf-8").partition('"""\n\n')[2]
    assert code in (ROOT / "docs/tutorials/agent-tool-loop.md").read_text(encoding="utf-8")
