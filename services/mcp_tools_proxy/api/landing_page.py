"""``GET /`` for browsers while the console is off, and HEAD of it and of the health checks."""

from collections.abc import Callable, Sequence
from html import escape

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from mcp_tools_proxy.gateway.health import Health

HEALTH, READINESS = ("/health", "/health/ready")
"""Paths of the HTTP API that answer HEAD."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; }}
body {{ padding: 0 1rem; }}
dt {{ font-weight: 600; }} dd {{ margin: 0 0 .75rem; }}
</style>
<h1>{name}</h1>
<p>MCP Tools Proxy: a tool-execution gateway for LLM applications</p>
<dl>
<dt>Version</dt><dd>{version}</dd>
<dt>Health</dt><dd><a href="health/ready">{status}</a></dd>
<dt>HTTP API</dt><dd><a href="openapi.json">openapi.json</a> (OpenAPI 3.1);
<code>POST /internal/mcp/execute</code> runs a tool</dd>
<dt>MCP</dt><dd><code>/mcp</code> (streamable HTTP), <code>/mcp/sse</code> (legacy)</dd>
<dt>Console</dt><dd>off; set <code>MCP_PROXY_CONSOLE=true</code> to enable it at
<code>/console</code></dd>
<dt>Documentation</dt><dd><code>docs/index.md</code> in the source code; build the site with
<code>make docs</code></dd>
</dl>
"""


def landing_routes(
    health: Health, *, name: str, version: str, has_console: bool
) -> Sequence[Route]:
    """Return the route of the page, unless the console has that path, and those of HEAD."""

    async def show_page(request: Request) -> Response:
        """Show what this is; a client that takes no HTML gets NOT_FOUND, as before."""
        if not _takes_html(request):
            raise HTTPException(404)
        status = health.readiness().status
        page = _PAGE.format(name=escape(name), version=escape(version), status=escape(status))
        return HTMLResponse(page, headers=_HEADERS)

    def readiness_status() -> int:
        return 200 if health.readiness().serving else 503

    page = () if has_console else (Route("/", show_page, methods=["GET"]),)
    return (
        *page,
        _head_route(HEALTH, lambda: 200),
        _head_route(READINESS, readiness_status),
    )


def _head_route(path: str, status: Callable[[], int]) -> Route:
    """Return a route for HEAD, beside that of GET, which describes itself in the OpenAPI."""

    async def head(_: Request) -> Response:
        return Response(status_code=status(), media_type="application/json")

    return Route(path, head, methods=["HEAD"])


def _takes_html(request: Request) -> bool:
    accept = request.headers.get("accept", "*/*").lower()
    media_ranges = {part.partition(";")[0].strip() for part in accept.split(",")}
    return not media_ranges.isdisjoint({"text/html", "text/*", "*/*"})
