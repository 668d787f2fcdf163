from pathlib import Path

import httpx
from starlette.routing import Route

from mcp_tools_proxy.mcp.server.http.protected_resource import METADATA_PATH as METADATA
from tests.support.key_file import write_key
from tests.support.mcp_endpoint import Served, serving
from tests.support.tokens import sign_in_settings

OPEN = {
    *("GET /", "GET /health", "GET /health/ready", "GET /metrics", "GET /openapi.json"),
    "GET /.well-known/jwks.json",
    *("GET /oauth/start/{nonce}", "POST /oauth/start/{nonce}"),
    *("GET /oauth/callback", "GET /oauth/done", "GET /oauth/client.json"),
    *(
        f"GET {METADATA}{path}"
        for path in (
            *("", "/mcp", "/mcp/", "/mcp/sse"),
            *("/mcp/agents/{agent}", "/mcp/agents/{agent}/", "/mcp/agents/{agent}/sse"),
        )
    ),
}
"""As listed in docs/explanation/security-model.md."""


def routes_of(served: Served) -> set[str]:
    """Return every method and path of the service."""
    app = served.service.app
    routes = [*app.routes, *app.state.mcp_endpoints.routes()]
    found = [route for route in routes if isinstance(route, Route)]
    return {
        f"{method} {route.path}"
        for route in found
        for method in (route.methods or {"GET", "POST", "DELETE"}) - {"HEAD"}
    }


def is_page(response: httpx.Response) -> bool:
    """Return whether a page answered: it refuses unknown sign-ins without requesting a token."""
    is_html = response.headers.get("content-type", "").startswith("text/html")
    return is_html and response.status_code != 405


async def test_only_listed_routes_are_open_without_a_token(tmp_path: Path) -> None:
    key_file = tmp_path / "keys.pem"
    write_key(key_file)
    found = set()
    pages = {"signin_client_id": "pages", "credentials_key": ("0123456789abcdef" * 2,)}
    async with serving(**sign_in_settings(signing_key_file=key_file, **pages)) as served:
        for route in routes_of(served):
            method, path = route.split()
            path = path.replace("{agent}", "one").replace("{nonce}", "none")
            response = await served.http.request(method, path)
            if response.status_code < 400 or is_page(response):
                found.add(route)
    assert found == OPEN
