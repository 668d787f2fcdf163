"""Decides who may read the details of a public route: health checks show them to operators."""

from starlette.types import Scope

from mcp_tools_proxy.auth.authenticator import Authenticator, bearer_token
from mcp_tools_proxy.auth.identity_headers import read_headers
from mcp_tools_proxy.domain.errors import InvalidRequest, Unauthenticated


class OperatorCheck:
    """Recognises operators without refusing other callers: probes send no token, or an old one.

    Where callers need no token, each counts as an operator.
    """

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def __call__(self, scope: Scope) -> bool:
        """Return whether the sender of a request is an operator."""
        if not self._authenticator.needs_token:
            return True
        try:
            authorization, _ = read_headers(scope["headers"])
        except InvalidRequest:
            return False
        if bearer_token(authorization) is None:
            return False
        try:
            return await self._authenticator.is_operator(authorization)
        except Unauthenticated:
            return False
