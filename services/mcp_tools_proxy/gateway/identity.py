"""Who calls: the one place that decides it, for every entry of the gateway."""

from dataclasses import fields
from typing import Protocol

from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import Forbidden
from mcp_tools_proxy.domain.principal import Principal, Said


class Verifier(Protocol):
    """Knows whom a bearer token stands for."""

    async def verify(self, token: str) -> Principal:
        """Give whom ``token`` stands for. Raises Unauthenticated, naming nothing of the token."""
        ...


class Identity:
    """Makes the caller of a request, from what its parts say and what its token proves.

    Without a ``verifier`` what the request says is believed: a network of friends.
    """

    def __init__(self, verifier: Verifier | None = None) -> None:
        self._verifier = verifier

    async def identify(self, authorization: str | None, *said: Said) -> Caller:
        """Give the caller; ``authorization`` is the header's value, ``said`` what each part says.

        Raises Unauthenticated; Forbidden when two parts differ, or the token does not allow what
        they say.
        """
        whole = _agreed(said)
        return Caller(
            tenant_id=whole.tenant_id or NO_TENANT,
            user_id=whole.user_id or "",
            roles=whole.roles or (),
            agent=whole.agent,
        )


def _agreed(said: tuple[Said, ...]) -> Said:
    """Join what the parts of a request say. Raises Forbidden when two of them differ."""
    whole = {}
    for one in fields(Said):
        values = {value for part in said if (value := getattr(part, one.name)) is not None}
        if len(values) > 1:
            raise Forbidden(f"the request names two different values of {one.name}; name one")
        whole[one.name] = values.pop() if values else None
    return Said(**whole)
