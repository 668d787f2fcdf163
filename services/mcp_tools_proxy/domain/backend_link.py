"""State of the connector's link to the remote backend, reported by health and ``/remote``."""

from enum import Enum

from mcp_tools_proxy.domain.fast_dataclass import dataclass


class RemoteState(Enum):
    """State of the connector."""

    CONNECTING = "connecting"
    ONLINE = "online"
    OFFLINE = "offline"
    UNAUTHORIZED = "unauthorized"
    """The backend refused the token. The connector does not dial until the token changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStatus:
    """Snapshot of the connector's state."""

    state: RemoteState
    since: str
    """Start of the current ``state``, as RFC 3339."""
    server_identifier: str
    backend: str
    """Scheme, host and port of the backend; never the whole URL, which can hold a secret."""
    last_error: str | None
    """The reason for the last failure; None after a successful connection."""
    attempts: int
    """Connection attempts since the last open link."""
    next_attempt_s: float | None
    """Seconds until the next dial; None if none is planned."""
    links: int
    sessions: int
    open_requests: int
    """Unanswered requests of the backend, including ``subscriptions/listen`` streams."""
    waiting_bytes: int
