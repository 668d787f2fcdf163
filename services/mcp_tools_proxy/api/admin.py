"""Who may change what this service offers (contract §1, PUT …/presets/active)."""

import hmac
from ipaddress import ip_address

from starlette.datastructures import Headers

from mcp_tools_proxy.domain.errors import Forbidden, Unauthenticated

TOKEN_VARIABLE = "MCP_PROXY_ADMIN_TOKEN"  # noqa: S105 - the variable's name, not a token


class AdminGate:
    """Lets operators through: by their token, or, while none is set, on loopback only."""

    def __init__(self, token: str | None, *, host: str) -> None:
        self._token = None if token is None else token.encode()
        self._on_loopback = is_loopback(host)

    def check(self, headers: Headers) -> None:
        """Refuse whoever is no operator. Raises Unauthenticated, Forbidden."""
        if self._token is None:
            self._check_local(headers)
        elif not hmac.compare_digest(self._token, _bearer(headers)):
            raise Unauthenticated(
                "this needs the admin token; send Authorization: Bearer <admin token>"
            )

    def _check_local(self, headers: Headers) -> None:
        if not self._on_loopback:
            raise Forbidden(
                "switching presets is off, because this service listens beyond this machine and "
                f"has no admin token; set {TOKEN_VARIABLE}"
            )
        if "origin" in headers:  # any web page can send this machine a request
            raise Forbidden(
                f"a browser may not switch presets without a token; set {TOKEN_VARIABLE}"
            )


def is_loopback(host: str) -> bool:
    """Tell whether who listens on ``host`` is reached from its own machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _bearer(headers: Headers) -> bytes:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip().encode("latin-1") if scheme.lower() == "bearer" else b""
