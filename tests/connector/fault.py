"""One fault of a backend: what it does to a gateway, and what holds then."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from tests.connector.raw_frames import TEXT, frame
from tests.support.remote_backend.backend import Backend
from tests.support.remote_backend.handshakes import Answer

Commit = Callable[[Backend], Awaitable[None]]
"""What a backend does while the link is up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a link ended, or a dial failed."""

    kind: str = "lost"
    """The label of ``mcp_proxy_remote_link_losses_total``."""
    reason: str = "the connection broke"
    """How the reason begins in ``remote.offline`` and in the status."""

    @property
    def is_deliberate(self) -> bool:
        return self.kind in ("closed", "refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One entry. Without ``loss`` the link stays up; without ``outage`` the next one comes up."""

    id: str
    commit: Commit
    answered: tuple[object, ...] = ()
    """The ids of the pings in the session that are answered; nothing else arrives there."""
    ignored: tuple[str, ...] = ()
    """How the reason of each ``remote.frame_ignored`` begins."""
    loss: Failure | None = None
    """How the link ends."""
    close_code: int | None = None
    """The code that the gateway closes the link with; None is any."""
    outage: Failure | None = None
    """Why each dial fails until the backend is as it was."""
    ends_sessions: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)
    """What a gateway of its own is started with."""

    @property
    def is_deliberate(self) -> bool:
        """Whether the gateway waits for at least 0.5 s before it dials again."""
        return any(it is not None and it.is_deliberate for it in (self.loss, self.outage))


# What a backend does


def writes(data: bytes) -> Commit:
    """Write bytes to the link as they are."""

    async def commit(backend: Backend) -> None:
        backend.link().write(data)

    return commit


def sends(text: bytes | str) -> Commit:
    """Send a text frame."""
    return writes(frame(TEXT, text))


def sends_at_length(text: str) -> Commit:
    """Send a text frame of which the gateway may not read the rest."""

    async def commit(backend: Backend) -> None:
        with suppress(ConnectionError):
            await backend.link().send_raw(text)

    return commit


def closes(code: int) -> Commit:
    """Close the link with a code."""

    async def commit(backend: Backend) -> None:
        await backend.link().close(code)

    return commit


async def drop(backend: Backend) -> None:
    """Abort the connection."""
    backend.link().drop()


async def vanish(backend: Backend) -> None:
    """Neither read nor write any more."""
    backend.link().half_open()


async def shut(backend: Backend) -> None:
    """Go down."""
    await backend.shut()


def writes_and_hangs_up(data: bytes) -> Commit:
    """Write bytes, and end the connection without a close frame."""

    async def commit(backend: Backend) -> None:
        link = backend.link()
        link.write(data)
        link.hang_up()

    return commit


def answers(answer: Answer) -> Commit:
    """Abort the connection, and answer each handshake in this way from then on."""

    async def commit(backend: Backend) -> None:
        backend.manner = answer
        backend.link().drop()

    return commit
