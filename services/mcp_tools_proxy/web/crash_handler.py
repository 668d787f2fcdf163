"""Answers requests whose handling has a defect of ours."""

from contextlib import suppress

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_tools_proxy.domain.errors import InternalError
from mcp_tools_proxy.web.envelope import error_response
from mcp_tools_proxy.web.trace_headers import trace_id_from

log = structlog.get_logger()


class CrashHandler:
    """ASGI middleware that logs a crash and answers INTERNAL_ERROR; the exception goes on.

    Starlette's own wraps ``send`` to know whether a response has begun: 2 % of a short call.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if scope["type"] == "http":
                trace_id = trace_id_from(None, Headers(scope=scope))
                log.exception("request.crashed", trace_id=trace_id, exc_info=error)
                with suppress(Exception):  # the server takes no second response
                    await error_response(InternalError(), trace_id)(scope, receive, send)
            raise
