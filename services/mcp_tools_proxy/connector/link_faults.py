"""Why a link to the backend ended, or was not had: told without secrets."""

from enum import Enum


class FaultKind(Enum):
    """What happened, as metrics count it."""

    UNREACHABLE = "unreachable"
    """Nobody is there, or nobody behind the proxy that is."""
    LOST = "lost"
    """The link broke, or ended in a way that means no offence: the backend restarts, say."""
    CLOSED = "closed"
    """The backend closed the link on purpose: another gateway has its identifier, say."""
    REFUSED = "refused"
    """The backend does not want this gateway now."""
    UNAUTHORIZED = "unauthorized"
    """The backend does not know the token, or it gives no access."""

    @property
    def is_meant(self) -> bool:
        """Whether the backend wants it so; others are accidents."""
        return self not in (FaultKind.LOST, FaultKind.UNREACHABLE)


class LinkFault(Exception):
    """One line that operators read; ``retry_after_s`` is what the backend asked for."""

    def __init__(
        self, kind: FaultKind, message: str, *, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_s = retry_after_s
