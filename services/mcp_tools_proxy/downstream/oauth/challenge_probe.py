"""Finds out what token a server wants, by requests without one."""

from yarl import URL

from mcp_tools_proxy.downstream.oauth.challenge import Challenge, read_challenge
from mcp_tools_proxy.downstream.oauth.oauth_web import IssuerUnavailable, OAuthRefused, OAuthWeb
from mcp_tools_proxy.downstream.oauth.reach import reach_of
from mcp_tools_proxy.wire.mcp_protocol import HANDSHAKE_VERSIONS
from mcp_tools_proxy.wire.version import VERSION

_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": HANDSHAKE_VERSIONS[-1],
        "capabilities": {},
        "clientInfo": {"name": "mcp-tools-proxy", "version": VERSION},
    },
}
_LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
"""Some servers let anybody begin a session, and want a token for what comes then."""


async def find_challenge(web: OAuthWeb, server: URL) -> Challenge | None:
    """Return the challenge of a server's refusal; None if it refuses nothing, or is not there."""
    reach = reach_of(server, server, frozenset({server.origin()}))
    for request in (_INITIALIZE, _LIST):
        try:
            answer = await web.post_json(server, reach, request)
        except (IssuerUnavailable, OAuthRefused):
            continue
        if answer.status == 401:
            return read_challenge(answer.challenges)
    return None
