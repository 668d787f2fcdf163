"""The headers that go to a server: those of its own entry, and what the transport has to say."""

from mcp_tools_proxy.domain.server import ServerConfig

_OURS = frozenset({"accept", "content-type", "content-length", "connection", "transfer-encoding"})


def base_headers(config: ServerConfig) -> dict[str, str]:
    """Give the server's own headers, but for those that the transport has to set."""
    return {
        name: value
        for name, value in config.headers.items()
        if name.lower() not in _OURS and not name.lower().startswith("mcp-")
    }
