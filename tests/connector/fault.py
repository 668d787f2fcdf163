"""A backend fault: its actions, and the expected state of the gateway."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from tests.connector.raw_frames import TEXT, frame
from tests.support.remote_backend.backend import Backend
from tests.support.remote_backend.handshakes import Answer

Commit = Callable[[Backend], Awaitable[None]]
"""The backend's actions while the link is up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Reason for a lost link or failed dial."""

    kind: str = "lost"
    """The label of ``mcp_proxy_remote_link_losses_total``."""
    reason: str = "the connection broke"
    """Prefix of the reason in ``remote.offline`` and in the status."""

    @property
    def is_deliberate(self) -> bool:
        return self.kind in ("closed", "refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Without ``loss`` the link stays up; without ``outage`` the next one comes up."""

    id: str
    commit: Commit
    answered: tuple[object, ...] = ()
    """IDs of the session's pings that are answered; nothing else may arrive there."""
    ignored: tuple[str, ...] = ()
    """Prefixes of the reasons of each ``remote.frame_ignored``."""
    loss: Failure | None = None
    """How the link ends."""
    close_code: int | None = None
    """The gateway's close code; None matches any."""
    outage: Failure | None = None
    """Why each dial fails until the backend recovers."""
    ends_sessions: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of a separate gateway."""

    @property
    def is_deliberate(self) -> bool:
        """Whether the gateway waits at least 0.5 s before redialling."""
        return any(it is not None and it.is_deliberate for it in (self.loss, self.outage))


# Backend actions


def writes(data: bytes) -> Commit:
    """Write raw bytes to the link."""

    async def commit(backend: Backend) -> None:
        backend.link().write(data)

    return commit


def sends(text: bytes | str) -> Commit:
    return writes(frame(TEXT, text))


def sends_at_length(text: str) -> Commit:
    """Send a text frame that the gateway may not read completely."""

    async def commit(backend: Backend) -> None:
        with suppress(ConnectionError):
            await backend.link().send_raw(text)

    return commit


def closes(code: int) -> Commit:
    async def commit(backend: Backend) -> None:
        await backend.link().close(code)

    return commit


async def drop(backend: Backend) -> None:
    backend.link().drop()


async def vanish(backend: Backend) -> None:
    """Stop reading and writing."""
    backend.link().half_open()


async def shut(backend: Backend) -> None:
    await backend.shut()


def writes_and_hangs_up(data: bytes) -> Commit:
    """Write bytes and end the connection without a close frame."""

    async def commit(backend: Backend) -> None:
        link = backend.link()
        link.write(data)
        link.hang_up()

    return commit


def answers(answer: Answer) -> Commit:
    """Abort the connection, then answer every handshake in this way."""

    async def commit(backend: Backend) -> None:
        backend.manner = answer
        backend.link().drop()

    return commit
