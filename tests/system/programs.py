"""Programs from Debian packages."""

import shutil

import pytest


def installed(program: str) -> str:
    """Return the path of a program, or fail the test with the install command."""
    path = shutil.which(program)
    if path is None:
        pytest.fail(f"{program} is not installed; run .ci/setup, which installs it")
    return path
