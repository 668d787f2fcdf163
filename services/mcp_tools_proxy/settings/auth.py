"""Settings of identity (contract §4).

They say how callers authenticate, which hosts and origins may call, where users and MCP clients
sign in, the gateway's own identity towards servers, and the token by which commands call a gateway.
"""

from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from mcp_tools_proxy.auth.claims import ALGORITHMS
from mcp_tools_proxy.settings.types import (
    ENV_PREFIX,
    EnvironmentSettings,
    OptionalPath,
    OptionalText,
    SettingWarning,
    SigningKeys,
    TextList,
    empty_is_unset,
    hard_to_guess,
    is_private,
    is_token,
    not_empty,
    starting_with,
    variable,
)
from mcp_tools_proxy.wire.identifiers import ANY_HOST, is_visible_ascii

MIN_ADMIN_TOKEN_CHARS = 16


def _known(algorithms: tuple[str, ...]) -> tuple[str, ...]:
    if not algorithms or set(algorithms) - set(ALGORITHMS):
        raise ValueError(f"should name some of {', '.join(ALGORITHMS)}")
    return algorithms


def _are_hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    if not all(host == ANY_HOST or _is_host(host) for host in hosts):
        raise ValueError(
            "should name hosts, like gateway.example.com, gateway.example.com:8082 or, for an "
            f"IPv6 address, [2001:db8::1], or be {ANY_HOST} for any"
        )
    return hosts


def _is_host(host: str) -> bool:
    """Return whether ``host`` is a valid ``Host`` header, with or without a port."""
    try:
        parts = urlsplit(f"//{host}")
        port_is_good = parts.port != 0
    except ValueError:
        return False
    return port_is_good and parts.netloc == host and bool(parts.hostname) and not {*host} & {*"*@ "}


def _are_origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    for origin in origins:
        parts = urlsplit(origin)
        if not parts.scheme or not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}":
            raise ValueError("should name origins, like https://app.example.com")
    return origins


def are_networks(networks: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse texts that are not networks. Raises ValueError."""
    for network in networks:
        try:
            ip_network(network)
        except ValueError:
            raise ValueError("should name networks, like 10.0.0.0/8 or fd00::/8") from None
    return networks


ClaimName = Annotated[str, Field(min_length=1)]


class TokensFileSettings(EnvironmentSettings):
    """The settings of the ``tokens`` commands, which so work while others are invalid."""

    tokens_file: OptionalPath = None
    """File of hashed bearer tokens, for auth_mode token; may be created later."""


class IdentitySettings(TokensFileSettings):
    """Who may call, and how callers prove who they are."""

    auth_mode: Literal["none", "token", "jwt"] = "none"
    """Authentication of callers. With ``none``, the tenant, user and roles in a request are
    trusted."""
    admin_token: Annotated[
        SecretStr | None,
        BeforeValidator(empty_is_unset),
        AfterValidator(is_token),
        hard_to_guess(MIN_ADMIN_TOKEN_CHARS),
    ] = None
    """Bearer token with every operator right. Unset: loopback can switch presets without a
    token."""
    metrics_token: Annotated[
        SecretStr | None,
        BeforeValidator(empty_is_unset),
        AfterValidator(is_token),
        hard_to_guess(MIN_ADMIN_TOKEN_CHARS),
    ] = None
    """Bearer token for ``GET /metrics`` only. Unset: no token is needed."""

    jwt_issuer: OptionalText = None
    """The required ``iss`` of JWTs, for auth_mode jwt."""
    jwt_audience: TextList = ()
    """The accepted ``aud`` values of JWTs."""
    jwt_jwks_url: Annotated[
        str | None, BeforeValidator(empty_is_unset), starting_with("http://", "https://")
    ] = None
    """URL of the issuer's public keys (JWKS)."""
    jwt_jwks_file: OptionalPath = None
    """File with the issuer's public keys, instead of the URL."""
    jwt_allow_http: bool = False
    """Allow fetching keys from another machine over plain http."""
    jwt_algorithms: Annotated[TextList, AfterValidator(_known)] = ALGORITHMS
    """Accepted signature algorithms."""
    jwt_leeway_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10.0
    """Accepted difference from the issuer's clock, in seconds."""
    jwt_tenant_claim: ClaimName = "tenant_id"
    """Claim with the tenant; dots address nested objects."""
    jwt_user_claim: OptionalText = "sub"
    """Claim with the user. Empty: the request names the user."""
    jwt_roles_claim: ClaimName = "roles"
    """Claim with the list of roles."""
    jwt_agents_claim: ClaimName = "agents"
    """Name of the claim that lists the agents a JWT may act as. Without the claim: any."""
    jwt_documents_claim: OptionalText = None
    """Claim with the documents that a JWT is limited to."""
    jwt_operator_claim: OptionalText = None
    """Claim with the operator rights."""
    jwt_admin_role: OptionalText = None
    """Role that grants the operator right ``presets``."""

    allowed_hosts: Annotated[TextList, AfterValidator(_are_hosts)] = ()
    """Accepted host names, besides this machine's own on loopback."""
    allowed_origins: Annotated[TextList, AfterValidator(_are_origins)] = ()
    """Origins of web pages that may send requests, besides this machine's own on loopback."""

    trusted_proxies: Annotated[TextList, AfterValidator(are_networks)] = ()
    """Networks of trusted proxies, as CIDRs, whose X-Forwarded-For is used."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        """Check combinations of settings. Raises ValueError naming the variable."""
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        for mode, needed in self._by_mode().items():
            for name, value in needed.items():
                if value and mode != self.auth_mode:
                    yield (
                        f"{ENV_PREFIX}AUTH_MODE: is {self.auth_mode}, so {variable(name)} is not "
                        f"used; set {ENV_PREFIX}AUTH_MODE to {mode}, or unset {variable(name)}"
                    )
                if not value and mode == self.auth_mode and not name.startswith("jwt_jwks"):
                    yield f"{variable(name)}: is required if {ENV_PREFIX}AUTH_MODE is {mode}"
        url, file = self.jwt_jwks_url, self.jwt_jwks_file
        if self.auth_mode == "jwt" and (url is None) == (file is None):
            yield (
                f"{variable('jwt_jwks_url')}: set either this or {variable('jwt_jwks_file')} if "
                f"{ENV_PREFIX}AUTH_MODE is jwt"
            )
        if url is not None and not self.jwt_allow_http and not is_private(url):
            yield (
                f"{variable('jwt_jwks_url')}: should start with https://, unless "
                f"{variable('jwt_allow_http')} is true"
            )

    def _by_mode(self) -> Mapping[str, Mapping[str, object]]:
        return {
            "token": {"tokens_file": self.tokens_file},
            "jwt": {
                "jwt_issuer": self.jwt_issuer,
                "jwt_audience": self.jwt_audience,
                "jwt_jwks_url": self.jwt_jwks_url,
                "jwt_jwks_file": self.jwt_jwks_file,
            },
        }


class ServerIdentitySettings(EnvironmentSettings):
    """The secrets that mcp.json names, and the gateway's identity towards servers."""

    secrets_dir: OptionalPath = None
    """Folder of the secrets in mcp.json (``${secret:PATH}``), one per file. Changes apply
    automatically."""
    signing_key_file: OptionalPath = None
    """PEM file of the keys for assertions to servers. The first signs; all are published."""
    public_url: Annotated[
        str | None, BeforeValidator(empty_is_unset), starting_with("http://", "https://")
    ] = None
    """The gateway's public URL: issuer of assertions, resource of MCP clients' sign-in, and address
    of the sign-in pages."""

    @model_validator(mode="after")
    def _check_issuer(self) -> Self:
        """Check that assertions have an issuer. Raises ValueError."""
        if self.signing_key_file is not None and self.public_url is None:
            raise ValueError(
                f"{variable('public_url')}: is required if {variable('signing_key_file')} is "
                "set: it is the issuer of the signed assertions"
            )
        return self


def _are_scopes(scopes: tuple[str, ...]) -> tuple[str, ...]:
    if not all(is_visible_ascii(scope) and not {*scope} & {*'"\\'} for scope in scopes):
        raise ValueError("should name scopes: visible ASCII without blanks, quotes or backslashes")
    return scopes


class SignInSettings(IdentitySettings, ServerIdentitySettings):
    """How MCP clients find out where they can sign in."""

    jwt_scopes: Annotated[TextList, AfterValidator(_are_scopes)] = ()
    """Scopes that MCP clients request at sign-in."""

    credentials_key: SigningKeys = ()
    """Keys of at least 32 characters that encrypt logins to servers, the same for all replicas and
    commands; the first encrypts new ones. Required if a server uses sign-in."""
    logins_dir: Annotated[Path, BeforeValidator(not_empty)] = Path("./logins")
    """Folder of logins to servers, unless documents are in PostgreSQL."""

    signin_client_id: OptionalText = None
    """Id of the gateway's client at jwt_issuer, for the sign-in pages. Unset: no such pages."""
    signin_client_secret: Annotated[SecretStr | None, BeforeValidator(empty_is_unset)] = None
    """Secret of that client; unset for a public client."""
    signin_scopes: Annotated[TextList, AfterValidator(_are_scopes)] = ()
    """Scopes that these pages request. Many issuers refuse a sign-in without scopes."""

    @property
    def pages_url(self) -> str | None:
        """The address below which users sign in to servers; None where there are no pages."""
        return None if self._missing_for_pages else (self.public_url or "").rstrip("/")

    @property
    def mcp_resource(self) -> str | None:
        """What MCP clients have to name as the audience of their tokens; None without sign-in."""
        resource = self._wanted_resource
        return resource if resource in self.jwt_audience else None

    def sign_in_warnings(self) -> tuple[SettingWarning, ...]:
        """Return a warning for each kind of sign-in that is set in part."""
        return (*self._client_warnings(), *self._page_warnings())

    @property
    def _missing_for_pages(self) -> str:
        """What the pages lack, for a warning; empty if nothing."""
        url = self.public_url or ""
        needs = (
            (self.signin_client_id is not None, f"{variable('signin_client_id')} is set"),
            (self.auth_mode == "jwt", f"{variable('auth_mode')} is jwt"),
            (bool(self.credentials_key), f"{variable('credentials_key')} is set"),
            (bool(url) and is_private(url), f"{variable('public_url')} is https, or on loopback"),
        )
        return " and ".join(text for is_met, text in needs if not is_met)

    def _page_warnings(self) -> tuple[SettingWarning, ...]:
        missing = self._missing_for_pages
        if not missing or self.signin_client_id is None:
            return ()
        return (SettingWarning(variable("signin_client_id"), f"is used only if {missing}"),)

    def _client_warnings(self) -> tuple[SettingWarning, ...]:
        """Return a warning if clients are not told where to sign in, although they might be."""
        resource = self._wanted_resource
        if self.mcp_resource is not None or (resource is None and not self.jwt_scopes):
            return ()
        if resource is None:
            needed = f"{variable('auth_mode')} is jwt and {variable('public_url')} is set"
            return (SettingWarning(variable("jwt_scopes"), f"is used only if {needed}"),)
        problem = (
            f"does not name {resource}, so MCP clients are not told where to sign in; add it, and "
            "let the issuer include it in its tokens"
        )
        return (SettingWarning(variable("jwt_audience"), problem),)

    @property
    def _wanted_resource(self) -> str | None:
        if self.auth_mode != "jwt" or self.public_url is None:
            return None
        return f"{self.public_url.rstrip('/')}/mcp"


class ClientSettings(EnvironmentSettings):
    """Where the gateway is, and by which token it knows the caller."""

    client_url: Annotated[
        str | None, BeforeValidator(empty_is_unset), starting_with("http://", "https://")
    ] = None
    """URL of the gateway. Unset: this machine at ``port``."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8082
    """Port that the gateway of this machine listens on."""
    client_token: Annotated[
        SecretStr | None, BeforeValidator(empty_is_unset), AfterValidator(is_token)
    ] = None
    """Bearer token sent to the gateway."""
