"""State of the connector's link to the remote backend, as health and ``/remote`` report it."""

from dataclasses import dataclass
from enum import Enum


class RemoteState(Enum):
    """Whether the connector dials, is connected, waits to retry, or needs another token."""

    CONNECTING = "connecting"
    ONLINE = "online"
    OFFLINE = "offline"
    UNAUTHORIZED = "unauthorized"
    """The backend refused the token; the connector does not dial until the token changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStatus:
    """Snapshot of the connector's state."""

    state: RemoteState
    since: str
    """When the connector entered ``state``, as RFC 3339."""
    server_identifier: str
    backend: str
    """The backend's scheme, host and port; never the whole URL, which may hold a secret."""
    last_error: str | None
    """Why the last link was lost or could not be opened; None once a link is up."""
    attempts: int
    """Connection attempts since a link was last up."""
    next_attempt_s: float | None
    """Seconds until the next dial, None while none is planned."""
    links: int
    """Links opened since the start."""
    sessions: int
    open_requests: int
    """The backend's requests without a response yet, ``subscriptions/listen`` streams included."""
    waiting_bytes: int
    """Bytes queued in the outbox."""
