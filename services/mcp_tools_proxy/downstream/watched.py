"""Which resources of a server somebody wants to hear of, whatever link there is to it."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

MAX_WATCHED = 1000
"""Resources of one server that are watched at once."""

OnUpdate = Callable[[], None]
"""Called on the event loop when a resource changed, or may have; it must not raise or wait."""


@dataclass(eq=False, slots=True)
class _Watch:
    """One resource: who listens, and once ``decided`` how the server took it."""

    listeners: dict[object, OnUpdate] = field(default_factory=dict)
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    refusal: Exception | None = None


class Watched:
    """The listeners to one server's resources, by URI; each link subscribes to what is here."""

    def __init__(self) -> None:
        self.next_change = asyncio.Event()
        """Set when ``uris`` changes the next time; another one is in its place then."""
        self._watches: dict[str, _Watch] = {}

    def __repr__(self) -> str:
        return f"<Watched {len(self._watches)} resources>"

    @property
    def uris(self) -> frozenset[str]:
        """What somebody listens to."""
        return frozenset(self._watches)

    @property
    def is_full(self) -> bool:
        """Whether no more resources can be watched."""
        return len(self._watches) >= MAX_WATCHED

    async def subscribe(self, uri: str, listener: OnUpdate) -> Callable[[], None]:
        """Listen until what is returned is called; give it once the server has agreed.

        Raises the server's refusal; how long it takes is not bounded.
        """
        watch, key = self._watches.get(uri), object()
        if watch is None:
            watch = self._watches[uri] = _Watch()
            self._change()
        watch.listeners[key] = listener

        def leave() -> None:
            if watch.listeners.pop(key, None) and not watch.listeners:
                del self._watches[uri]
                self._change()

        try:
            await watch.decided.wait()
        except asyncio.CancelledError:
            leave()
            raise
        if watch.refusal is not None:
            leave()
            raise watch.refusal
        return leave

    def _change(self) -> None:
        told, self.next_change = self.next_change, asyncio.Event()
        told.set()

    def decide(self, uri: str, refusal: Exception | None = None) -> None:
        """The server has taken the subscription, or refused it."""
        watch = self._watches.get(uri)
        if watch is not None:
            watch.refusal = refusal
            watch.decided.set()

    def decided(self) -> frozenset[str]:
        """Give what the server has taken before: who listens may have missed something since."""
        return frozenset(uri for uri, watch in self._watches.items() if watch.decided.is_set())

    def updated(self, uri: str | None) -> None:
        """Tell who listens to this resource, or to one that it is a part of; None is any."""
        self.tell(known for known in self._watches if uri is None or _is_part(uri, known))

    def tell(self, uris: Iterable[str]) -> None:
        """Tell who listens to these resources."""
        for uri in tuple(uris):
            if (watch := self._watches.get(uri)) is not None:
                for listener in tuple(watch.listeners.values()):
                    listener()


def _is_part(uri: str, known: str) -> bool:
    return uri == known or uri.startswith(known.rstrip("/") + "/")
