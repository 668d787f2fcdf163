"""Gets a token without a person: client credentials, token exchange, an identity assertion."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from mcp_tools_proxy.domain.identity import CallerJwt
from mcp_tools_proxy.domain.server_auth import Grant, ServerAuth
from mcp_tools_proxy.downstream.oauth.discovery import Discovered, Issuer
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthRefused, OAuthWeb
from mcp_tools_proxy.downstream.oauth.token_endpoint import (
    AccessToken,
    IssuerClient,
    TokenEndpoint,
    earlier,
)

_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - RFC 8693 §2.1
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"  # noqa: S105 - RFC 8693 §3
_ACCESS_TOKEN = f"{_TOKEN_TYPE}access_token"
_ID_JAG = f"{_TOKEN_TYPE}id-jag"


class UnattendedGrants:
    """Gets tokens for one server; ``now`` returns seconds since 1970.

    ``auth`` is what the server's entry says, ``web`` sends the requests.
    """

    def __init__(self, web: OAuthWeb, auth: ServerAuth, now: Callable[[], float]) -> None:
        self._web = web
        self._auth = auth
        self._now = now

    async def client_credentials(self, found: Discovered, client: IssuerClient) -> AccessToken:
        """Get a token in the client's own name. Raises IssuerUnavailable, OAuthRefused."""
        return await self._endpoint(found.issuer, client).token(
            {"grant_type": Grant.CLIENT_CREDENTIALS.value, "resource": found.resource},
            self._auth.scopes,
        )

    async def exchange(
        self, found: Discovered, jwt_issuer: Issuer, client: IssuerClient, jwt: CallerJwt
    ) -> AccessToken:
        """Exchange a caller's JWT at its issuer for a token for the server; it lives no longer.

        Raises as ``client_credentials``.
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
        """Exchange a caller's JWT for an assertion, and that for a token where it is meant for.

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
    """Return a token that ends with the JWT it came from; what renews it is dropped."""
    return replace(token, expires_at=earlier(token.expires_at, jwt.expires_at), refresh=None)
