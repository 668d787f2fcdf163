"""Host and origin checks against DNS rebinding."""

from collections.abc import Iterable
from typing import Any

import httpx
import pytest

from tests.support.captured_logs import capture_logs
from tests.support.service import ACTIVE, EXECUTE, PRESETS, TOOLS, running

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what a container listens on

OWN = [
    "localhost",
    "LOCALHOST",
    "localhost:8082",
    "127.0.0.1",
    "127.0.0.1:1",
    "[::1]",
    "[::1]:8082",
    "[0:0:0:0:0:0:0:1]:8082",
]
FOREIGN = [
    "evil.example", "evil.example:8082", "localhost.evil.example", "127.0.0.1.evil.example",
    "localhost@evil.example", "evil.example#localhost", "localhost:x", "localhost:0x1f",
    "::1", "[::1", "[::1]evil.example", "", "192.168.0.1", "localhost/evil.example", EVERYWHERE,
]  # fmt: skip


async def statuses(name: str, values: Iterable[str], **settings: Any) -> dict[str, int]:
    async with running(**settings) as service:
        return {
            value: (await service.http.get(PRESETS, headers={name: value})).status_code
            for value in values
        }


async def test_on_loopback_local_names_are_accepted() -> None:
    assert await statuses("Host", OWN) == dict.fromkeys(OWN, 200)


async def test_on_loopback_other_names_are_refused() -> None:
    assert await statuses("Host", FOREIGN) == dict.fromkeys(FOREIGN, 403)


async def test_elsewhere_any_name_is_accepted() -> None:
    hosts = [*FOREIGN[:2], "gateway"]
    assert await statuses("Host", hosts, host=EVERYWHERE) == dict.fromkeys(hosts, 200)


@pytest.mark.parametrize("bound", ["127.0.0.1", EVERYWHERE])
async def test_configured_names_are_accepted(bound: str) -> None:
    expected = {
        "tools.example": 200,
        "Tools.Example:9": 200,
        "exact.example:80": 200,
        "exact.example": 403,
        "exact.example:81": 403,
        "evil.example": 403,
    }
    hosts = "tools.example, exact.example:80"
    assert await statuses("Host", expected, host=bound, allowed_hosts=hosts) == expected


async def test_elsewhere_only_configured_names_are_accepted_if_any_are_set() -> None:
    found = await statuses("Host", ["localhost"], host=EVERYWHERE, allowed_hosts="a.example")
    assert found == {"localhost": 403}


async def test_two_host_headers_are_refused() -> None:
    async with running() as service:
        headers = httpx.Headers([("Host", "localhost"), ("Host", "localhost")])
        assert (await service.http.get(PRESETS, headers=headers)).status_code == 403


ORIGINS = {
    "http://localhost": 200,
    "http://localhost:3000": 200,
    "https://127.0.0.1:8443": 200,
    "http://[::1]:1": 200,
    "https://evil.example": 403,
    "http://localhost.evil.example": 403,
    "http://evil.example:8082": 403,
    "null": 403,
    "": 403,
    "file://": 403,
    "chrome-extension://localhost": 403,
    "http://localhost@evil.example": 403,
    "localhost": 403,
}


async def test_on_loopback_only_local_pages_are_accepted() -> None:
    assert await statuses("Origin", ORIGINS) == ORIGINS


async def test_elsewhere_pages_are_refused() -> None:
    assert await statuses("Origin", ORIGINS, host=EVERYWHERE) == dict.fromkeys(ORIGINS, 403)


@pytest.mark.parametrize("bound", ["127.0.0.1", EVERYWHERE])
async def test_pages_of_configured_origins_are_accepted(bound: str) -> None:
    expected = {
        "https://app.example": 200,
        "HTTPS://APP.EXAMPLE": 200,
        "https://app.example:8443": 403,
        "http://app.example": 403,
    }
    allowed = "https://app.example"
    assert await statuses("Origin", expected, host=bound, allowed_origins=allowed) == expected


async def test_probes_can_use_any_name() -> None:
    headers = {"Host": "10.1.2.3", "Origin": "null"}
    async with running() as service:
        for path in ("/health", "/health/ready", "/metrics"):
            assert (await service.http.get(path, headers=headers)).status_code == 200, path


async def test_a_refused_host_is_logged_and_counted() -> None:
    async with running() as service:
        with capture_logs() as lines:
            await service.http.get(TOOLS, headers={"Origin": "null", "X-Trace-Id": "t-1"})
        exposition = (await service.http.get("/metrics")).text
    assert [(line["trace_id"], line["field"]) for line in lines] == [("t-1", "Origin")]
    assert 'mcp_proxy_requests_refused_total{code="FORBIDDEN"} 1.0' in exposition


GUARDED = (
    *(("POST", EXECUTE), ("GET", TOOLS), ("PUT", ACTIVE), ("POST", "/mcp"), ("GET", "/mcp/sse")),
    *(("GET", "/openapi.json"), ("GET", "/nowhere")),
)


async def test_every_other_route_checks_the_host() -> None:
    async with running() as service:
        for method, path in GUARDED:
            response = await service.http.request(method, path, headers={"Host": "evil.example"})
            code = response.json()["error"]["code"]
            found = response.status_code, code, "evil" in response.text
            assert found == (403, "FORBIDDEN", False), path
