"""A client of the gateway as a user makes one: by openapi-python-client, from the document."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.bounds import BOUND_S
from tests.support.source_files import ROOT

PROGRAMS = ROOT / ".venv-client-generator/bin"
"""Made by ``make test``."""

PACKAGE = "mcp_tools_proxy_client"
"""What the generator calls the package, after the title of the document."""


def generate(arguments: Sequence[str | Path], folder: Path) -> None:
    """Run the generator in ``folder``; a warning is an error."""
    done = subprocess.run(  # noqa: S603 - the pinned generator, no shell
        [PROGRAMS / "openapi-python-client", *arguments, "--fail-on-warning"],
        cwd=folder,
        env={"PATH": f"{PROGRAMS}:{os.defpath}", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
