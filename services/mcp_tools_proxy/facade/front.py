"""Serves the facade's routes in front of the HTTP API's framework, which they need nothing of."""

from collections.abc import Sequence

from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

ROOT = "/mcp"
"""What the paths of all routes begin with."""


class FacadeFront:
    """Hands requests to the first of ``routes`` that they match, and all others to ``app``."""

    def __init__(self, app: ASGIApp, *, routes: Sequence[Route]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["path"].startswith(ROOT):
            for route in self._routes:
                match, matched = route.matches(scope)
                if match is Match.FULL:
                    await route.handle({**scope, **matched}, receive, send)
                    return
        await self._app(scope, receive, send)
