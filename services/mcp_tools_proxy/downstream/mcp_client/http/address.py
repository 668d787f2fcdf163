"""What a server's entry in mcp.json says about HTTP: its address, and the headers it is sent."""

from yarl import URL

from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.mcp_client.error_mapping import Unreachable

_OURS = frozenset({"accept", "content-type", "content-length", "connection", "transfer-encoding"})


def address_of(config: ServerConfig) -> URL:
    """Give the server's address. Raises Unreachable, which does not repeat it."""
    try:
        url = URL(config.url)
        url.origin()
    except ValueError:
        raise Unreachable("the server's url is not usable; see mcp.json") from None
    return url


def headers_of(config: ServerConfig) -> dict[str, str]:
    """Give the server's own headers, but for those that the transport has to set."""
    return {
        name: value
        for name, value in config.headers.items()
        if name.lower() not in _OURS and not name.lower().startswith("mcp-")
    }
