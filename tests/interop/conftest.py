"""Servers run once for all tests, and server-everything over its transports."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.conformance_fixture import running_fixture
from tests.interop.everything_server import running_everything, stdio_entry
from tests.mcp_server.clients.gateway_program import entries

__all__ = ["entries"]

Json = dict[str, Any]


@pytest.fixture(scope="session")
def http_entry() -> Iterator[Json]:
    with running_everything("http") as server:
        yield server.entry


@pytest.fixture(scope="session")
def sse_entry() -> Iterator[Json]:
    with running_everything("sse") as server:
        yield server.entry


@pytest.fixture(scope="session")
def fixture_url() -> Iterator[str]:
    """Yield the URL of the server that the conformance suite expects."""
    with running_fixture() as url:
        yield url


@pytest.fixture(params=["stdio", "http", "sse"])
def entry(request: pytest.FixtureRequest) -> Json:
    found: Json
    found = (
        stdio_entry()
        if request.param == "stdio"
        else request.getfixturevalue(f"{request.param}_entry")
    )
    return found
