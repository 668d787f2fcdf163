"""Programs from Debian's packages: a test that needs one fails where it is missing."""

import pytest

from tests.system.programs import installed


@pytest.fixture(scope="session")
def promtool() -> str:
    """Return the path of Prometheus' tool for rules."""
    return installed("promtool")
