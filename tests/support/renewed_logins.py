"""Logins for tests of renewals, and discovery results of their issuer."""

from typing import Any

from yarl import URL

from mcp_tools_proxy.domain.logins import Login
from mcp_tools_proxy.downstream.oauth.discovery import Discovered, find_issuer
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthWeb
from tests.support.stored_logins import BINDING, binding_at, make_login

CLIENT = {"id": "proxy", "secret": "s3cret"}
"""The entry's client, which the login belongs to."""


async def discovered_at(web: OAuthWeb, url: str) -> Discovered:
    origin = URL(url)
    issuer = await find_issuer(web, url, server=origin, configured=frozenset({origin}))
    return Discovered(resource=BINDING.resource, issuer=issuer, scopes=None)


def login_at(url: str, **fields: Any) -> Login:
    """Build a login at an issuer, with the entry's client secret."""
    return make_login(binding=binding_at(url, CLIENT["id"]), client_secret=None, **fields)
