"""Texts of mcp.json with placeholders: ``${caller.tenant_id}``, ``${secret:PATH}``.

Parsed when the file is loaded, filled in for each session or request.
"""

from collections.abc import Callable, Iterator
from enum import Enum

from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import CredentialsMissing, IdentityRequired
from mcp_tools_proxy.domain.fast_dataclass import dataclass


class CallerPart(Enum):
    """A part of the caller in a text, ``${caller.…}``; not a str, to differ from literal text."""

    TENANT_ID = "tenant_id"
    USER_ID = "user_id"
    AGENT = "agent"
    ROLES = "roles"

    def of(self, caller: Caller | None) -> str:
        """Return this part of a caller; roles are joined by commas.

        Raises the same errors as ``values_of``; an empty list of roles is valid.
        """
        return ",".join(self.values_of(caller))

    def is_known_of(self, caller: Caller | None) -> bool:
        """Return whether this part is known and may be sent to a server."""
        try:
            self.values_of(caller)
        except (IdentityRequired, CredentialsMissing):
            return False
        return True

    def values_of(self, caller: Caller | None) -> tuple[str, ...]:
        """Return the values of this part: one, or any number of roles.

        Raises IdentityRequired if the caller lacks it, and CredentialsMissing for an operator who
        acts as the caller, because a server would confuse the two.
        """
        if caller is not None:
            if caller.stand_in is not None:
                raise withheld_from_stand_in(self.value)
            match self:
                case CallerPart.TENANT_ID if caller.tenant_id != NO_TENANT:
                    return (caller.tenant_id,)
                case CallerPart.USER_ID if caller.user_id:
                    return (caller.user_id,)
                case CallerPart.AGENT if caller.agent is not None:
                    return (caller.agent,)
                case CallerPart.ROLES:
                    return caller.roles
                case _:
                    pass
        raise IdentityRequired(
            f"the server needs the {_NAMES[self]} of the caller, which the request does not "
            "name; send it with the request",
            details={"part": self.value},
        )


_NAMES = {
    CallerPart.TENANT_ID: "tenant",
    CallerPart.USER_ID: "user",
    CallerPart.AGENT: "agent",
    CallerPart.ROLES: "roles",
}

Encode = Callable[[str], str]
"""Encodes a caller's value for its position, so that it remains a single value there."""

ReadSecret = Callable[[str], str | None]
"""Returns the secret at a path below the secrets folder; None if it does not exist."""


@dataclass(frozen=True, slots=True)
class SecretPath:
    """``${secret:PATH}``; parts of the caller in it stay within one segment of the path."""

    parts: tuple[str | CallerPart, ...]


@dataclass(frozen=True, slots=True)
class CallerTemplate:
    """A text with parts of the caller or secrets; a text without either is a plain str."""

    parts: tuple[str | CallerPart | SecretPath, ...]

    @property
    def caller_parts(self) -> frozenset[CallerPart]:
        """The required parts of the caller, including those in paths of secrets."""
        return frozenset(_caller_parts(self.parts))

    @property
    def is_alone(self) -> bool:
        """Whether the text is exactly one part of the caller or one secret."""
        return len(self.parts) == 1

    @property
    def has_secret(self) -> bool:
        """Whether it reads a secret."""
        return any(isinstance(part, SecretPath) for part in self.parts)

    def fill(
        self, caller: Caller | None, *, encode: Encode, segment: Encode, read_secret: ReadSecret
    ) -> str:
        """Return the text for a caller.

        ``segment`` encodes a caller's value as one segment of a secret's path. Raises
        IdentityRequired and CredentialsMissing; only the latter's ``reason`` contains the path.
        """
        texts = []
        for part in self.parts:
            match part:
                case CallerPart():
                    texts.append(_encoded(part, caller, encode))
                case SecretPath():
                    path = "".join(
                        _encoded(it, caller, segment) if isinstance(it, CallerPart) else it
                        for it in part.parts
                    )
                    texts.append(_secret(path, read_secret))
                case _:
                    texts.append(part)
        return "".join(texts)


def credentials_missing(reason: str) -> CredentialsMissing:
    """Build the error for an unusable secret; only operators see the reason."""
    return CredentialsMissing(
        "the gateway has no credentials for this caller on this server; do not try again: tell "
        "the user, or an operator",
        reason=reason,
    )


def withheld_from_stand_in(what: str) -> CredentialsMissing:
    """Build the error for an operator's call that would send the user's data to a server."""
    return CredentialsMissing(
        "the server receives the caller's data, which is never sent when an operator acts for "
        "the user; the user has to make this call",
        reason=f"{what} is not available to an operator who acts for the user",
    )


def _encoded(part: CallerPart, caller: Caller | None, encode: Encode) -> str:
    """Encode each role separately: the role ``a,b`` differs from the roles ``a`` and ``b``."""
    return ",".join(map(encode, part.values_of(caller)))


def _secret(path: str, read_secret: ReadSecret) -> str:
    found = read_secret(path)
    if found is None:
        raise credentials_missing(f"secret {path} does not exist")
    return found


def _caller_parts(parts: tuple[str | CallerPart | SecretPath, ...]) -> Iterator[CallerPart]:
    for part in parts:
        if isinstance(part, CallerPart):
            yield part
        elif isinstance(part, SecretPath):
            yield from _caller_parts(part.parts)
