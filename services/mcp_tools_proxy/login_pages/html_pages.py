"""The HTML of the pages, and the headers that go with each."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape

from starlette.responses import HTMLResponse
from yarl import URL

from mcp_tools_proxy.domain.sign_in_pages import Closing, Confirmation
from mcp_tools_proxy.wire.text import printable

MAX_SHOWN_CHARS = 400
"""Longer texts of servers and users are cut: a page of them would hide what it is about."""

_STYLE = (
    "body{font:1rem/1.5 sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}"
    "dt{font-weight:bold}dd{margin:0 0 .5rem;overflow-wrap:anywhere}"
    "button{font:inherit;padding:.5rem 1.5rem}"
)
_STYLE_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()

_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def confirmation_page(shown: Confirmation, action: str) -> HTMLResponse:
    """Build the page that names what is being connected to what, with the button that goes on."""
    sentence = (
        f"Connect the server {_text(shown.server_id)} to your account "
        f"{_text(shown.user_id)} (tenant {_text(shown.tenant_id)}) on this gateway?"
    )
    rows = (
        ("Server", f"{_text(shown.server_id)}, {_text(shown.server_url)}"),
        ("Your account", f"{_text(shown.user_id)} (tenant {_text(shown.tenant_id)})"),
        ("Permissions for the gateway (scopes)", _scopes(shown.scopes)),
        ("Sign-in page", _text(shown.origin)),
        ("Token issuer", _text(shown.issuer)),
    )
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    form = (
        f'<form method="post" action="{escape(action)}">'
        f'<input type="hidden" name="csrf" value="{escape(shown.csrf)}">'
        f"<button>Continue to {_text(shown.origin)}</button></form>"
    )
    advice = "<p>If you did not request this, close this page. Nothing will be connected.</p>"
    return _page(
        "Connect a server",
        f"<p>{sentence}</p><dl>{listed}</dl>{form}{advice}",
        form_action="'self'",
    )


def leading_page(url: str) -> HTMLResponse:
    """Build the page that leads on to an issuer, at once or by its link.

    A redirect would not do: Chromium applies ``form-action`` of the page with the form to each
    redirect after it, and which others an issuer sends the browser on to is not known.
    """
    origin = _text(str(URL(url).origin()))
    return _page(
        f"Redirecting to {origin}",
        f'<p><a href="{escape(url)}">Continue to {origin}</a></p>',
        head=f'<meta http-equiv="refresh" content="0;url={escape(url)}">',
    )


def closing_page(closing: Closing | None) -> HTMLResponse:
    """Build the page that ends a sign-in."""
    if closing is None:
        return _page("No recent sign-in", "<p>This page shows the result of a sign-in.</p>")
    if closing.problem:
        return _page(
            "Not connected",
            f"<p>Server {_text(closing.server_id)}: {_text(closing.problem)}</p>",
        )
    return _page(
        "Connected",
        f"<p>The server {_text(closing.server_id)} is connected to your account. You can close "
        "this page and retry your request.</p>",
    )


def refusal_page(message: str, status: int) -> HTMLResponse:
    """Build the page of a request that cannot go on."""
    return _page("Not connected", f"<p>{_text(message)}</p>", status)


def _page(
    title: str, content: str, status: int = 200, *, form_action: str = "'none'", head: str = ""
) -> HTMLResponse:
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action {form_action}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )
    document = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"{head}<title>{title}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{title}</h1>{content}</body></html>"
    )
    return HTMLResponse(document, status, {**_HEADERS, "Content-Security-Policy": policy})


def _scopes(scopes: Sequence[str]) -> str:
    return ", ".join(map(_text, scopes)) or "none specified by the server"


def _text(text: str) -> str:
    """Return a text that somebody else chose for a page: cut, and nothing of it hidden."""
    shown = text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
    return escape(printable(shown))
