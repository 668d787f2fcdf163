"""One gateway for all tests: its servers take ten seconds of CPU to start."""

from collections.abc import Iterator

import pytest

from tests.fleet.gateway import Fleet, running_fleet


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    with running_fleet() as running:
        yield running
