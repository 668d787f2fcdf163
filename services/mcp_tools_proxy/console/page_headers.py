"""The headers of every page, and the check of where a form comes from."""

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

from mcp_tools_proxy.wire.identifiers import is_loopback

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",  # no-referrer would make the Origin of our forms "null"
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex",
}
"""Of every page and every file; nothing inline runs, and nothing is of another origin."""

PAGE_HEADERS: Mapping[str, str] = {**SECURITY_HEADERS, "Cache-Control": "no-store"}


class OwnOrigin:
    """Tells the forms of our own pages from those of others.

    The origin is that of ``public_url``, where it is set. Else, and for a browser on this machine
    or behind a forwarded port, it is what the browser itself says that it asks (``Host``).
    """

    def __init__(self, public_url: str | None) -> None:
        self.public_url = public_url
        self._origin = None if public_url is None else _origin_of(public_url)

    def sent(self, request: Request) -> bool:
        """Return whether a form was sent by a page of ours; browsers name its origin themselves."""
        origins, hosts = request.headers.getlist("origin"), request.headers.getlist("host")
        if len(origins) != 1 or len(hosts) != 1:
            return False
        origin, host = origins[0].lower(), hosts[0].lower()
        if self._origin is not None and origin == self._origin:
            return True
        if self._origin is not None and not is_loopback(_name_of(host)):
            return False
        return origin in (f"http://{host}", f"https://{host}")


_DEFAULT_PORTS = {"http": 80, "https": 443}


def _origin_of(url: str) -> str:
    """Return the origin of a URL as browsers write it.

    They leave the usual port out, and write names of other letters than ASCII with ``xn--``.
    """
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "", parts.port
        name = f"[{ip_address(host)}]" if ":" in host else host.encode("idna").decode()
    except ValueError:  # no browser has been led there
        return f"{parts.scheme}://{parts.netloc}".lower()
    shown = "" if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{port}"
    return f"{parts.scheme}://{name}{shown}"


def _name_of(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
