"""Identity of a caller before a call: asserted by the request, or proven by a token."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Protocol

from mcp_tools_proxy.domain.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertedIdentity:
    """The caller as one part of a request asserts it; None for missing fields.

    A part is the body, the headers, the path, or the command line.
    """

    tenant_id: str | None = None
    user_id: str | None = None
    roles: tuple[str, ...] | None = None
    agent: str | None = None
    documents: frozenset[str] | None = None
    """The only documents that the request may use; the sets of several parts are intersected."""


def roles_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the roles sorted and without duplicates, so that parts of a request compare equal."""
    return tuple(sorted(set(names)))


NO_ASSERTION = AssertedIdentity()


class OperatorRight(StrEnum):
    """Operator rights. No right includes another."""

    PRESETS = "presets"
    """Switch presets, and see the details of servers and of readiness."""
    DOCUMENTS = "documents"
    AUDIT = "audit"
    DEFINITIONS = "definitions"
    LOGINS = "logins"
    TOKENS = "tokens"
    CONFIG = "config"
    RUN = "run"
    """Run a tool as another user, without the data that servers receive of that user."""
    APPROVE = "approve"
    """Decide on calls of the own tenant that wait for a second person (``may_approve``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller proven by a verified token.

    ``agents`` are the profiles that the token may be used with; None allows any or no profile. With
    ``asserts_users`` (services), requests state user and roles, which the token does not prove.
    ``documents`` are the only usable ones, None for all. ``rights`` are operator rights; an
    operator's token without a tenant has ``tenant_id`` None. ``token_log_fields`` identify the
    token in the log: its ``token_id``, or ``issuer`` and ``subject`` of a JWT.
    """

    tenant_id: str | None
    user_id: str | None = None
    roles: tuple[str, ...] = ()
    asserts_users: bool = False
    agents: frozenset[str] | None = None
    documents: frozenset[str] | None = None
    rights: frozenset[OperatorRight] = frozenset()
    token_log_fields: Mapping[str, str] = field(default_factory=dict, compare=False)
    jwt: tuple[str, float] | None = field(default=None, compare=False)
    """Issuer and expiry of the JWT, in seconds since 1970; None for another kind of token."""
    jwt_claims: str = field(default="", compare=False)
    """Digest of the JWT's claims, see ``Caller.jwt_claims``."""
    executes: bool = True
    """Whether the token may make calls."""

    @property
    def may_approve(self) -> bool:
        """Whether the token proves a person who may approve calls.

        A token that makes calls may be in the hands of a program, which would approve its own.
        """
        is_person = self.jwt is not None or not (self.executes or self.asserts_users)
        return (
            is_person
            and OperatorRight.APPROVE in self.rights
            and self.tenant_id is not None
            and self.user_id is not None
        )

    @property
    def own_name(self) -> tuple[str, str] | None:
        """Tenant and user, if a JWT proves both; None for another kind of token."""
        if self.jwt is None or self.tenant_id is None or self.user_id is None:
            return None
        return self.tenant_id, self.user_id


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerJwt:
    """The JWT of a request that proves its tenant and its user.

    It is sent only to its issuer. ``expires_at`` is in seconds since 1970.
    """

    issuer: str
    expires_at: float
    token: str = field(repr=False)


class TokenVerifier(Protocol):
    """Verifies bearer tokens."""

    async def verify(self, token: str) -> Principal:
        """Return the principal of ``token``. Raises Unauthenticated, which never quotes it."""
        ...
