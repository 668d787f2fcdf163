"""The HTTP headers that a stateless request repeats its routing in, read in one pass."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Self

from starlette.datastructures import Headers

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.mcp_server.request import NO_HEADERS

_ROUTING = frozenset({"mcp-protocol-version", "mcp-method", "mcp-name"})
_KNOWN = {name.encode(): name for name in ("accept", "content-type", *_ROUTING)}
_PARAMETER = b"mcp-param-"

MAX_CACHED_CHARS = 256
"""A longer ``Accept`` header is read each time: a cache of headers of 64 kB took 32 MB."""


@dataclass(frozen=True, slots=True)
class PostHeaders:
    """The headers of one POST; white space around values is removed, see RFC 9110 §5.5."""

    values: Mapping[str, str]
    """Routing and media types, by name; of a repeated header the first."""
    repeated: str | None
    """The routing header that came twice, None if none did."""
    parameters: Headers
    """The ``Mcp-Param-`` headers, see header_parameters.py."""

    @classmethod
    def read(cls, raw: Iterable[tuple[bytes, bytes]]) -> Self:
        """Read the headers of an ASGI scope."""
        values: dict[str, str] = {}
        repeated: str | None = None
        parameters: list[tuple[bytes, bytes]] = []
        for key, value in raw:
            name = _KNOWN.get(key)
            if name is None:
                if key.startswith(_PARAMETER):
                    parameters.append((key, value.strip(b" \t")))
            elif name not in values:
                values[name] = value.strip(b" \t").decode("latin-1")
            elif repeated is None and name in _ROUTING:
                repeated = name
        return cls(values, repeated, Headers(raw=parameters) if parameters else NO_HEADERS)


def accepts_json(accept: str) -> bool:
    """Return whether an ``Accept`` header allows JSON."""
    return _accepts(accept, ("*/*", "application/*", "application/json"))


def accepts_events(accept: str) -> bool:
    """Return whether an ``Accept`` header allows an event stream."""
    return _accepts(accept, ("*/*", "text/*", "text/event-stream"))


def _accepts(accept: str, wanted: tuple[str, ...]) -> bool:
    read = _names_any if len(accept) <= MAX_CACHED_CHARS else _names_any.__wrapped__
    return read(accept, wanted)


@lru_cache(maxsize=256)
def _names_any(accept: str, wanted: tuple[str, ...]) -> bool:
    kinds = {kind.partition(";")[0].strip().lower() for kind in accept.split(",")}
    return not kinds.isdisjoint(wanted)
