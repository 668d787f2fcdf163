"""Requests to the token endpoint of an issuer (RFC 6749) as one of its clients.

``UnattendedGrants`` gets tokens without a person: client credentials, token exchange, an identity
assertion.
"""

import math
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from urllib.parse import quote_plus

from mcp.shared.auth import OAuthToken
from pydantic import ValidationError
from yarl import URL

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import CallerJwt
from mcp_tools_proxy.domain.server import Grant, ServerAuth
from mcp_tools_proxy.downstream.oauth.discovery import Discovered, Issuer, read_scopes
from mcp_tools_proxy.downstream.oauth.oauth_web import (
    HttpAnswer,
    OAuthRefused,
    OAuthWeb,
    error_code,
)

MARGIN_S = 60.0
"""Tokens are renewed this long before they expire, as clocks may differ."""

MAX_LIFE_S = 10 * 365 * 86_400
"""Maximum life of a token: issuers can send any number."""

METHODS = ("client_secret_basic", "client_secret_post", "none")
"""Supported client authentication methods, in order of preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerClient:
    """The gateway's identity at one issuer."""

    client_id: str
    secret: str | None = field(default=None, repr=False)
    method: str | None = None
    """Its authentication method; None selects one that the issuer supports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """An access token; ``expires_at`` is in seconds since 1970, None if unknown.

    ``scopes`` are the granted ones.
    """

    access: str = field(repr=False)
    expires_at: float | None = None
    scopes: tuple[str, ...] = ()
    refresh: str | None = field(default=None, repr=False)


class TokenEndpoint:
    """The token endpoint of an issuer; ``now`` returns seconds since 1970."""

    def __init__(
        self, web: OAuthWeb, issuer: Issuer, client: IssuerClient, now: Callable[[], float]
    ):
        self._web = web
        self._issuer = issuer
        self._client = client
        self._now = now

    async def token(
        self, form: Mapping[str, str], scopes: tuple[str, ...] | None = None
    ) -> AccessToken:
        """Request a token, optionally with ``scopes``.

        An answer without scopes grants the requested ones. Raises IssuerUnavailable, OAuthRefused.
        """
        content = await self.request({**form, **({"scope": " ".join(scopes)} if scopes else {})})
        try:
            answer = OAuthToken.model_validate(content)
        except ValidationError:
            text = "the issuer did not return a Bearer token"
            raise OAuthRefused(text, may_have_worked=True) from None
        lives_s = answer.expires_in
        return AccessToken(
            access=_usable(answer.access_token),
            expires_at=None if lives_s is None else self._now() + min(max(0, lives_s), MAX_LIFE_S),
            scopes=scopes or () if answer.scope is None else read_scopes(answer.scope.split()),
            refresh=answer.refresh_token,
        )

    async def request(self, form: Mapping[str, str]) -> Mapping[str, object]:
        """Post a form with the client's credentials, and return the answer. Raises as ``token``."""
        answer = await self.post(URL(str(self._issuer.metadata.token_endpoint)), form)
        content = answer.content
        if answer.status != 200 or not isinstance(content, dict) or _error_of(answer):
            raise refusal(answer, self._issuer.name)  # GitHub refuses with the status 200
        return content

    async def post(self, url: URL, form: Mapping[str, str]) -> HttpAnswer:
        """Post a form to any endpoint of the issuer. Raises IssuerUnavailable, OAuthRefused."""
        headers, own = self._credentials()
        return await self._web.post_form(url, self._issuer.reach_of(url), {**form, **own}, headers)

    def _credentials(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the headers and the fields that authenticate the client."""
        client = self._client
        if client.secret is None:
            return {}, {"client_id": client.client_id}
        if self._method() == "client_secret_basic":  # RFC 6749 §2.3.1: both are form-encoded
            pair = f"{quote_plus(client.client_id)}:{quote_plus(client.secret)}"
            return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}, {}
        return {}, {"client_id": client.client_id, "client_secret": client.secret}

    def _method(self) -> str:
        if self._client.method in METHODS:
            return self._client.method or ""
        supported = self._issuer.metadata.token_endpoint_auth_methods_supported
        if supported is not None and "client_secret_basic" not in supported:
            return "client_secret_post"
        return "client_secret_basic"  # the default of RFC 8414 §2


def refusal(answer: HttpAnswer, issuer: str) -> OAuthRefused:
    """Return the error of a refused request, with only the code of the issuer's text."""
    error = _error_of(answer)
    shown = f": {error}" if error else ""
    return OAuthRefused(
        f"the issuer {issuer} answered with HTTP status {answer.status}{shown}",
        error=error,
        may_have_worked=answer.status < 400 and not error,
    )


def _error_of(answer: HttpAnswer) -> str:
    content = answer.content if isinstance(answer.content, dict) else {}
    return error_code(content.get("error"))


def earlier(one: float | None, other: float | None) -> float | None:
    """Return the earlier of two expiry times; None means never."""
    found = min(math.inf if one is None else one, math.inf if other is None else other)
    return None if math.isinf(found) else found


def _usable(token: str) -> str:
    """Return a token that is valid in a header. Raises OAuthRefused."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        text = "the issuer's token has characters that are not allowed in a header"
        raise OAuthRefused(text, may_have_worked=True)
    return token


_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - RFC 8693 §2.1
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"  # noqa: S105 - RFC 8693 §3
_ACCESS_TOKEN = f"{_TOKEN_TYPE}access_token"
_ID_JAG = f"{_TOKEN_TYPE}id-jag"


class UnattendedGrants:
    """Grants of tokens for one server without a person; ``now`` returns seconds since 1970."""

    def __init__(self, web: OAuthWeb, auth: ServerAuth, now: Callable[[], float]) -> None:
        self._web = web
        self._auth = auth
        self._now = now

    async def client_credentials(self, found: Discovered, client: IssuerClient) -> AccessToken:
        """Get a token of the client itself. Raises IssuerUnavailable, OAuthRefused."""
        return await self._endpoint(found.issuer, client).token(
            {"grant_type": Grant.CLIENT_CREDENTIALS.value, "resource": found.resource},
            self._auth.scopes,
        )

    async def exchange(
        self, found: Discovered, jwt_issuer: Issuer, client: IssuerClient, jwt: CallerJwt
    ) -> AccessToken:
        """Exchange a caller's JWT at its issuer for a token for the server.

        The token expires with the JWT at the latest. Raises as ``client_credentials``.
        """
        form = {
            **self._exchanged(jwt),
            "requested_token_type": _ACCESS_TOKEN,
            "resource": found.resource,
        }
        token = await self._endpoint(jwt_issuer, client).token(form, self._auth.scopes)
        return _no_longer_than(token, jwt)

    async def id_jag(
        self,
        found: Discovered,
        jwt_issuer: Issuer,
        *,
        idp_client: IssuerClient,
        client: IssuerClient,
        jwt: CallerJwt,
    ) -> AccessToken:
        """Exchange a caller's JWT for an assertion, and the assertion for a token.

        The JWT goes to its own issuer, the assertion to the server's. Raises as
        ``client_credentials``.
        """
        form = {
            **self._exchanged(jwt),
            "requested_token_type": _ID_JAG,
            "audience": found.issuer.name,
            "resource": found.resource,
            **({"scope": " ".join(self._auth.scopes)} if self._auth.scopes else {}),
        }
        answer = await self._endpoint(jwt_issuer, idp_client).request(form)
        assertion = answer.get("access_token")
        if not isinstance(assertion, str) or answer.get("issued_token_type") != _ID_JAG:
            raise OAuthRefused(
                "the issuer of callers' tokens did not return an identity assertion (ID-JAG)"
            )
        token = await self._endpoint(found.issuer, client).token(
            {"grant_type": _JWT_BEARER, "assertion": assertion}, self._auth.scopes
        )
        return _no_longer_than(token, jwt)

    def _exchanged(self, jwt: CallerJwt) -> Mapping[str, str]:
        return {
            "grant_type": _TOKEN_EXCHANGE,
            "subject_token": jwt.token,
            "subject_token_type": f"{_TOKEN_TYPE}{self._auth.subject_token_type}",
        }

    def _endpoint(self, issuer: Issuer, client: IssuerClient) -> TokenEndpoint:
        return TokenEndpoint(self._web, issuer, client, self._now)


def _no_longer_than(token: AccessToken, jwt: CallerJwt) -> AccessToken:
    """Return a token that expires with its JWT at the latest, without its refresh token."""
    return replace(token, expires_at=earlier(token.expires_at, jwt.expires_at), refresh=None)
