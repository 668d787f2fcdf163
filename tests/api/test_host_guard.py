"""Against DNS rebinding: which hosts and origins get through."""

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


async def status(headers: dict[str, str], path: str = PRESETS, **settings: object) -> int:
    async with running(**settings) as service:  # type: ignore[arg-type]
        return (await service.http.get(path, headers=headers)).status_code


@pytest.mark.parametrize("host", OWN)
async def test_on_loopback_this_machine_is_asked_by_its_own_names(host: str) -> None:
    assert await status({"Host": host}) == 200


@pytest.mark.parametrize("host", FOREIGN)
async def test_on_loopback_no_other_name_gets_through(host: str) -> None:
    assert await status({"Host": host}) == 403


@pytest.mark.parametrize("host", [*FOREIGN[:2], "gateway"])
async def test_elsewhere_any_name_gets_through(host: str) -> None:
    assert await status({"Host": host}, host=EVERYWHERE) == 200


@pytest.mark.parametrize("bound", ["127.0.0.1", EVERYWHERE])
@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("tools.example", 200),
        ("Tools.Example:9", 200),
        ("exact.example:80", 200),
        ("exact.example", 403),
        ("exact.example:81", 403),
        ("evil.example", 403),
    ],
)
async def test_names_that_are_set_get_through(bound: str, host: str, found: int) -> None:
    hosts = "tools.example, exact.example:80"
    assert await status({"Host": host}, host=bound, allowed_hosts=hosts) == found


async def test_elsewhere_only_names_that_are_set_get_through_once_there_are_any() -> None:
    assert await status({"Host": "localhost"}, host=EVERYWHERE, allowed_hosts="a.example") == 403


async def test_two_names_are_none() -> None:
    async with running() as service:
        headers = httpx.Headers([("Host", "localhost"), ("Host", "localhost")])
        assert (await service.http.get(PRESETS, headers=headers)).status_code == 403


ORIGINS = [
    ("http://localhost", 200),
    ("http://localhost:3000", 200),
    ("https://127.0.0.1:8443", 200),
    ("http://[::1]:1", 200),
    ("https://evil.example", 403),
    ("http://localhost.evil.example", 403),
    ("http://evil.example:8082", 403),
    ("null", 403),
    ("", 403),
    ("file://", 403),
    ("chrome-extension://localhost", 403),
    ("http://localhost@evil.example", 403),
    ("localhost", 403),
]


@pytest.mark.parametrize(("origin", "found"), ORIGINS)
async def test_on_loopback_only_this_machines_pages_get_through(origin: str, found: int) -> None:
    assert await status({"Origin": origin}) == found


@pytest.mark.parametrize("origin", [origin for origin, _ in ORIGINS])
async def test_elsewhere_no_page_gets_through(origin: str) -> None:
    assert await status({"Origin": origin}, host=EVERYWHERE) == 403


@pytest.mark.parametrize("bound", ["127.0.0.1", EVERYWHERE])
@pytest.mark.parametrize(
    ("origin", "found"),
    [
        ("https://app.example", 200),
        ("HTTPS://APP.EXAMPLE", 200),
        ("https://app.example:8443", 403),
        ("http://app.example", 403),
    ],
)
async def test_pages_of_origins_that_are_set_get_through(
    bound: str, origin: str, found: int
) -> None:
    allowed = "https://app.example"
    assert await status({"Origin": origin}, host=bound, allowed_origins=allowed) == found


@pytest.mark.parametrize("path", ["/health", "/health/ready", "/metrics"])
async def test_probes_may_come_by_any_name(path: str) -> None:
    assert await status({"Host": "10.1.2.3", "Origin": "null"}, path) == 200


async def test_who_is_kept_out_leaves_a_log_line_and_is_counted() -> None:
    async with running() as service:
        with capture_logs() as lines:
            await service.http.get(TOOLS, headers={"Origin": "null", "X-Trace-Id": "t-1"})
        exposition = (await service.http.get("/metrics")).text
    assert [(line["trace_id"], line["field"]) for line in lines] == [("t-1", "Origin")]
    assert 'mcp_proxy_requests_refused_total{code="FORBIDDEN"} 1.0' in exposition


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", EXECUTE), ("GET", TOOLS), ("PUT", ACTIVE), ("POST", "/mcp"), ("GET", "/mcp/sse"),
     ("GET", "/openapi.json"), ("GET", "/nowhere")],
)  # fmt: skip
async def test_every_other_route_is_guarded(method: str, path: str) -> None:
    async with running() as service:
        response = await service.http.request(method, path, headers={"Host": "evil.example"})
        error = response.json()["error"]
        assert (response.status_code, error["code"], "evil" in response.text) == (
            403,
            "FORBIDDEN",
            False,
        )
