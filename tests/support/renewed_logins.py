"""Logins for tests that renew them, and what is found out of their issuer."""

from typing import Any

from yarl import URL

from mcp_tools_proxy.domain.logins import Login
from mcp_tools_proxy.downstream.oauth.discovery import Discovered, find_issuer
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthWeb
from tests.support.stored_logins import BINDING, binding_at, make_login

CLIENT = {"id": "proxy", "secret": "s3cret"}
"""The client of the entry, which the login is of."""


async def discovered_at(web: OAuthWeb, url: str) -> Discovered:
    """Return what is found out for a server on this machine whose tokens an issuer gives."""
    origin = URL(url)
    issuer = await find_issuer(web, url, server=origin, configured=frozenset({origin}))
    return Discovered(resource=BINDING.resource, issuer=issuer, scopes=None)


def login_at(url: str, **fields: Any) -> Login:
    """Build a login at an issuer, with the secret of the entry and none of its own."""
    return make_login(binding=binding_at(url, CLIENT["id"]), client_secret=None, **fields)
