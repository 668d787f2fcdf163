"""The handler of the gateway's public keys."""

from collections.abc import Callable, Mapping

from fastapi import Response

from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.domain.errors import RouteNotFound
from mcp_tools_proxy.web.envelope import json_response

MAX_AGE_S = 300
"""Seconds for which clients may cache the keys."""


class KeyHandlers:
    """Shows the keys that verify assertions; ``published`` is None where nothing is signed."""

    def __init__(self, published: Callable[[], Mapping[str, object]] | None) -> None:
        self._published = published

    async def show_keys(self, _: ParsedRequest[None]) -> Response:
        """Respond with a JSON Web Key Set. Raises RouteNotFound where nothing is signed."""
        if self._published is None:
            raise RouteNotFound("no keys to publish: this gateway signs no assertions")
        response = json_response(self._published())
        response.headers["Cache-Control"] = f"public, max-age={MAX_AGE_S}"
        return response
