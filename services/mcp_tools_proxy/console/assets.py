"""The files that pages link to: read once, and named by their content, so that they are cached."""

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from mcp_tools_proxy.console.page_headers import SECURITY_HEADERS

_TYPES: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}


class Assets:
    """Style, scripts, font and icon; ``base`` is the path below which a proxy serves us."""

    def __init__(self, base: str) -> None:
        self._base = base
        folder = files("mcp_tools_proxy.console") / "assets"
        found = {it.name: it.read_bytes() for it in folder.iterdir() if _suffix(it.name) in _TYPES}
        self._files = found
        self._versions = {name: sha256(data).hexdigest()[:16] for name, data in found.items()}

    def url(self, name: str) -> str:
        """Return the address of a file."""
        return f"{self._base}/console/assets/{name}?v={self._versions[name]}"

    async def serve(self, request: Request) -> Response:
        """Send a file, to anybody: none holds a secret."""
        name: str = request.path_params["name"]
        content = self._files.get(name)
        if content is None:
            return Response("File not found.", 404, SECURITY_HEADERS, "text/plain")
        headers = {**SECURITY_HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        return Response(content, 200, headers, _TYPES[_suffix(name)])


def _suffix(name: str) -> str:
    return name.rpartition(".")[2]
