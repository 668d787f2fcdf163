"""The handlers of probes and monitoring."""

from collections.abc import Awaitable, Callable

from fastapi import Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.types import Scope

from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.gateway.health import Health
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.web.envelope import json_response


class HealthHandlers:
    """Handlers that need no token.

    ``shows_details`` returns whether the sender of a request may read errors, problems and paths.
    """

    def __init__(
        self, health: Health, metrics: Metrics, shows_details: Callable[[Scope], Awaitable[bool]]
    ) -> None:
        self._health = health
        self._metrics = metrics
        self._shows_details = shows_details

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

    async def exposition(self, _: ParsedRequest[None]) -> Response:
        """Respond with the metrics, as Prometheus scrapes them."""
        return Response(self._metrics.exposition(), media_type=CONTENT_TYPE_LATEST)
