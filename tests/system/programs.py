"""Programs from Debian's packages."""

import shutil

import pytest


def installed(program: str) -> str:
    """Return the path of a program. Fails the test, naming the command, if it is not there."""
    path = shutil.which(program)
    if path is None:
        pytest.fail(f"{program} is not installed; run .ci/setup, which installs it")
    return path
