"""Probes, metrics, and the keys that verify what the gateway signs.

The docstrings of models and operations are part of the OpenAPI document: callers read them.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from fastapi import Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.types import Scope

from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.openapi.answer_models import AnswerModel, ReadinessAnswer
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.responses import Answer, errors_of, refusal
from mcp_tools_proxy.api.route_builder import Feature, operation
from mcp_tools_proxy.auth.authenticator import bearer_token
from mcp_tools_proxy.auth.caller_resolver import read_authorization
from mcp_tools_proxy.domain.errors import RouteNotFound, Unauthenticated
from mcp_tools_proxy.gateway.health import Health
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.web.envelope import json_response


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
"""Seconds for which clients may cache the keys."""


class HealthRoutes(Feature):
    """Operations that need no caller's token.

    ``shows_details`` returns whether the sender of a request may read errors, problems and paths.
    With ``metrics_token`` metrics need it: they name tools, servers and tenants. ``published_keys``
    are those that verify assertions; None where nothing is signed.
    """

    tag = Tag.HEALTH

    def __init__(
        self,
        health: Health,
        metrics: Metrics,
        shows_details: Callable[[Scope], Awaitable[bool]],
        *,
        metrics_token: str | None,
        published_keys: Callable[[], Mapping[str, object]] | None,
    ) -> None:
        self._health = health
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
        """Liveness check."""
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
        """Readiness check."""
        readiness = self._health.readiness()
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
        # one request at a time, piece by piece: by default anybody may send any number of them
        if self._metrics_token is not None:
            self._check_metrics_token(parsed.request, self._metrics_token)
        pieces = []
        async with self._exposing:
            for piece in self._metrics.pieces():
                pieces.append(piece)
                await asyncio.sleep(0)
        return Response(b"".join(pieces), media_type=CONTENT_TYPE_LATEST)

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
        """Public keys for verifying caller assertions."""
        if self._published_keys is None:
            raise RouteNotFound("no keys to publish: this gateway signs no assertions")
        response = json_response(self._published_keys())
        response.headers["Cache-Control"] = f"public, max-age={MAX_AGE_S}"
        return response

    def _check_metrics_token(self, request: Request, expected: str) -> None:
        """Raise InvalidRequest or Unauthenticated for a request without the token of metrics."""
        presented = bearer_token(read_authorization(request.headers.raw))
        if presented is None or not hmac.compare_digest(presented.encode(), expected.encode()):
            raise Unauthenticated(
                "metrics need the token of MCP_PROXY_METRICS_TOKEN; send Authorization: Bearer "
                "<token>",
                token_refused=presented is not None,
            )
