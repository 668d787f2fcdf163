"""What is known of a caller before a call: what the request says, and what a token proves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertedIdentity:
    """What one part of a request says of its caller; None where it says nothing.

    A part is its body, its headers, its path, or the command line.
    """

    tenant_id: str | None = None
    user_id: str | None = None
    roles: tuple[str, ...] | None = None
    agent: str | None = None


NO_ASSERTION = AssertedIdentity()
"""What a part says that says nothing of its caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Whom a verified token stands for.

    ``agents`` are the profiles that it may be used with, None any of them or none; ``tenant_id`` is
    None for an operator's token that belongs to no tenant. ``proof`` is what the log says of the
    token: its ``token_id``, or the ``issuer`` and ``subject`` of a JWT.
    """

    tenant_id: str | None
    user_id: str | None = None
    roles: tuple[str, ...] = ()
    agents: frozenset[str] | None = None
    is_admin: bool = False
    proof: Mapping[str, str] = field(default_factory=dict, compare=False)


class TokenVerifier(Protocol):
    """Knows whom a bearer token stands for."""

    async def verify(self, token: str) -> Principal:
        """Give whom ``token`` stands for. Raises Unauthenticated, naming nothing of the token."""
        ...

    def is_known(self, token: str) -> bool:
        """Return whether ``token`` is known to be good, by one look-up."""
        ...

    def may_be_good(self, token: str) -> bool:
        """Return whether a token that is not known can be good, without checking a signature."""
        ...
