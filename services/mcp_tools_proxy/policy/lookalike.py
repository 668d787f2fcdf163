"""Names that look like another server's: none of them may be used without its own server's id."""

from collections.abc import Container

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.component import ComponentSpec


def looks_like_anothers(spec: ComponentSpec, servers: Container[str]) -> bool:
    """Tell whether a component's bare name is spelt like the full name of another server's (A-19).

    While that server is away, its calls would end here. ``servers`` are the ids of all servers. A
    tool's name with a colon always is such (contract §6); a prompt's and a URI's may hold colons,
    so there the id of a server has to be in front. Of a URI only where another one follows: its
    scheme may be the id of a server.
    """
    name = spec.bare_name
    if spec.kind is Kind.TOOL:
        server_id, separator, _ = name.partition("__")
        return ":" in name or (bool(separator) and server_id in servers)
    server_id, separator, rest = name.partition(":")
    if not separator or server_id == spec.server_id or server_id not in servers:
        return False
    return spec.kind is Kind.PROMPT or (":" in rest and not rest.startswith("/"))
