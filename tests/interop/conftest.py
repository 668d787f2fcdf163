"""The stranger over each of its transports; over the network one process serves all tests."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.everything import running_everything, stdio_entry

Json = dict[str, Any]


@pytest.fixture(scope="session")
def http_entry() -> Iterator[Json]:
    with running_everything("http") as server:
        yield server.entry


@pytest.fixture(scope="session")
def sse_entry() -> Iterator[Json]:
    with running_everything("sse") as server:
        yield server.entry


@pytest.fixture(params=["stdio", "http", "sse"])
def entry(request: pytest.FixtureRequest) -> Json:
    """Give the entry of one transport."""
    found: Json
    found = (
        stdio_entry()
        if request.param == "stdio"
        else request.getfixturevalue(f"{request.param}_entry")
    )
    return found
