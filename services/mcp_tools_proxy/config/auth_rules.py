"""Rules between the keys of ``auth``, the entry around it, and the settings."""

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from mcp_tools_proxy.config.auth_entry import AuthEntry
from mcp_tools_proxy.config.json_file import Fault
from mcp_tools_proxy.config.server_entry import ServerEntry
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.server import Grant, Isolation, LoginFor, Transport, is_same_issuer
from mcp_tools_proxy.wire.identifiers import is_loopback

_NEEDED_ISOLATION: Mapping[LoginFor, frozenset[Isolation]] = {
    LoginFor.DEPLOYMENT: frozenset(Isolation),
    LoginFor.TENANT: frozenset({Isolation.TENANT, Isolation.USER}),
    LoginFor.USER: frozenset({Isolation.USER}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSupport:
    """OAuth features that the settings enable."""

    jwt_issuer: str | None = None
    """The issuer of callers' JWTs; None without JWT authentication."""
    keeps_logins: bool = False
    """Whether a key to encrypt logins is set."""
    proves_users: bool = False
    """Whether JWTs name the user."""


def turns_oauth_off(entry: ServerEntry) -> bool:
    """Return whether a header of the entry replaces ``auth``, as in broxy."""
    auth = entry.auth
    return (
        auth is not None and auth.grant is None and auth.for_ is None and _has_authorization(entry)
    )


def auth_faults(entry: ServerEntry, support: OAuthSupport) -> Iterator[Fault]:
    """Yield the faults of ``auth``, each with its place."""
    auth = entry.auth
    if auth is None or turns_oauth_off(entry):
        return
    if entry.effective_transport is Transport.STDIO:
        yield ("auth",), "needs a server with a url; a program gets its tokens in env"
    if _has_authorization(entry):
        yield ("headers",), "has Authorization, which auth sets; remove one of them"
    if entry.assertion is not None and entry.assertion.header.lower() == "authorization":
        yield ("assertion", "header"), "is Authorization, which auth sets; choose another"
    faults = (
        *_client_faults(auth),
        *_grant_faults(auth),
        *_tenant_faults(auth),
        *_for_faults(entry, auth),
        *_setting_faults(auth, support),
    )
    for key, message in faults:
        yield ("auth", key), message
    for key, template in _templates(auth):
        yield from _template_faults(key, template, auth)


def _has_authorization(entry: ServerEntry) -> bool:
    return any(name.lower() == "authorization" for name in entry.headers)


def _client_faults(auth: AuthEntry) -> Iterator[tuple[str, str]]:
    grant = auth.effective_grant
    clients = (auth.client_id, auth.client_secret, auth.discovery)
    has_client = any(it is not None for it in clients)
    if auth.client_secret is not None and auth.client_id is None:
        yield "clientSecret", "is a secret without an id; add clientId"
    if grant is not Grant.AUTHORIZATION_CODE and auth.client_id is None:
        yield "clientId", f"is missing: {grant.value} needs it"
    if grant is Grant.CLIENT_CREDENTIALS and auth.client_secret is None:
        yield "clientSecret", f"is missing: {grant.value} needs it"
    needs_issuer = has_client or grant is not Grant.AUTHORIZATION_CODE
    if needs_issuer and auth.authorization_server is None and grant is not Grant.TOKEN_EXCHANGE:
        yield (
            "authorizationServer",
            "is missing: name the issuer that the client's id and secret are for; a server must "
            "not choose it",
        )
    if auth.authorization_server is not None and not _is_safe(auth.authorization_server):
        yield "authorizationServer", "should be https, or http on this machine"
    if auth.redirect_uri is not None and not _is_local(auth.redirect_uri):
        yield (
            "redirectUri",
            "should be http on this machine, for the command login: http://127.0.0.1:PORT/PATH; "
            "the sign-in pages do not use this key",
        )
    if auth.client_id_metadata_url is not None and not _is_document(auth.client_id_metadata_url):
        yield "clientIdMetadataUrl", "should be https, with a path"


def _grant_faults(auth: AuthEntry) -> Iterator[tuple[str, str]]:
    grant = auth.effective_grant
    if grant.needs_jwt and auth.for_ is not LoginFor.USER:
        yield "for", f'should be set to "user": {grant.value} acts for the calling user'
    if grant is Grant.CLIENT_CREDENTIALS and auth.login_for is LoginFor.USER:
        yield "for", "should be deployment or tenant: client_credentials are not for a user"
    if (auth.idp is not None) is not (grant is Grant.ID_JAG):
        needed = "is missing: id_jag needs" if auth.idp is None else "is for id_jag only:"
        yield "idp", f"{needed} the client at the issuer of callers' tokens"
    if auth.subject_token_type is not None and not grant.needs_jwt:
        yield "subjectTokenType", "is for token_exchange and id_jag only, which exchange a JWT"
    if auth.pkce is not None and not grant.needs_person:
        yield "pkce", f"is for authorization_code only; {grant.value} works without a sign-in"
    if auth.discovery is not None and auth.login_for is LoginFor.DEPLOYMENT:
        yield "discovery", "is not needed: the server is discovered with the deployment's token"


def _for_faults(entry: ServerEntry, auth: AuthEntry) -> Iterator[tuple[str, str]]:
    if entry.isolation not in _NEEDED_ISOLATION[auth.login_for]:
        least = auth.login_for.value
        yield "for", f'needs "isolation": "{least}", so that each {least} has a separate session'


def _setting_faults(auth: AuthEntry, support: OAuthSupport) -> Iterator[tuple[str, str]]:
    if auth.login_for is LoginFor.USER and not support.proves_users:
        setting = "MCP_PROXY_AUTH_MODE to jwt"
        if support.jwt_issuer is not None:
            setting = "MCP_PROXY_JWT_USER_CLAIM to the claim of users"
        yield "for", f"is user, which a JWT has to prove; set {setting} and restart the gateway"
    if auth.effective_grant.needs_person and not support.keeps_logins:
        yield (
            "grant",
            "needs a sign-in, and logins cannot be stored without a key; set "
            "MCP_PROXY_CREDENTIALS_KEY to the output of openssl rand -hex 32, and restart the "
            "gateway",
        )
    issuer = auth.authorization_server
    if (
        auth.effective_grant is Grant.TOKEN_EXCHANGE
        and issuer is not None
        and support.jwt_issuer is not None
        and not is_same_issuer(issuer, support.jwt_issuer)
    ):
        yield "authorizationServer", "differs from MCP_PROXY_JWT_ISSUER, where tokens are exchanged"


def _templates(auth: AuthEntry) -> Iterator[tuple[str, CallerTemplate]]:
    values = {"clientId": auth.client_id, "clientSecret": auth.client_secret}
    if auth.idp is not None:
        values["idp"] = auth.idp.client_id
    for key, value in values.items():
        if isinstance(value, CallerTemplate):
            yield key, value


def _template_faults(key: str, template: CallerTemplate, auth: AuthEntry) -> Iterator[Fault]:
    may = {CallerPart.TENANT_ID} if auth.login_for is LoginFor.TENANT else set()
    if template.caller_parts - may:
        yield ("auth", key), 'has a part of the caller that "for" does not cover'


def _tenant_faults(auth: AuthEntry) -> Iterator[tuple[str, str]]:
    """Yield credentials that do not differ by tenant, although each tenant needs its own client."""
    if auth.effective_grant is not Grant.CLIENT_CREDENTIALS:
        return
    if auth.login_for is not LoginFor.TENANT:
        return
    for key, value in (("clientId", auth.client_id), ("clientSecret", auth.client_secret)):
        if not isinstance(value, CallerTemplate) or not value.caller_parts:
            yield key, "should differ by tenant: ${secret:PATH} with ${caller.tenant_id} in PATH"


def _is_local(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")


def _is_safe(url: str) -> bool:
    return urlsplit(url).scheme == "https" or _is_local(url)


def _is_document(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" and parts.path not in ("", "/")
