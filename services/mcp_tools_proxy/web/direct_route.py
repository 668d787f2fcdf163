"""A FastAPI route that OpenAPI describes and that calls its endpoint with nothing in between."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class DirectRoute(APIRoute):
    """Hands the bare Request to an endpoint that reads and answers it itself.

    FastAPI's own handler solves dependencies and validates around the endpoint; for one that takes
    a Request and gives a Response that is two thirds of the work of a call (``make bench``).
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **description: Any) -> None:
        super().__init__(path, endpoint, **description)
        self.app = _asgi(endpoint)


def _asgi(
    endpoint: Callable[[Request], Awaitable[Response]],
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await endpoint(Request(scope, receive))
        await response(scope, receive, send)

    return app
