"""Where a request came from: its entry, and the address of its sender."""

from enum import StrEnum
from typing import NamedTuple


class Entry(StrEnum):
    """The ways into the gateway."""

    API = "api"
    """The HTTP API."""
    MCP = "mcp"
    """MCP over HTTP: streamable HTTP of both eras, and legacy HTTP+SSE."""
    CONSOLE = "console"
    """A page of the console, which makes requests to the HTTP API in its user's name."""
    STDIO = "stdio"
    CONNECTOR = "connector"
    """The outbound WebSocket connection to a remote backend."""
    INTERNAL = "internal"
    """The gateway itself."""


class Origin(NamedTuple):
    """The entry of a request and its peer: an IP address, or what stands for one."""

    entry: Entry
    peer: str


UNKNOWN_ORIGIN = Origin(Entry.INTERNAL, "")
