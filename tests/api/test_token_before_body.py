"""The token is checked before any other part of a request is read or parsed (contract §1)."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from mcp_tools_proxy.app.http import create_app
from tests.support.bounds import BOUND_S
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_agent
from tests.support.console_browser import ADMIN, running_console
from tests.support.service import ACTIVE, EXECUTE, TOOLS, GivenSettings, Service, running
from tests.support.tokens import MODES, bearer

TOO_LARGE = b"[" * 2_000_000
BODIES = {
    "no JSON": b"{",
    "not UTF-8": b"\xff\xfe",
    "duplicate key": b'{"tool_name":"a","tool_name":"b"}',
    "too deep": b"[" * 10_000,
    "over the limit": TOO_LARGE,
}
BAD = {"none": {}, "unknown": bearer("mtp_" + "x" * 43), "no bearer": {"Authorization": "Basic eA"}}
MODERN = {"MCP-Protocol-Version": "2026-07-28"}
SENT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
MCP_PATHS = {
    "/mcp": {},
    "/mcp/agents/reader": {},
    "/mcp/sse": {},
    "/mcp/agents/reader/sse": {},
    "/mcp?era=modern": MODERN,
}


@pytest.fixture(params=MODES)
async def service(request: pytest.FixtureRequest) -> AsyncIterator[Service]:
    settings, _ = MODES[request.param]
    async with running(config=Config(agents=[make_agent("reader")]), **settings()) as started:
        yield started


@pytest.fixture(scope="module")
def routes_with_a_body() -> list[tuple[str, str]]:
    return [
        (method.upper(), path)
        for path, operations in create_app(GivenSettings()).openapi()["paths"].items()
        for method, operation in operations.items()
        if "requestBody" in operation
    ]


async def unread(service: Service, method: str, path: str, headers: dict[str, str]) -> None:
    """Send an endless body; check that it was refused without reading a byte."""
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield b" " * 1000
            await asyncio.sleep(0)

    async with asyncio.timeout(BOUND_S):
        response = await service.http.request(method, path, content=endless(), headers=headers)
    assert (response.status_code, read) == (401, 0), (method, path)


def code_of(response: httpx.Response) -> str:
    error = response.json()["error"]
    return str(error.get("data", error)["code"])


async def test_no_route_reads_a_body_without_a_valid_token(
    service: Service, routes_with_a_body: list[tuple[str, str]]
) -> None:
    assert len(routes_with_a_body) >= 12
    for bad in BAD.values():
        for method, path in routes_with_a_body:
            await unread(service, method, path, {**SENT, **bad})
        for path, headers in MCP_PATHS.items():
            await unread(service, "POST", path, {**SENT, **headers, **bad})


async def test_an_invalid_token_is_refused_as_such_with_any_body(
    service: Service, routes_with_a_body: list[tuple[str, str]]
) -> None:
    routes = [*routes_with_a_body, ("POST", "/mcp"), ("POST", "/mcp/sse")]
    for body in BODIES.values():
        for bad in BAD.values():
            found = [
                code_of(await service.http.request(*it, content=body, headers={**SENT, **bad}))
                for it in routes
            ]
            assert set(found) == {"UNAUTHENTICATED"}


async def test_nothing_else_of_the_request_is_checked_first(service: Service) -> None:
    for method, path, headers in (
        ("GET", f"{TOOLS}?format=none&format=none", {}),
        ("GET", "/internal/mcp/audit?limit=x", {}),
        ("GET", TOOLS, {"X-Tenant-Id": "\x7f"}),
        ("GET", TOOLS, {"X-User-Roles": "%ff"}),
        ("POST", "/mcp/agents/%00", {}),
        ("GET", "/mcp?name_style=none", {}),
        ("GET", "/internal/no/such/route", {}),
        ("DELETE", EXECUTE, {}),
        ("PATCH", "/mcp", {}),
    ):
        for bad in BAD.values():
            response = await service.http.request(method, path, headers={**headers, **bad})
            assert (response.status_code, code_of(response)) == (401, "UNAUTHENTICATED"), path


async def test_two_tokens_are_refused_without_reading_the_body(service: Service) -> None:
    headers = [("Authorization", "Bearer a"), ("Authorization", "Bearer b")]
    response = await service.http.post(EXECUTE, content=TOO_LARGE, headers=headers)
    assert (response.status_code, code_of(response)) == (422, "INVALID_REQUEST")


async def test_public_routes_need_no_token(service: Service) -> None:
    for path in ("/health", "/health/ready", "/metrics", "/openapi.json", "/.well-known/jwks.json"):
        for bad in BAD.values():
            assert (await service.http.get(path, headers=bad)).status_code in (200, 404)


OPERATORS = (
    ("PUT", ACTIVE),
    ("PUT", "/internal/mcp/log-level"),
    ("PUT", "/internal/mcp/definitions"),
    ("POST", "/internal/mcp/tokens"),
    ("POST", "/internal/mcp/try"),
    ("POST", "/internal/mcp/explain"),
    ("PUT", "/internal/documents/rights?tenant_id=a&doc_id=b"),
    ("PUT", "/internal/documents/facts?tenant_id=a&doc_id=b"),
    ("PUT", "/internal/documents/content?tenant_id=a&doc_id=b"),
)


async def test_an_invalid_admin_token_is_refused_without_reading_the_body() -> None:
    async with running(admin_token=ADMIN, host="0.0.0.0") as service:  # noqa: S104 - no socket
        for method, path in OPERATORS:
            for bad in (BAD["none"], BAD["unknown"]):
                await unread(service, method, path, {**SENT, **bad})


async def test_a_valid_token_with_an_invalid_body_is_recorded() -> None:
    settings, make = MODES["token"]
    async with running(**settings()) as service:
        token = make(tenant="tenant_1")
        assert service.gateway.tokens is not None
        await service.gateway.tokens.load()
        with capture_logs() as lines:
            response = await service.http.post(EXECUTE, content=b"{", headers=bearer(token))
    (line,) = [line for line in lines if line["event"] == "request.refused"]
    assert response.status_code == 422
    assert (line["tenant_id"], "token_id" in line) == ("tenant_1", True)


async def test_console_pages_read_no_form_without_a_session() -> None:
    settings, _ = MODES["token"]
    async with running_console(**settings()) as console:
        read = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal read
            while True:
                read += 1
                yield b"x=" + b"y" * 1000

        for path in ("/console", "/console/try", "/console/documents/upload", "/console/sign-out"):
            response = await console.service.http.post(
                path,
                content=endless(),
                headers={"content-type": "application/x-www-form-urlencoded"},
            )
            assert (response.status_code, read) == (303, 0), path
