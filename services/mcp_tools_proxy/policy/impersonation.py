"""Names that look like another server's: none of them may be used without its own server's id."""

from collections.abc import Container

from mcp_tools_proxy.domain.caller import Kind


def looks_like_anothers(
    kind: Kind, server_id: str | None, name: str, servers: Container[str]
) -> bool:
    """Tell whether what a server calls a component is spelt like the full name of another server's
    (A-19).

    While that server is away, its calls would end here. ``servers`` are the ids of all servers. A
    tool's name with a colon always is such (contract §6); a prompt's and a URI's may hold colons,
    so there the id of a server has to be in front. Of a URI only where another one follows: its
    scheme may be the id of a server.
    """
    if kind is Kind.TOOL:
        first, separator, _ = name.partition("__")
        return ":" in name or (bool(separator) and first in servers)
    first, separator, rest = name.partition(":")
    if not separator or first == server_id or first not in servers:
        return False
    return kind is Kind.PROMPT or (":" in rest and not rest.startswith("/"))
