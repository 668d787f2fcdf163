"""GET /health, /health/ready and /metrics."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.types import Scope

from mcp_tools_proxy.api.models import HealthAnswer, ReadinessAnswer
from mcp_tools_proxy.gateway.health import Health
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.web.envelope import json_response


def health_routes(
    health: Health, metrics: Metrics, shows_details: Callable[[Scope], Awaitable[bool]]
) -> APIRouter:
    """Build the routes for probes and monitoring.

    ``shows_details`` returns whether the sender of a request may read errors, problems and paths.
    """
    router = APIRouter()

    @router.get(
        "/health",
        summary="Whether the process serves",
        response_class=Response,
        responses={200: {"model": HealthAnswer}},
    )
    async def healthy() -> Response:
        return json_response({"status": "ok"})

    @router.get(
        "/health/ready",
        summary="Whether traffic should come here",
        response_class=Response,
        responses={
            200: {"model": ReadinessAnswer},
            503: {"model": ReadinessAnswer, "description": "starting or stopping"},
        },
    )
    async def ready(request: Request) -> Response:
        readiness = health.readiness()
        if not await shows_details(request.scope):
            readiness = readiness.brief
        return json_response(
            {"status": readiness.status, "checks": readiness.checks},
            200 if readiness.serving else 503,
        )

    @router.get(
        "/metrics",
        summary="Prometheus metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}},
    )
    async def exposition() -> Response:
        return Response(metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    return router
