"""Renders pages with Jinja and serves static files.

Texts of servers, documents and callers are always escaped. Static files are read once, and
versioned by their content for caching.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from mcp_tools_proxy.auth.operator_tokens import GUEST
from mcp_tools_proxy.console.navigation import may_run
from mcp_tools_proxy.console.page_request import SECURITY_HEADERS, page_address
from mcp_tools_proxy.console.page_text import sentence
from mcp_tools_proxy.console.pages.call_record import code_kind
from mcp_tools_proxy.domain.identity import Principal
from mcp_tools_proxy.wire.text import readable

_TYPES: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}


class Assets:
    """Styles, scripts, fonts and icons; ``base`` is the proxy's path prefix."""

    def __init__(self, base: str) -> None:
        self._base = base
        folder = files("mcp_tools_proxy.console") / "assets"
        found = {it.name: it.read_bytes() for it in folder.iterdir() if _suffix(it.name) in _TYPES}
        self._files = found
        self._versions = {name: sha256(data).hexdigest()[:16] for name, data in found.items()}

    def url(self, name: str) -> str:
        """Return the URL of a static file."""
        return f"{self._base}/console/assets/{name}?v={self._versions[name]}"

    async def serve(self, request: Request) -> Response:
        """Serve a static file without authentication."""
        name: str = request.path_params["name"]
        content = self._files.get(name)
        if content is None:
            return Response("File not found.", 404, SECURITY_HEADERS, "text/plain")
        headers = {**SECURITY_HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        return Response(content, 200, headers, _TYPES[_suffix(name)])


_STATE_KINDS = {
    "ready": "ok",
    "ok": "ok",
    "connecting": "idle",
    "reconnecting": "warn",
    "login_required": "warn",
    "degraded": "warn",
    "disabled": "idle",
}


class Templates:
    """The page templates; all text is escaped, and hidden characters are made visible.

    The filter ``verbatim`` is only for values that a form sends back unchanged. A test refuses
    ``|safe`` and similar markup in templates. Links begin with ``base``, the proxy's path prefix,
    or "".
    """

    def __init__(self, assets: Assets, base: str) -> None:
        self._environment = Environment(
            loader=PackageLoader("mcp_tools_proxy.console", "templates"),
            autoescape=True,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals |= {
            "asset": assets.url,
            "base": base,
            "code_kind": code_kind,
            "may_run": may_run,
            "readers_path": readers_path,
            "state_kind": state_kind,
        }
        self._environment.filters |= {
            "as_json": _as_json,
            "bytes": _bytes,
            "iso": _iso,
            "milliseconds": _milliseconds,
            "number": _number,
            "seconds": _seconds,
            "sentence": sentence,
            "until": _until,
            "utc": _utc,
            "verbatim": _verbatim,
        }

    def render(self, name: str, **context: Any) -> str:
        """Render a page."""
        return self._environment.get_template(name).render(**context)


def signed_in_as(operator: Principal) -> str:
    """Return the display name of an operator without a user and a note."""
    fields = operator.token_log_fields
    if fields == GUEST.token_log_fields:
        return "one-time link"
    return fields.get("subject") or fields.get("token_id", "operator").replace("_", " ")


def readers_path(tenant_id: str, doc_id: object) -> str:
    """Return the address of the page that shows a document's readers."""
    return page_address("/console/documents/manage", {"tenant_id": tenant_id, "doc_id": doc_id})


def state_kind(state: str) -> str:
    """Return the display kind of a server or dependency state: ok, warn, bad or idle."""
    return _STATE_KINDS.get(state, "bad")


class Verbatim(str):
    """A text whose hidden characters are not shown; it is escaped."""

    __slots__ = ()


def _verbatim(value: object) -> Verbatim:
    """Return a value that a form sends back unchanged."""
    return Verbatim("" if value is None else value)


def _shown(value: object) -> object:
    """Return a value for display: hidden characters visible, None as ""."""
    if isinstance(value, Markup | Verbatim):  # Markup was rendered by another template
        return value
    if value is None:
        return ""
    return readable(value) if isinstance(value, str) else value


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _number(value: float) -> str:
    return f"{value:,}"


def _milliseconds(value: float) -> str:
    if value < 10:
        return f"{value:.1f} ms"
    return f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.1f} s"


def _seconds(value: float) -> str:
    """Return a duration in its two largest units."""
    seconds = round(value)
    for unit, length, smaller, part in (
        ("d", 86_400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= length:
            rest = seconds % length // part
            return f"{seconds // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds} s"


def _iso(moment: datetime | str) -> str:
    """Return a time in the API's format."""
    return moment if isinstance(moment, str) else moment.isoformat().replace("+00:00", "Z")


def _until(moment: datetime) -> str:
    """Return the remaining time, such as "in 19 s", or "now" if it has passed."""
    left = (moment - datetime.now(UTC)).total_seconds()
    return f"in {_seconds(left)}" if left >= 1 else "now"


def _bytes(value: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return (
                f"{value:.0f} {unit}" if value >= 100 or unit == "bytes" else f"{value:.1f} {unit}"
            )
        value /= 1000
    return f"{value:.1f} GB"


def _utc(value: float) -> str:
    """Return seconds since 1970 as ISO 8601; the page converts it to the local time zone."""
    return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _suffix(name: str) -> str:
    return name.rpartition(".")[2]
