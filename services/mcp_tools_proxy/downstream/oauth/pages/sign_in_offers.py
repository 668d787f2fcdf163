"""The addresses at which users sign in: found where a call lacks a login, or requested."""

from collections.abc import Mapping

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import LoginRequired, LoginsUnavailable
from mcp_tools_proxy.domain.oauth.logins import LoginOwner
from mcp_tools_proxy.domain.oauth.server_auth import LoginFor
from mcp_tools_proxy.domain.oauth.sign_in_pages import OfferedSignIn
from mcp_tools_proxy.downstream.oauth.pages.sign_in_records import SignInRecords

START_PATH = "/oauth/start"


class PageOffers:
    """The SignInOffers of a gateway with pages below ``pages_url``."""

    def __init__(self, records: SignInRecords, pages_url: str) -> None:
        self._records = records
        self._pages_url = pages_url

    async def with_address(self, error: LoginRequired, caller: Caller) -> LoginRequired:
        """Return the error with the address where this caller can sign in, if there is one."""
        details = error.details or {}
        server_id, jwt = details.get("server_id"), caller.jwt
        if details.get("for") != LoginFor.USER.value or jwt is None:
            return error
        owner = LoginOwner(
            server_id=str(server_id),
            login_for=LoginFor.USER,
            tenant_id=caller.tenant_id,
            user_id=caller.user_id,
            user_issuer=jwt.issuer,
        )
        try:
            offered = await self.offer(owner, _scopes_of(details))
        except LoginsUnavailable as failure:
            return LoginRequired(
                f"{error.message}; {failure.message}", details=details, reason=error.reason
            )
        message = (
            f"the user has to sign in to server {server_id} first; show the user the address in "
            "details.url, and call again afterwards"
        )
        more: dict[str, object] = {"url": offered.url}
        if not self._records.is_shared:
            more["replicas"] = 1
            message += (
                "; only one replica knows the address: run a single replica, or set "
                "MCP_PROXY_STATE_URL, or keep the documents in PostgreSQL"
            )
        return LoginRequired(message, details={**details, **more}, reason=error.reason)

    async def offer(self, owner: LoginOwner, scopes: tuple[str, ...]) -> OfferedSignIn:
        """Return the address of an owner's pending sign-in. Raises LoginsUnavailable."""
        pending = await self._records.offer(owner, scopes)
        return OfferedSignIn(
            url=f"{self._pages_url}{START_PATH}/{pending.nonce}",
            expires_in_s=self._records.seconds_left(pending),
        )


def _scopes_of(details: Mapping[str, object]) -> tuple[str, ...]:
    scopes = details.get("scopes")
    return tuple(map(str, scopes)) if isinstance(scopes, list) else ()
