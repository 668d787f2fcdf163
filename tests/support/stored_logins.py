from dataclasses import replace
from typing import Any

from mcp_tools_proxy.domain.logins import Login, LoginBinding, LoginOwner
from mcp_tools_proxy.domain.server import Grant, LoginFor
from mcp_tools_proxy.storage.logins.login_sealer import LoginSealer

KEY = b"a key of at least thirty-two characters"
SEALER = LoginSealer([KEY])

ANA = LoginOwner(
    server_id="wiki",
    login_for=LoginFor.USER,
    tenant_id="acme",
    user_id="ana",
    user_issuer="https://id.example",
)
ACME = LoginOwner(server_id="wiki", login_for=LoginFor.TENANT, tenant_id="acme")
GLOBEX = LoginOwner(server_id="wiki", login_for=LoginFor.TENANT, tenant_id="globex")
DEPLOYMENT = LoginOwner(server_id="wiki", login_for=LoginFor.DEPLOYMENT)
BINDING = LoginBinding(
    resource="https://wiki.example/mcp",
    issuer="https://issuer.example",
    client_id="gateway",
    grant=Grant.AUTHORIZATION_CODE,
)


def binding_at(issuer: str, client_id: str) -> LoginBinding:
    return replace(BINDING, issuer=issuer, client_id=client_id)


def make_login(owner: LoginOwner = ANA, binding: LoginBinding = BINDING, **fields: Any) -> Login:
    """Build a login; ``fields`` are of Login."""
    given: dict[str, Any] = {
        "access_token": "access-1",
        "expires_at": 1_000_000.5,
        "refresh_token": "refresh-1",
        "scopes": ("read", "write"),
        "client_secret": "secret-1",
        "token_endpoint_auth_method": "client_secret_basic",
        "signed_in_at": 900_000.25,
        "account": "ana@example",
    }
    return Login(owner=owner, binding=binding, **(given | fields))
