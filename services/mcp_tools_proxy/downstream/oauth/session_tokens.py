"""The tokens of one session with a server; each class is a SessionAccess."""

from collections.abc import Mapping, Sequence

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import LoginRequired, ProxyError
from mcp_tools_proxy.downstream.connection import AccessRefused, SessionAccess
from mcp_tools_proxy.downstream.oauth.challenge import read_challenge
from mcp_tools_proxy.downstream.oauth.server_access import ServerAccess, insufficient, of_operator

_SCHEME = "Bearer "


class SessionTokens:
    """The tokens of the session of ``caller``; None is for the deployment's.

    ``is_discovery`` is whether what the server offers is discovered in that name: an operator signs
    in for it, and not who calls.
    """

    def __init__(
        self, access: ServerAccess, caller: Caller | None, *, is_discovery: bool = False
    ) -> None:
        self._access = access
        self._caller = caller
        self._is_discovery = is_discovery

    def __repr__(self) -> str:
        return f"<SessionTokens {self._access}>"

    async def header(self) -> Mapping[str, str]:
        """Return the header of a request. Raises AccessRefused."""
        try:
            token = await self._access.token(self._owner(), self._caller)
        except LoginRequired as error:
            if self._is_discovery:
                error = of_operator(error, self._access.config.server_id)
            raise AccessRefused(error) from None
        except ProxyError as error:
            raise AccessRefused(error) from None
        return {"Authorization": f"{_SCHEME}{token.access}"}

    async def renewed(
        self, sent: Mapping[str, str], status: int, challenges: Sequence[str]
    ) -> bool:
        """Return whether a refused request should be sent once more, with another token."""
        challenge = read_challenge(challenges)
        if challenge is None:
            return False  # a refusal that has nothing to do with tokens
        self._access.note_challenge(challenge)
        access = sent.get("Authorization", "").removeprefix(_SCHEME)
        if status == 401:
            self._access.drop(self._owner(), access)
            return True
        if not challenge.is_insufficient_scope:
            return False
        try:
            await self._access.widen(self._owner(), access, challenge.scopes or ())
        except ProxyError as error:
            raise AccessRefused(error) from None
        return True

    def refused(self, status: int) -> AccessRefused:
        """Return the error of a request that was refused twice."""
        return AccessRefused(
            insufficient(
                f"the server refused a new token as well (HTTP status {status}): the token may be "
                "for another resource, or lack a claim or a scope"
            )
        )

    def _owner(self) -> tuple[str, ...]:
        return () if self._caller is None else self._access.owner_of(self._caller)


class DiscoveryTokens:
    """The session that discovers a server whose tokens are its callers': it has none of theirs.

    Where the server lets nobody without a token, that of ``discovery`` is used, if there is one.
    """

    def __init__(self, discovery: SessionAccess | None, without: ProxyError) -> None:
        self._discovery = discovery
        self._without = without
        self._is_needed = False

    def __repr__(self) -> str:
        return f"<DiscoveryTokens needed={self._is_needed}>"

    async def header(self) -> Mapping[str, str]:
        """Return the header of a request. Raises AccessRefused."""
        if not self._is_needed or self._discovery is None:
            return {}
        return await self._discovery.header()

    async def renewed(
        self, sent: Mapping[str, str], status: int, challenges: Sequence[str]
    ) -> bool:
        """Return whether a refused request should be sent once more, with a token."""
        if read_challenge(challenges) is None or (status != 401 and not sent):
            return False
        if self._discovery is None:
            raise AccessRefused(self._without)
        if not self._is_needed:
            self._is_needed = True
            return True
        return await self._discovery.renewed(sent, status, challenges)

    def refused(self, status: int) -> AccessRefused:
        """Return the error of a request that was refused twice."""
        if self._discovery is None:
            return AccessRefused(self._without)
        return self._discovery.refused(status)
