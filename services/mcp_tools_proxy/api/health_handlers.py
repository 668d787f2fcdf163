"""The handlers of probes and monitoring."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable

from fastapi import Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.types import Scope

from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.auth.authenticator import bearer_token
from mcp_tools_proxy.auth.caller_resolver import read_authorization
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.gateway.health import Health
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.web.envelope import json_response


class HealthHandlers:
    """Handlers that need no caller's token.

    ``shows_details`` returns whether the sender of a request may read errors, problems and paths.
    With ``metrics_token`` metrics need it: they name tools, servers and tenants.
    """

    def __init__(
        self,
        health: Health,
        metrics: Metrics,
        shows_details: Callable[[Scope], Awaitable[bool]],
        *,
        metrics_token: str | None,
    ) -> None:
        self._health = health
        self._metrics = metrics
        self._shows_details = shows_details
        self._metrics_token = metrics_token
        self._exposing = asyncio.Lock()

    @property
    def metrics_need_token(self) -> bool:
        """Whether a token is needed for metrics."""
        return self._metrics_token is not None

    async def healthy(self, _: ParsedRequest[None]) -> Response:
        """Respond while the process serves."""
        return json_response({"status": "ok"})

    async def ready(self, parsed: ParsedRequest[None]) -> Response:
        """Respond with the state of each dependency; 503 while starting or stopping."""
        readiness = self._health.readiness()
        if not await self._shows_details(parsed.request.scope):
            readiness = readiness.brief
        return json_response(
            {"status": readiness.status, "checks": readiness.checks},
            200 if readiness.serving else 503,
        )

    async def exposition(self, parsed: ParsedRequest[None]) -> Response:
        """Respond with the metrics, as Prometheus scrapes them.

        One request at a time, piece by piece: by default anybody may send any number of them.
        """
        if self._metrics_token is not None:
            self._check_metrics_token(parsed.request, self._metrics_token)
        pieces = []
        async with self._exposing:
            for piece in self._metrics.pieces():
                pieces.append(piece)
                await asyncio.sleep(0)
        return Response(b"".join(pieces), media_type=CONTENT_TYPE_LATEST)

    def _check_metrics_token(self, request: Request, expected: str) -> None:
        """Raise InvalidRequest or Unauthenticated for a request without the token of metrics."""
        presented = bearer_token(read_authorization(request.headers.raw))
        if presented is None or not hmac.compare_digest(presented.encode(), expected.encode()):
            raise Unauthenticated(
                "metrics need the token of MCP_PROXY_METRICS_TOKEN; send Authorization: Bearer "
                "<token>",
                token_refused=presented is not None,
            )
