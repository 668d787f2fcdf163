"""Interface for records of attempts, and their common fields."""

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from mcp_tools_proxy.domain.audit import CHECK_OF_CODE, rule_of
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.wire.text import QUOTE_CHARS

MAX_ROLES = 20
"""Maximum number of a caller's roles in a record."""


REFUSED_SUMMARY = "request.refused_summary"
DONE_SUMMARY = "request.done_summary"


class Bound(Enum):
    """Records that cost their sender no budget: a flood of them must not rotate others away.

    Each sender has some individual records per minute; the rest is summarized.
    """

    UNAUTHENTICATED = "unauthenticated"
    """Refusals of unauthenticated requests, kept separately from all others."""
    REFUSED = "refused"
    """Uncharged refusals of a sender with a valid token."""
    DONE = "done"
    """Uncharged successful requests of such a sender, such as lists."""


class Recorder(Protocol):
    """Receives the records of all attempts."""

    def record(
        self,
        level: str,
        event: str,
        trace_id: str | None,
        payload: Mapping[str, object],
        *,
        reserved: bool = False,
        bound: Bound | None = None,
    ) -> float | None:
        """Record one attempt; ``level`` is a logger's method. Never raises or blocks.

        ``reserved`` means that a place was reserved. A record with ``bound`` cost no budget, so it
        may only be counted in a summary. Then the return value is the number of seconds until its
        sender has individual records again.
        """
        ...


def caller_fields(caller: Caller) -> dict[str, object]:
    """Return the fields of a record that identify the caller and the origin.

    Identifiers are complete, because records are searched by them, and truncated ones can collide.
    """
    fields: dict[str, object] = {
        "tenant_id": caller.tenant_id,
        "user_id": caller.user_id,
    }
    if caller.agent is not None:
        fields["agent"] = caller.agent
    if caller.roles:
        fields["roles"] = [cut(role) for role in caller.roles[:MAX_ROLES]]
    if caller.token_log_fields:
        fields |= caller.token_log_fields
    if caller.stand_in is not None:
        fields["stand_in"] = True
    if caller.user_is_unproved:
        fields["user_unproved"] = True
    entry, peer = caller.origin
    fields["entry"] = str(entry)  # the encoder is slow with an enumeration
    if peer:
        fields["peer"] = peer
    return fields


def decision_fields(error: ProxyError) -> dict[str, object]:
    """Return the fields of a record with the refusing check and rule."""
    fields: dict[str, object] = {"check": CHECK_OF_CODE[error.code]}
    rule = rule_of(error.code, error.rule)
    if rule is not None:
        fields["rule"] = rule.as_json
    return fields


def cut(text: str) -> str:
    """Shorten a caller's string; the ASCII JSON encoding escapes control characters."""
    return text[:QUOTE_CHARS]
