"""How the connection to the remote backend is, for whoever asks."""

from dataclasses import dataclass
from enum import Enum


class RemoteState(Enum):
    """Where the connector is between dialling and being served over."""

    CONNECTING = "connecting"
    ONLINE = "online"
    OFFLINE = "offline"
    UNAUTHORIZED = "unauthorized"
    """The backend refused the token; nothing is tried until there is another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStatus:
    """The connector as it is now."""

    state: RemoteState
    since: str
    """When it came to this state, as in RFC 3339."""
    server_identifier: str
    backend: str
    """The backend's scheme, host and port; never the whole URL, which may hold a secret."""
    last_error: str | None
    """Why the last link was lost, or could not be had; None once one is up."""
    attempts: int
    """Dials since a link was last up."""
    next_attempt_s: float | None
    """Seconds until the next dial, None while none is planned."""
    links: int
    """Links that came up since the start."""
    sessions: int
    open_requests: int
    """Requests of the backend that are not answered yet, streams of changes included."""
    waiting_bytes: int
    """What waits to be sent, in bytes."""
