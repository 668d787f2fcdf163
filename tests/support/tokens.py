"""Tokens of two tenants for the service under test, in a file or signed by an issuer."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.support.signing import AUDIENCE, ISSUER, key_set, make_key

KEY = make_key("ES256")
TOKENS_FILE = Path("tokens.jsonl")
JWKS_FILE = Path("jwks.json")
ADMIN_ROLE = "ops"
OPERATOR_CLAIM = "may"
PUBLIC_URL = "https://gateway.example/tools"
RESOURCE = f"{PUBLIC_URL}/mcp"

Settings = dict[str, Any]


def token_settings() -> Settings:
    return {"auth_mode": "token", "tokens_file": TOKENS_FILE}


def jwt_settings() -> Settings:
    JWKS_FILE.write_bytes(key_set(KEY))
    return {
        "auth_mode": "jwt",
        "jwt_issuer": ISSUER,
        "jwt_audience": (AUDIENCE,),
        "jwt_jwks_file": JWKS_FILE,
        "jwt_admin_role": ADMIN_ROLE,
        "jwt_operator_claim": OPERATOR_CLAIM,
    }


def sign_in_settings(**more: Any) -> Settings:
    """Return the settings that refer MCP clients to a sign-in, and ``more``."""
    return {
        **jwt_settings(),
        "jwt_audience": (AUDIENCE, RESOURCE),
        "public_url": f"{PUBLIC_URL}/",
        **more,
    }


def file_token(
    *,
    tenant: str | None = "tenant_1",
    user: str | None = None,
    agents: tuple[str, ...] | None = None,
    admin: bool = False,
    may: Iterable[OperatorRight] = (),
    roles: tuple[str, ...] = (),
    asserts_users: bool = False,
    documents: tuple[str, ...] | None = None,
    executes: bool = True,
) -> str:
    principal = Principal(
        tenant_id=tenant,
        user_id=user,
        roles=roles,
        asserts_users=asserts_users,
        agents=None if agents is None else frozenset(agents),
        documents=None if documents is None else frozenset(documents),
        rights=frozenset({OperatorRight.PRESETS, *may} if admin else may),
        executes=executes,
    )
    token, _ = add_token(TOKENS_FILE, principal)
    return token


def signed_token(
    *,
    tenant: str | None = "tenant_1",
    user: str | None = None,
    agents: tuple[str, ...] | None = None,
    admin: bool = False,
    may: Iterable[OperatorRight] = (),
    roles: tuple[str, ...] = (),
    documents: object = ...,
) -> str:
    return KEY.sign(
        tenant_id=tenant or ...,
        sub=user or ...,
        agents=... if agents is None else list(agents),
        roles=[*roles, ADMIN_ROLE] if admin else list(roles) or ...,
        may=[right.value for right in may] or ...,
        documents=documents,
    )


def bearer(token: str, **more: str) -> dict[str, str]:
    """Return the header that carries the token, and ``more``."""
    return {"Authorization": f"Bearer {token}", **more}


MakeToken = Callable[..., str]
MODES: dict[str, tuple[Callable[[], Settings], MakeToken]] = {
    "token": (token_settings, file_token),
    "jwt": (jwt_settings, signed_token),
}
"""The settings of each auth_mode with tokens, and its token factory."""
