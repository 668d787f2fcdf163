"""The model of ``auth`` in a server's entry. The docstrings of model and fields are published."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict
from pydantic import WithJsonSchema as Published

from mcp_tools_proxy.config.field_types import (
    HTTP_URL_PATTERN,
    CallerText,
    FileModel,
    NotBlank,
    check_url,
    keys_of,
)
from mcp_tools_proxy.config.json_file import Location
from mcp_tools_proxy.domain.server import (
    DEFAULT_SUBJECT_TOKEN,
    SCOPE_CHARACTER,
    Grant,
    LoginFor,
    OAuthClient,
    ServerAuth,
)
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean

METHODS = ("client_secret_basic", "client_secret_post", "none")
_SCOPE_PATTERN = f"^{SCOPE_CHARACTER}+$"


def _check_address(url: str) -> str:
    check_url(url, HTTP_URL_PATTERN, "http:// or https://")
    return url


_Address = Annotated[
    str,
    AfterValidator(_check_address),
    Published({"type": "string", "pattern": f"^{HTTP_URL_PATTERN}$"}),
]
_Grant = Annotated[
    Grant, Strict(False), Published({"type": "string", "enum": [it.value for it in Grant]})
]
_For = Annotated[
    LoginFor, Strict(False), Published({"type": "string", "enum": [it.value for it in LoginFor]})
]
_Scopes = list[Annotated[str, Field(pattern=_SCOPE_PATTERN)]]


class IdpEntry(FileModel):
    """The gateway's client at the issuer of callers' tokens."""

    model_config = ConfigDict(extra="forbid")

    client_id: CallerText = Field(examples=["tools-proxy"])
    """Client id."""
    client_secret: CallerText | None = Field(default=None, examples=["${IDP_SECRET}"])
    """Client secret."""


class DiscoveryAuthEntry(FileModel):
    """The client used to discover the server's tools, if the server requires a token for that."""

    model_config = ConfigDict(extra="forbid")

    grant: Literal["client_credentials"]
    """`client_credentials`: the token is the client's own, not a caller's."""
    client_id: CallerText = Field(examples=["tools-proxy-discovery"])
    """Client id."""
    client_secret: CallerText = Field(examples=["${DISCOVERY_SECRET}"])
    """Client secret."""
    scopes: _Scopes | None = Field(default=None, examples=[["read"]])
    """Scopes to request."""


class AuthEntry(FileModel):
    """How the gateway gets OAuth tokens for a server."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["oauth"]
    """`oauth`, the only supported type."""
    grant: _Grant | None = Field(default=None, examples=["client_credentials"])
    """`authorization_code` (users sign in), `client_credentials`, `token_exchange` (RFC 8693) or
    `id_jag` (enterprise-managed authorization). Default: `authorization_code`."""
    for_: _For | None = Field(default=None, alias="for", examples=["user"])
    """Who tokens belong to: the whole `deployment`, each `tenant`, or each `user` of a tenant."""
    client_id: CallerText | None = Field(default=None, examples=["tools-proxy"])
    """The gateway's client id at the issuer. Requires `authorizationServer`."""
    client_secret: CallerText | None = Field(default=None, examples=["${TICKETS_SECRET}"])
    """The client secret. `${secret:PATH}`, as in `clientId`, is read again for each token."""
    client_id_metadata_url: _Address | None = Field(
        default=None, examples=["https://tools.example.com/client.json"]
    )
    """URL of a client ID metadata document, for a sign-in without `clientId` at issuers that
    support it."""
    client_name: NotBlank | None = Field(default=None, examples=["Company tools"])
    """Client name shown on the sign-in page if the gateway registered itself."""
    redirect_uri: _Address | None = Field(
        default=None, examples=["http://127.0.0.1:8765/oauth/callback"]
    )
    """Redirect URI at which the command `login` waits for the browser. Default: `/oauth/callback`
    on a free port of 127.0.0.1. The sign-in pages do not use it."""
    token_endpoint_auth_method: Literal["client_secret_basic", "client_secret_post", "none"] | (
        None
    ) = Field(default=None, examples=["client_secret_post"])
    """Client authentication method at the token endpoint: `client_secret_basic`,
    `client_secret_post` or `none`. Default: one that the issuer supports."""
    authorization_server: _Address | None = Field(
        default=None, examples=["https://login.example.com"]
    )
    """Issuer identifier of the authorization server, as in its metadata: https, or http on
    loopback. Default: the issuer named in the server's metadata."""
    pkce: Literal["S256"] | None = Field(default=None, examples=["S256"])
    """`S256`: the issuer supports PKCE although its metadata does not announce it, as with Entra ID
    and Amazon Cognito. If omitted, sign-in requires the announcement."""
    scopes: _Scopes | None = Field(default=None, examples=[["tickets.read", "tickets.write"]])
    """Upper limit for requested scopes. If omitted, a sign-in requests, and shows, the scopes that
    the server asks for; other grants request none."""
    resource: _Address | None = Field(default=None, examples=["https://tickets.example.com/mcp"])
    """Resource that tokens are requested for; it must match the server's metadata. Default: the
    resource in that metadata."""
    allow_dynamic_registration: bool = True
    """Whether the gateway may register itself at an issuer where it has no client id."""
    subject_token_type: Literal["access_token", "id_token", "jwt"] | None = Field(
        default=None, examples=["id_token"]
    )
    """For `token_exchange` and `id_jag`: the type of callers' JWTs at the issuer that exchanges
    them: `access_token`, `id_token` or `jwt`. Default: `access_token`."""
    idp: IdpEntry | None = Field(default=None)
    """For `id_jag`: the gateway's client (`clientId`, `clientSecret`) at MCP_PROXY_JWT_ISSUER."""
    discovery: DiscoveryAuthEntry | None = Field(default=None)
    """Client used to discover the server's tools, if the server requires a token for that: `grant`
    (`client_credentials`), `clientId`, `clientSecret` and `scopes` at `authorizationServer`, which
    is then required; with `token_exchange` at MCP_PROXY_JWT_ISSUER."""

    @property
    def effective_grant(self) -> Grant:
        """The grant, or the default."""
        return self.grant or Grant.AUTHORIZATION_CODE

    @property
    def login_for(self) -> LoginFor:
        """The owner of tokens, or the default."""
        return self.for_ or LoginFor.DEPLOYMENT


_MODELS: Mapping[int | str, type[BaseModel]] = {
    "auth": AuthEntry,
    "idp": IdpEntry,
    "discovery": DiscoveryAuthEntry,
}
_ISSUER_NAMES = frozenset({"issuer", "issuer_url", "issuerUrl"})


def unknown_auth_key(place: Location) -> str | None:
    """Return the message for an unknown key in ``auth``; None for a place outside of it."""
    if "auth" not in place or place[-2] not in _MODELS:
        return None
    key, known = str(place[-1]), keys_of(_MODELS[place[-2]])
    meant = closest_match(key, known)
    if key in _ISSUER_NAMES and "authorizationServer" in known:
        meant = "authorizationServer"
    return f"is not a known key{did_you_mean(meant, '; remove it')}"


def server_auth(entry: AuthEntry, *, jwt_issuer: str | None) -> ServerAuth:
    """Convert an entry; a token exchange uses the issuer of callers' tokens."""
    scopes = None if entry.scopes is None else tuple(dict.fromkeys(entry.scopes))
    is_exchange = entry.effective_grant is Grant.TOKEN_EXCHANGE
    issuer = jwt_issuer if is_exchange else entry.authorization_server
    return ServerAuth(
        grant=entry.effective_grant,
        login_for=entry.login_for,
        client=OAuthClient(
            client_id=entry.client_id,
            client_secret=entry.client_secret,
            metadata_url=entry.client_id_metadata_url,
            name=entry.client_name,
            token_endpoint_auth_method=entry.token_endpoint_auth_method,
            may_register=entry.allow_dynamic_registration,
        ),
        idp_client=None
        if entry.idp is None
        else OAuthClient(client_id=entry.idp.client_id, client_secret=entry.idp.client_secret),
        issuer=issuer,
        resource=entry.resource,
        scopes=scopes,
        subject_token_type=entry.subject_token_type or DEFAULT_SUBJECT_TOKEN,
        knows_pkce=entry.pkce is not None,
        redirect_uri=entry.redirect_uri,
        discovery=_discovery(entry, issuer),
    )


def _discovery(entry: AuthEntry, issuer: str | None) -> ServerAuth | None:
    """Return the authentication for discovery, at the issuer of the server's other tokens."""
    found = entry.discovery
    if found is None:
        return None
    return ServerAuth(
        grant=Grant.CLIENT_CREDENTIALS,
        client=OAuthClient(client_id=found.client_id, client_secret=found.client_secret),
        issuer=issuer,
        resource=entry.resource,
        scopes=None if found.scopes is None else tuple(dict.fromkeys(found.scopes)),
    )
