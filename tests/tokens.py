"""Tokens of two tenants for the service under test, in a file or signed by an issuer."""

from pathlib import Path
from typing import Any

from mcp_tools_proxy.domain.principal import Principal
from mcp_tools_proxy.identity.token_file import add_entry
from mcp_tools_proxy.identity.token_lines import TokenEntry, new_token, token_hash
from tests.signing import AUDIENCE, ISSUER, key_set, make_key

KEY = make_key("ES256")
TOKENS_FILE = Path("tokens.jsonl")
JWKS_FILE = Path("jwks.json")
ADMIN_ROLE = "ops"

Settings = dict[str, Any]


def token_settings() -> Settings:
    """Give the settings of auth_mode token."""
    return {"auth_mode": "token", "tokens_file": TOKENS_FILE}


def jwt_settings() -> Settings:
    """Write the issuer's keys and give the settings of auth_mode jwt."""
    JWKS_FILE.write_bytes(key_set(KEY))
    return {
        "auth_mode": "jwt",
        "jwt_issuer": ISSUER,
        "jwt_audience": (AUDIENCE,),
        "jwt_jwks_file": JWKS_FILE,
        "jwt_admin_role": ADMIN_ROLE,
    }


def file_token(
    *,
    tenant: str | None = "tenant_1",
    user: str | None = None,
    agents: tuple[str, ...] | None = None,
    admin: bool = False,
) -> str:
    """Put a token into the file."""
    token = new_token()
    principal = Principal(
        tenant_id=tenant,
        user_id=user,
        agents=None if agents is None else frozenset(agents),
        is_admin=admin,
    )
    add_entry(TOKENS_FILE, TokenEntry(id="", hash=token_hash(token) or "", principal=principal))
    return token


def signed_token(
    *,
    tenant: str | None = "tenant_1",
    user: str | None = None,
    agents: tuple[str, ...] | None = None,
    admin: bool = False,
) -> str:
    """Sign a token."""
    return KEY.sign(
        tenant_id=tenant or ...,
        sub=user or ...,
        agents=... if agents is None else list(agents),
        roles=[ADMIN_ROLE] if admin else ...,
    )


def bearer(token: str) -> dict[str, str]:
    """Give the header that carries the token."""
    return {"Authorization": f"Bearer {token}"}
