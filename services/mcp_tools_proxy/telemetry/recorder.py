"""Where the records of attempts go: each is one log line, and one line of the audit."""

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from mcp_tools_proxy.domain.audit import CHECK_OF_CODE, rule_of
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.wire.text import QUOTE_CHARS

MAX_ROLES = 20
"""How many roles of a caller a record has."""


REFUSED_SUMMARY = "request.refused_summary"
"""The event of the record that sums refusals up."""

DONE_SUMMARY = "request.done_summary"
"""The event of the record that sums other requests up."""


class Bound(Enum):
    """Records that cost their sender no budget: a flood of them must not rotate others away.

    Of each sender a minute has a bounded number one by one; the rest is in summaries.
    """

    UNAUTHENTICATED = "unauthenticated"
    """Refusals of requests whose sender proved nothing; they are kept apart from all others."""
    REFUSED = "refused"
    """Refusals of a sender with a valid token: such requests and calls are not charged."""
    DONE = "done"
    """Requests of such a sender that are answered and charged nothing, such as lists."""


class Recorder(Protocol):
    """Takes the records of all attempts."""

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

        ``reserved``: a place for this record was reserved. ``bound``: it cost no budget, and may be
        in a summary only; then the seconds are returned until its sender has records again.
        """
        ...


def caller_fields(caller: Caller) -> dict[str, object]:
    """Return the fields of a record that say who calls, and from where.

    Identifiers are whole: cut ones of two tenants could be one, and records are found by them.
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
    entry, peer = caller.origin
    fields["entry"] = str(entry)  # the encoder is slow with an enumeration
    if peer:
        fields["peer"] = peer
    return fields


def decision_fields(error: ProxyError) -> dict[str, object]:
    """Return the fields of a record that say which check refused, and by which rule."""
    fields: dict[str, object] = {"check": CHECK_OF_CODE[error.code]}
    rule = rule_of(error.code, error.rule)
    if rule is not None:
        fields["rule"] = rule.as_json
    return fields


def cut(text: str) -> str:
    """Shorten a caller's string; encoding the line as ASCII JSON escapes control characters."""
    return text[:QUOTE_CHARS]
