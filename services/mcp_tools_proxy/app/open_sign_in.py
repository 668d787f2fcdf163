"""Opens a sign-in to one server, for commands that run without a gateway."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from mcp_tools_proxy.app.configuration import configuration_reader
from mcp_tools_proxy.app.logins import OpenLogins
from mcp_tools_proxy.app.server_identity import build_filler, build_oauth
from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.configuration import InvalidConfig
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.logins import LoginFacts, LoginOwner
from mcp_tools_proxy.domain.server import LoginFor, ServerAuth, ServerConfig
from mcp_tools_proxy.downstream.oauth.oauth_web import IssuerUnavailable, OAuthRefused
from mcp_tools_proxy.downstream.oauth.server_sign_in import SignIn
from mcp_tools_proxy.downstream.oauth.server_tokens import OAuthParts
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.wire.identifiers import server_id_of
from mcp_tools_proxy.wire.text import quote

FAILURES = (IssuerUnavailable, OAuthRefused, InvalidConfig)
"""Failures of a sign-in; each has one line for an operator."""


class NoSignIn(Exception):
    """The server has no sign-in; the message is one line for users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSignIn:
    """A sign-in to a server, with its owner."""

    sign_in: SignIn
    owner: LoginOwner
    caller: Caller
    redirect_uri: str | None


@asynccontextmanager
async def open_sign_in(
    settings: Settings,
    config_dir: Path,
    server_id: str,
    *,
    tenant_id: str | None,
    user_id: str | None,
) -> AsyncIterator[OpenedSignIn]:
    """Yield the sign-in to a server. Raises NoSignIn, InvalidConfig."""
    server_id = server_id_of(server_id)
    config, auth = _entry(settings, config_dir, server_id)
    owner = _owner(settings, config, auth, tenant_id, user_id)
    async with _opened_parts(settings) as parts:
        yield OpenedSignIn(
            sign_in=SignIn(config, auth, parts),
            owner=owner,
            caller=Caller(tenant_id=tenant_id or NO_TENANT, user_id=user_id or ""),
            redirect_uri=auth.redirect_uri,
        )


async def list_logins(
    settings: Settings, tenant_id: str, *, reseal: bool = False
) -> Sequence[LoginFacts]:
    """Return the logins of a tenant ("" is the deployment); with ``reseal``, reseal them first."""
    async with _opened_parts(settings) as parts:
        if parts.logins is None:
            return ()
        if reseal:
            await parts.logins.reseal(tenant_id)
        return await parts.logins.facts(tenant_id)


@asynccontextmanager
async def _opened_parts(settings: Settings) -> AsyncIterator[OAuthParts]:
    logins = OpenLogins(settings)
    oauth = build_oauth(settings, build_filler(settings), logins)
    try:
        yield (await oauth.open()).parts
    finally:
        await oauth.aclose()
        await logins.aclose()


def _entry(settings: Settings, folder: Path, server_id: str) -> tuple[ServerConfig, ServerAuth]:
    configuration = configuration_reader(settings, folder)()
    problems = configuration.invalid.get(server_id)
    if problems:
        raise NoSignIn(f"the entry of {server_id} cannot be used: {problems[0]}")
    config = configuration.servers.get(server_id)
    if config is None:
        raise NoSignIn(f"server {quote(server_id)} is not in mcp.json")
    if config.auth is None:
        raise NoSignIn(f"{server_id} does not need a sign-in: auth is not active in its entry")
    if not config.auth.grant.needs_person:
        grant = config.auth.grant.value
        raise NoSignIn(
            f"{server_id} does not need a sign-in: the gateway gets its tokens with {grant}"
        )
    return config, config.auth


def _owner(
    settings: Settings,
    config: ServerConfig,
    auth: ServerAuth,
    tenant_id: str | None,
    user_id: str | None,
) -> LoginOwner:
    mismatch = auth.login_for.mismatch(tenant_id, user_id)
    if mismatch is not None:
        part, is_missing = mismatch
        raise NoSignIn(
            f"the login to {config.server_id} belongs to {_OWNERS[auth.login_for]}: "
            f"{'add' if is_missing else 'leave out'} --{part}"
        )
    return LoginOwner(
        server_id=config.server_id,
        login_for=auth.login_for,
        tenant_id=tenant_id or "",
        user_id=user_id or "",
        user_issuer=settings.jwt_issuer or "" if auth.login_for is LoginFor.USER else "",
    )


_OWNERS = {
    LoginFor.DEPLOYMENT: "the whole deployment",
    LoginFor.TENANT: "each tenant",
    LoginFor.USER: "each user",
}
