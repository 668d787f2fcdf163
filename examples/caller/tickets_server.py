"""An MCP server that believes who calls only by the gateway's signature.

python examples/caller/tickets_server.py    streamable HTTP on 127.0.0.1:8085/mcp
"""

import argparse
from typing import Any

import anyio.to_thread
import jwt
from mcp.server.mcpserver import Context, MCPServer

AUDIENCE = "https://tickets.example"
ALGORITHMS = ["EdDSA", "ES256", "RS256"]
REQUIRED = ["exp", "iat", "jti", "sub", "tenant_id"]

TICKETS = {
    ("acme", "ann"): ["The door of room 12 does not close."],
    ("globex", "ann"): ["The printer prints everything twice."],
}


class Callers:
    """Finds out who calls, by the keys that the gateway publishes."""

    def __init__(self, issuer: str, gateway: str) -> None:
        """Create the check; ``issuer`` is the gateway's MCP_PROXY_PUBLIC_URL."""
        self._issuer = issuer
        self._keys = jwt.PyJWKClient(f"{gateway}/.well-known/jwks.json")

    def claims_of(self, assertion: str) -> dict[str, Any]:
        """Return the claims of an assertion. Blocks; raises jwt.PyJWTError."""
        key = self._keys.get_signing_key_from_jwt(assertion)
        return jwt.decode(
            assertion,
            key,
            algorithms=ALGORITHMS,
            audience=AUDIENCE,
            issuer=self._issuer,
            options={"require": REQUIRED},
        )


def build_server(callers: Callers) -> MCPServer:
    """Build the server."""
    server = MCPServer("tickets", version="1.0.0")

    @server.tool()
    async def my_tickets(ctx: Context) -> list[str]:
        """List the tickets of who calls."""
        assertion = (ctx.headers or {}).get("x-caller-assertion", "")
        claims = await anyio.to_thread.run_sync(callers.claims_of, assertion)
        return TICKETS.get((claims["tenant_id"], claims["sub"]), [])

    return server


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description="An MCP server that verifies who calls.")
    parser.add_argument("--port", type=int, default=8085)
    parser.add_argument("--issuer", default="http://localhost:8082")
    parser.add_argument("--gateway", help="where its keys are, if not at the issuer's address")
    options = parser.parse_args()
    callers = Callers(options.issuer, options.gateway or options.issuer)
    build_server(callers).run("streamable-http", port=options.port, json_response=True)


if __name__ == "__main__":
    main()
