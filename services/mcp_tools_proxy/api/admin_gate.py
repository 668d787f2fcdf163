"""Decides who may switch presets (contract §1, PUT …/presets/active)."""

from starlette.datastructures import Headers

from mcp_tools_proxy.auth.admin_token import AdminToken
from mcp_tools_proxy.auth.authenticator import Authenticator, bearer_token, proven_of
from mcp_tools_proxy.auth.identity_headers import read_headers
from mcp_tools_proxy.domain.errors import Forbidden, Unauthenticated
from mcp_tools_proxy.wire.identifiers import is_loopback

TOKEN_VARIABLE = "MCP_PROXY_ADMIN_TOKEN"  # noqa: S105 - the variable's name, not a token


class AdminGate:
    """Admits operators only.

    Where callers need tokens (``auth_mode`` token or jwt) an operator's token is required. With
    ``auth_mode`` none it is the admin token; while none is set, every caller passes if the service
    listens on a loopback address.
    """

    def __init__(
        self, token: AdminToken | None, *, host: str, authenticator: Authenticator
    ) -> None:
        self._token = token
        self._on_loopback = is_loopback(host)
        self._authenticator = authenticator

    @property
    def needs_token(self) -> bool:
        """Whether a token is always required."""
        return self._token is not None or self._authenticator.needs_token

    async def check(self, headers: Headers) -> None:
        """Check that the caller is an operator.

        Raises InvalidRequest, Unauthenticated, Forbidden.
        """
        authorization, _ = read_headers(headers.raw)
        principal = await self._authenticator.authenticate(authorization)
        if principal is not None:
            if not principal.is_admin:
                error = Forbidden("only an operator's token may switch presets; send one")
                error.proven = proven_of(principal)
                raise error
        elif self._token is None:
            self._check_local(headers)
        else:
            self._check_token(self._token, bearer_token(authorization))

    def _check_token(self, token: AdminToken, presented: str | None) -> None:
        if not token.matches(presented or ""):
            raise Unauthenticated(
                "this needs the admin token; send Authorization: Bearer <admin token>",
                token_refused=presented is not None,
            )

    def _check_local(self, headers: Headers) -> None:
        if not self._on_loopback:
            raise Forbidden(
                "switching presets is off, because this service can be reached from other "
                f"machines and has no admin token; an operator can set {TOKEN_VARIABLE}"
            )
        if "origin" in headers:  # any web page can make a browser send this
            raise Forbidden(
                "a browser needs an operator's token to switch presets; an operator can set "
                f"{TOKEN_VARIABLE}"
            )
