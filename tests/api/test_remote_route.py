"""State of the connection to the remote backend: GET /internal/mcp/remote."""

from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI

from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.backend_link import RemoteState, RemoteStatus
from mcp_tools_proxy.http.api.endpoint import EndpointFactory
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.api.route_builder import RouteBuilder
from mcp_tools_proxy.http.api.server_routes import RemoteRoutes
from mcp_tools_proxy.http.body import BodyLimits
from mcp_tools_proxy.http.request_refusals import RequestRefusals
from mcp_tools_proxy.telemetry.audit.audit_trail import AuditTrail
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.request_events import RequestTelemetry
from mcp_tools_proxy.telemetry.spans import NoTracer
from tests.support.service import REMOTE, client_of, running

LOST = RemoteStatus(
    state=RemoteState.OFFLINE,
    since="2026-11-22T03:23:42.207933Z",
    server_identifier="gateway",
    backend="wss://backend.example:443",
    last_error="the backend closed the link",
    attempts=3,
    next_attempt_s=0.51234567,
    links=2,
    sessions=5,
    open_requests=4,
    waiting_bytes=1024,
)


async def shown(status: RemoteStatus | None) -> httpx.Response:
    authenticator = Authenticator(None)
    endpoints = EndpointFactory(
        RequestRefusals(Metrics(), RequestTelemetry(AuditTrail())),
        limits=BodyLimits(max_bytes=1, max_items=1),
    )
    build = RouteBuilder(
        endpoints,
        OperatorGate(host="127.0.0.1", authenticator=authenticator),
        needs_token=False,
        tracer=NoTracer(),
    )

    async def remote() -> RemoteStatus | None:
        return status

    app = FastAPI(routes=[*build.routes_of(RemoteRoutes(authenticator, remote=remote))])
    async with client_of(app) as client:
        return await client.get(REMOTE, headers={"X-Trace-Id": "t-1"})


async def test_a_gateway_without_a_backend_reports_that_the_connector_is_off() -> None:
    async with running() as service:
        assert await service.get(REMOTE) == {"state": "off"}


async def test_a_lost_backend_has_a_reason_and_the_next_attempt() -> None:
    assert (await shown(LOST)).json() == {
        "state": "offline",
        "since": "2026-11-22T03:23:42.207933Z",
        "server_identifier": "gateway",
        "backend": "wss://backend.example:443",
        "last_error": "the backend closed the link",
        "attempts": 3,
        "next_attempt_s": 0.512,
        "links": 2,
        "sessions": 5,
        "open_requests": 4,
        "waiting_bytes": 1024,
    }


@pytest.mark.parametrize("state", RemoteState)
async def test_each_state_is_named(state: RemoteState) -> None:
    assert (await shown(replace(LOST, state=state))).json()["state"] == state.value


async def test_absent_values_are_omitted() -> None:
    online = replace(LOST, state=RemoteState.ONLINE, last_error=None, next_attempt_s=None)
    assert {"last_error", "next_attempt_s"} & (await shown(online)).json().keys() == set()


async def test_the_answer_has_the_trace_id() -> None:
    assert (await shown(None)).headers["X-Trace-Id"] == "t-1"
