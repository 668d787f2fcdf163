"""Probes, metrics, and the public keys for the gateway's signatures.

Also HEAD of the probes, and ``GET /`` for browsers while the console is off.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from html import escape
from typing import Annotated, Literal

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Scope

from mcp_tools_proxy.auth.authenticator import bearer_token
from mcp_tools_proxy.auth.caller_resolver import read_authorization
from mcp_tools_proxy.domain.errors import RouteNotFound, Unauthenticated
from mcp_tools_proxy.gateway.health import Health
from mcp_tools_proxy.gateway.whole_service import WholeService
from mcp_tools_proxy.http.api.answer_models import AnswerModel
from mcp_tools_proxy.http.api.endpoint import ParsedRequest
from mcp_tools_proxy.http.api.openapi import Answer, Tag, errors_of, refusal
from mcp_tools_proxy.http.api.route_builder import Feature, operation
from mcp_tools_proxy.http.api.schemas import open_names
from mcp_tools_proxy.http.responses import json_response

ReadinessStatusField = Annotated[
    str,
    open_names(
        "ReadinessStatus",
        "`ready` and `degraded` replicas serve calls; `starting` and `stopping` ones "
        "should get none.",
        ["ready", "degraded", "starting", "stopping"],
    ),
]


CheckStatusField = Annotated[
    str,
    open_names("CheckStatus", "`degraded`: the dependency does not work.", ["ok", "degraded"]),
]


class CheckAnswer(AnswerModel, title="ReadinessCheck", extra="allow"):
    """The state of a dependency. Other fields depend on its type."""

    status: CheckStatusField


class ReadinessAnswer(AnswerModel, title="Readiness"):
    """Whether this replica should get traffic, and the state of each dependency in use."""

    status: ReadinessStatusField
    checks: Annotated[
        dict[str, CheckAnswer],
        Field(
            title="ReadinessChecks",
            description="The state of each dependency in use: `documents`, `server:<id>` …",
        ),
    ]


class HealthAnswer(AnswerModel, title="Health"):
    """The process is alive."""

    status: Literal["ok"]


class SigningKeyAnswer(AnswerModel, title="SigningKey", extra="allow"):
    """A public key (RFC 7517); the other fields are its parameters."""

    kid: str
    kty: str
    alg: str
    use: Literal["sig"]


class KeySetAnswer(AnswerModel, title="SigningKeySet"):
    """Public keys for verifying the gateway's signatures."""

    keys: list[SigningKeyAnswer]


MAX_AGE_S = 300
"""Cache time of the keys for clients, in seconds."""


class HealthRoutes(Feature):
    """Operations without a caller's token.

    ``shows_details`` returns whether the sender of a request can read errors, problems and paths.
    Metrics need ``metrics_token``, if set, as they name tools, servers and tenants.
    ``published_keys`` verify assertions; None without signatures.
    """

    tag = Tag.HEALTH

    def __init__(
        self,
        service: WholeService,
        metrics: Callable[[], Awaitable[bytes]],
        shows_details: Callable[[Scope], Awaitable[bool]],
        *,
        metrics_token: str | None,
        published_keys: Callable[[], Mapping[str, object]] | None,
    ) -> None:
        self._service = service
        self._metrics = metrics
        self._shows_details = shows_details
        self._metrics_token = metrics_token
        self._published_keys = published_keys
        self._exposing = asyncio.Lock()

    def _metrics_need_token(self) -> bool:
        return self._metrics_token is not None

    @operation(
        "GET",
        "/health",
        responses={200: Answer("The process is alive.", HealthAnswer, headers=())},
        headers=(),
        needs_token=False,
    )
    async def get_health(self, parsed: ParsedRequest[None]) -> Response:
        """Liveness check.

        Checks no dependency.
        """
        return json_response({"status": "ok"})

    @operation(
        "GET",
        "/health/ready",
        responses={
            200: Answer(
                "Ready or degraded: the replica serves calls.", ReadinessAnswer, headers=()
            ),
            503: Answer("Starting or stopping.", ReadinessAnswer, headers=()),
        },
        headers=(),
        needs_token=False,
    )
    async def get_readiness(self, parsed: ParsedRequest[None]) -> Response:
        """Readiness check.

        503 only while the replica is starting or stopping; a failed dependency makes it `degraded`.
        Only operators get errors, problems and paths; others get states and numbers.
        """
        readiness = await self._service.readiness()
        if not await self._shows_details(parsed.request.scope):
            readiness = readiness.brief
        return json_response(
            {"status": readiness.status, "checks": readiness.checks},
            200 if readiness.serving else 503,
        )

    @operation(
        "GET",
        "/metrics",
        responses={
            200: Answer("The metrics.", headers=(), text="text/plain"),
            **errors_of(401, 422),
        },
        headers=(),
        needs_token=_metrics_need_token,
    )
    async def get_metrics(self, parsed: ParsedRequest[None]) -> Response:
        """Prometheus metrics.

        Requires the token in `MCP_PROXY_METRICS_TOKEN`, if it is set.
        """
        if self._metrics_token is not None:
            self._check_metrics_token(parsed.request, self._metrics_token)
        async with self._exposing:  # by default anyone can send any number of requests
            return Response(await self._metrics(), media_type=CONTENT_TYPE_LATEST)

    @operation(
        "GET",
        "/.well-known/jwks.json",
        responses={
            200: Answer("A JSON Web Key Set (RFC 7517).", KeySetAnswer, headers=()),
            404: refusal("NOT_FOUND: the gateway has no signing key."),
        },
        headers=(),
        needs_token=False,
    )
    async def get_signing_keys(self, parsed: ParsedRequest[None]) -> Response:
        """Public keys for verifying caller assertions.

        Clients may cache them for 5 minutes.
        """
        if self._published_keys is None:
            raise RouteNotFound("no keys to publish: this gateway signs no assertions")
        response = json_response(self._published_keys())
        response.headers["Cache-Control"] = f"public, max-age={MAX_AGE_S}"
        return response

    def _check_metrics_token(self, request: Request, expected: str) -> None:
        presented = bearer_token(read_authorization(request.headers.raw))
        if presented is None or not hmac.compare_digest(presented.encode(), expected.encode()):
            raise Unauthenticated(
                "metrics need the token of MCP_PROXY_METRICS_TOKEN; send Authorization: Bearer "
                "<token>",
                token_refused=presented is not None,
            )


HEALTH, READINESS = ("/health", "/health/ready")
"""Paths of the HTTP API that answer HEAD."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; }}
body {{ padding: 0 1rem; }}
dt {{ font-weight: 600; }} dd {{ margin: 0 0 .75rem; }}
</style>
<h1>{name}</h1>
<p>MCP Tools Proxy: a tool-execution gateway for LLM applications</p>
<dl>
<dt>Version</dt><dd>{version}</dd>
<dt>Health</dt><dd><a href="health/ready">{status}</a></dd>
<dt>HTTP API</dt><dd><a href="openapi.json">openapi.json</a> (OpenAPI 3.1);
<code>POST /internal/mcp/execute</code> runs a tool</dd>
<dt>MCP</dt><dd><code>/mcp</code> (streamable HTTP), <code>/mcp/sse</code> (legacy)</dd>
<dt>Console</dt><dd>off; set <code>MCP_PROXY_CONSOLE=true</code> to enable it at
<code>/console</code></dd>
<dt>Documentation</dt><dd><code>docs/index.md</code> in the source code; build the site with
<code>make docs</code></dd>
</dl>
"""


def landing_routes(
    health: Health, *, name: str, version: str, has_console: bool
) -> Sequence[Route]:
    """Return the routes of HEAD, and of the page unless the console has its path."""

    async def show_page(request: Request) -> Response:
        if not _takes_html(request):
            raise HTTPException(404)
        status = health.readiness().status
        page = _PAGE.format(name=escape(name), version=escape(version), status=escape(status))
        return HTMLResponse(page, headers=_HEADERS)

    def readiness_status() -> int:
        return 200 if health.readiness().serving else 503

    page = () if has_console else (Route("/", show_page, methods=["GET"]),)
    return (
        *page,
        _head_route(HEALTH, lambda: 200),
        _head_route(READINESS, readiness_status),
    )


def _head_route(path: str, status: Callable[[], int]) -> Route:

    async def head(_: Request) -> Response:
        return Response(status_code=status(), media_type="application/json")

    return Route(path, head, methods=["HEAD"])


def _takes_html(request: Request) -> bool:
    accept = request.headers.get("accept", "*/*").lower()
    media_ranges = {part.partition(";")[0].strip() for part in accept.split(",")}
    return not media_ranges.isdisjoint({"text/html", "text/*", "*/*"})
