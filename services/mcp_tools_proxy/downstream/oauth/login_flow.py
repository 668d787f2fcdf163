"""A sign-in of a person: what the browser is sent to, and what becomes of the code it brings."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from yarl import URL

from mcp_tools_proxy.domain.logins import Login, LoginBinding, LoginOwner
from mcp_tools_proxy.domain.server_auth import Grant
from mcp_tools_proxy.downstream.oauth.discovery import Discovered, Issuer
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthRefused, OAuthWeb, error_code
from mcp_tools_proxy.downstream.oauth.token_endpoint import AccessToken, IssuerClient, TokenEndpoint

OFFLINE_ACCESS = "offline_access"
"""The scope by which an OpenID provider gives refresh tokens."""

_STATE_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRequest:
    """What a person is to allow, in a browser or on another device."""

    owner: LoginOwner
    resource: str
    issuer: str
    scopes: tuple[str, ...] | None
    client: IssuerClient
    is_registered: bool = False
    """Whether the client registered itself, so that its secret belongs to the login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingLogin:
    """A sign-in in a browser that has begun; ``url`` is where the browser goes.

    It is kept where nobody else can read it until the browser is back.
    """

    request: LoginRequest
    needs_iss: bool
    """Whether the issuer promises to say who it is in its answer (RFC 9207)."""
    redirect_uri: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    url: str = field(repr=False)


def begin_login(
    request: LoginRequest,
    issuer: Issuer,
    *,
    redirect_uri: str,
    state: str | None = None,
    needs_pkce_metadata: bool = True,
) -> PendingLogin:
    """Return a new sign-in at an issuer. Raises OAuthRefused where that is not safe.

    ``state`` is one that is bound to a browser, None for a new one. An issuer that the operator
    trusts need not say that it knows PKCE: Entra ID does not, and knows it.
    """
    metadata = issuer.metadata
    if metadata.authorization_endpoint is None:
        raise OAuthRefused(
            f"issuer {issuer.name} does not support sign-in in a browser; use login --device"
        )
    if needs_pkce_metadata and "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise OAuthRefused(
            f"the metadata of issuer {issuer.name} does not announce PKCE with S256 "
            '(code_challenge_methods_supported); if the issuer supports it, set "pkce": "S256" in '
            "auth in mcp.json"
        )
    state = state or secrets.token_urlsafe(_STATE_BYTES)
    verifier = secrets.token_urlsafe(_STATE_BYTES)
    digest = hashlib.sha256(verifier.encode()).digest()
    query = {
        "response_type": "code",
        "client_id": request.client.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    if request.resource:
        query["resource"] = request.resource
    if request.scopes:
        query["scope"] = " ".join(request.scopes)
    if OFFLINE_ACCESS in (request.scopes or ()):
        query["prompt"] = "consent"  # without it an OpenID provider gives no refresh token
    return PendingLogin(
        request=request,
        needs_iss=bool(metadata.authorization_response_iss_parameter_supported),
        redirect_uri=redirect_uri,
        state=state,
        verifier=verifier,
        url=str(URL(str(metadata.authorization_endpoint)).update_query(query)),
    )


def check_answer(pending: PendingLogin, answer: Mapping[str, str]) -> str:
    """Return the code that a browser brought. Raises OAuthRefused.

    Who answers is checked before anything else is believed: another issuer could hand us a code
    of its own, to see it exchanged at the right one (mix-up).
    """
    state = answer.get("state", "")
    if not hmac.compare_digest(state.encode(), pending.state.encode()):
        raise OAuthRefused("the answer belongs to a different sign-in (state)")
    issuer = answer.get("iss")
    if issuer is None and pending.needs_iss:
        raise OAuthRefused(
            "the answer does not name its issuer (iss), although the issuer announced it"
        )
    if issuer is not None and issuer != pending.request.issuer:  # as it is spelt (RFC 9207)
        raise OAuthRefused("the answer is from another issuer (iss)")
    if "error" in answer:
        reason = error_code(answer["error"])
        where = pending.request.issuer
        raise OAuthRefused(
            f"the sign-in at {where} ended with {reason or 'an error'}", error=reason
        )
    code = answer.get("code")
    if not code:
        raise OAuthRefused("the answer has no code")
    return code


async def exchange_code(
    web: OAuthWeb, issuer: Issuer, pending: PendingLogin, code: str, now: Callable[[], float]
) -> AccessToken:
    """Exchange a code for a token. Raises IssuerUnavailable, OAuthRefused."""
    form = {
        "grant_type": Grant.AUTHORIZATION_CODE.value,
        "code": code,
        "redirect_uri": pending.redirect_uri,
        "code_verifier": pending.verifier,
    }
    if pending.request.resource:
        form["resource"] = pending.request.resource
    return await TokenEndpoint(web, issuer, pending.request.client, now).token(form)


def login_of(request: LoginRequest, token: AccessToken, signed_in_at: float) -> Login:
    """Return the login of a finished sign-in.

    Scopes that were requested count as granted: one that the issuer left out would be requested
    again with each call that needs it.
    """
    return Login(
        owner=request.owner,
        binding=LoginBinding(
            resource=request.resource,
            issuer=request.issuer,
            client_id=request.client.client_id,
            grant=Grant.AUTHORIZATION_CODE,
        ),
        access_token=token.access,
        expires_at=token.expires_at,
        refresh_token=token.refresh,
        scopes=tuple(dict.fromkeys((*(request.scopes or ()), *token.scopes))),
        client_secret=request.client.secret if request.is_registered else None,
        token_endpoint_auth_method=request.client.method,
        signed_in_at=signed_in_at,
    )


def scopes_to_request(
    allowed: tuple[str, ...] | None,
    challenged: tuple[str, ...] | None,
    found: Discovered,
    more: tuple[str, ...] = (),
) -> tuple[str, ...] | None:
    """Return the scopes of a sign-in, None for none.

    ``allowed`` are those of the entry, None for any; ``challenged`` those that the server named in
    its last refusal; ``more`` those of a login that is to be widened. Else the resource's metadata
    name them. ``offline_access`` is added where the issuer knows it, for a login to last.
    """
    wanted = challenged if challenged is not None else found.scopes
    if allowed is not None:
        wanted = tuple(it for it in wanted or () if it in allowed) or allowed
    known = found.issuer.metadata.scopes_supported or ()
    if wanted is None and not more:
        return None
    added = (OFFLINE_ACCESS,) if OFFLINE_ACCESS in known else ()
    union = dict.fromkeys((*more, *(wanted or ()), *added))
    return tuple(it for it in union if allowed is None or it in allowed)
