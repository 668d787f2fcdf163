"""GET /health, /health/ready and /metrics."""

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from mcp_tools_proxy.api.envelope import json_response
from mcp_tools_proxy.api.models import HealthAnswer, ReadinessAnswer
from mcp_tools_proxy.gateway.health import Health
from mcp_tools_proxy.telemetry.metrics import Metrics


def operations_routes(health: Health, metrics: Metrics) -> APIRouter:
    """Build the routes that operators and orchestrators ask."""
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
    async def ready() -> Response:
        readiness = health.readiness()
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
