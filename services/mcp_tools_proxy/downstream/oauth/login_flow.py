"""Sign-in of a person at an issuer: in a browser (PKCE), or on another device (RFC 8628).

The gateway's client there is configured, a metadata document, or registers itself.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Annotated
from urllib.parse import urlsplit

from mcp.shared.auth import OAuthClientInformationFull
from pydantic import AnyHttpUrl, BaseModel, Field, ValidationError
from yarl import URL

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.logins import Login, LoginBinding, LoginOwner
from mcp_tools_proxy.domain.server import Grant, OAuthClient
from mcp_tools_proxy.downstream.oauth.discovery import Discovered, Issuer
from mcp_tools_proxy.downstream.oauth.oauth_web import (
    IssuerUnavailable,
    OAuthRefused,
    OAuthWeb,
    check_scheme,
    error_code,
)
from mcp_tools_proxy.downstream.oauth.token_endpoint import (
    METHODS,
    AccessToken,
    IssuerClient,
    TokenEndpoint,
    refusal,
)
from mcp_tools_proxy.wire.text import ascii_text

OFFLINE_ACCESS = "offline_access"
"""The scope that makes an OpenID provider return refresh tokens."""

_STATE_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRequest:
    """The access that a person is asked to allow, in a browser or on another device."""

    owner: LoginOwner
    resource: str
    issuer: str
    scopes: tuple[str, ...] | None
    client: IssuerClient
    is_registered: bool = False
    """Whether the client registered itself, so that its secret belongs to the login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingLogin:
    """A sign-in that has begun in a browser; ``url`` is the page at the issuer.

    It is kept secret until the browser returns.
    """

    request: LoginRequest
    needs_iss: bool
    """Whether the issuer announces that its answer names it (RFC 9207)."""
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
    """Return a new sign-in at an issuer. Raises OAuthRefused if that is not safe.

    ``state`` binds it to a browser; None creates a new one. An issuer that the operator trusts need
    not announce PKCE: Entra ID supports it without announcing it.
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
        query["prompt"] = "consent"  # without it an OpenID provider returns no refresh token
    return PendingLogin(
        request=request,
        needs_iss=bool(metadata.authorization_response_iss_parameter_supported),
        redirect_uri=redirect_uri,
        state=state,
        verifier=verifier,
        url=str(URL(str(metadata.authorization_endpoint)).update_query(query)),
    )


def check_answer(pending: PendingLogin, answer: Mapping[str, str]) -> str:
    """Return the code from a browser. Raises OAuthRefused.

    State and issuer are checked first: another issuer could send its own code to have it exchanged
    at the right issuer (mix-up).
    """
    state = answer.get("state", "")
    if not hmac.compare_digest(state.encode(), pending.state.encode()):
        raise OAuthRefused("the answer belongs to a different sign-in (state)")
    issuer = answer.get("iss")
    if issuer is None and pending.needs_iss:
        raise OAuthRefused(
            "the answer does not name its issuer (iss), although the issuer announced it"
        )
    if issuer is not None and issuer != pending.request.issuer:  # compared as spelled (RFC 9207)
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

    Requested scopes count as granted: otherwise each call that needs a scope that the issuer left
    out would request it again.
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
    """Return the scopes of a sign-in; None to request no scopes.

    ``allowed`` are those of the entry, None for any; ``challenged`` those of the server's last
    refusal, by default those of the resource's metadata; ``more`` those of a login to be widened.
    ``offline_access`` is added if the issuer supports it, to get a lasting login.
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


DEVICE_CODE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_LEAST_INTERVAL_S = 1.0
_SLOWER_S = 5.0
_LONGEST_S = 1800.0
_WAIT = frozenset({"authorization_pending", "slow_down"})


_Seconds = Annotated[float, Field(le=1e9, allow_inf_nan=False)]


class _DeviceAnswer(BaseModel):
    device_code: str
    user_code: Annotated[str, Field(pattern=r"^[ -~]{1,64}$")]
    verification_uri: AnyHttpUrl
    expires_in: _Seconds
    interval: _Seconds = _SLOWER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """The user code to enter on another device, and the device code for polling."""

    device_code: str = field(repr=False)
    user_code: str = field(repr=False)
    verification_uri: str
    expires_in_s: float
    interval_s: float


async def request_device(web: OAuthWeb, issuer: Issuer, request: LoginRequest) -> DeviceCode:
    """Request a code for a device. Raises IssuerUnavailable, OAuthRefused."""
    endpoint = issuer.metadata.device_authorization_endpoint
    if endpoint is None:
        raise OAuthRefused(f"issuer {issuer.name} does not support sign-in on another device")
    form = {"resource": request.resource}
    if request.scopes:
        form["scope"] = " ".join(request.scopes)
    answer = await TokenEndpoint(web, issuer, request.client, _no_clock).post(
        URL(str(endpoint)), form
    )
    if answer.status != 200 or not isinstance(answer.content, dict):
        raise refusal(answer, issuer.name)
    try:
        found = _DeviceAnswer.model_validate(answer.content)
    except ValidationError:
        raise OAuthRefused("the issuer's answer has no device code") from None
    page = URL(str(found.verification_uri))
    check_scheme(page, issuer.reach_of(page))
    return DeviceCode(
        device_code=found.device_code,
        user_code=found.user_code,
        verification_uri=str(page),
        expires_in_s=min(found.expires_in, _LONGEST_S),
        interval_s=max(found.interval, _LEAST_INTERVAL_S),
    )


async def poll_device(
    web: OAuthWeb,
    issuer: Issuer,
    request: LoginRequest,
    device: DeviceCode,
    now: Callable[[], float],
) -> AccessToken:
    """Wait until the person has signed in. Raises OAuthRefused after the time limit."""
    endpoint = TokenEndpoint(web, issuer, request.client, now)
    form = {"grant_type": DEVICE_CODE_GRANT, "device_code": device.device_code}
    interval_s = device.interval_s
    try:
        async with asyncio.timeout(device.expires_in_s):
            while True:
                await asyncio.sleep(interval_s)
                try:
                    return await endpoint.token(form)
                except IssuerUnavailable:
                    interval_s += _SLOWER_S
                except OAuthRefused as error:
                    if error.error not in _WAIT:
                        raise
                    if error.error == "slow_down":
                        interval_s += _SLOWER_S
    except TimeoutError:
        raise OAuthRefused("the sign-in was not completed in time") from None


def _no_clock() -> float:
    return 0.0


NAME = "MCP Tools Proxy"

_CODE, _REFRESH = "authorization_code", "refresh_token"
BROWSER_GRANTS = (_CODE, _REFRESH)

DEVICE_GRANTS = (DEVICE_CODE_GRANT, _REFRESH)


async def client_at(
    web: OAuthWeb,
    issuer: Issuer,
    client: OAuthClient,
    *,
    filled: Mapping[str, str],
    redirect_uri: str,
    metadata_url: str | None,
    grants: Sequence[str] = BROWSER_GRANTS,
) -> IssuerClient:
    """Return the client for a sign-in.

    ``filled`` has the entry's ``id`` and ``secret``, if configured; ``metadata_url`` is the
    gateway's own document, for entries without one. A document takes precedence over a
    registration, which is for ``grants``. Raises IssuerUnavailable, OAuthRefused.
    """
    if "id" in filled:
        return IssuerClient(
            client_id=filled["id"],
            secret=filled.get("secret"),
            method=client.token_endpoint_auth_method,
        )
    document = client.metadata_url or metadata_url
    if document is not None and issuer.metadata.client_id_metadata_document_supported:
        return IssuerClient(client_id=document, method="none")
    if client.may_register and issuer.metadata.registration_endpoint is not None:
        return await _register(web, issuer, client, redirect_uri, grants)
    raise OAuthRefused(
        f"the issuer {issuer.name} does not support client registration; set clientId in the entry"
    )


def client_metadata(
    redirect_uris: Sequence[str],
    *,
    name: str | None,
    method: str,
    grants: Sequence[str] = BROWSER_GRANTS,
) -> dict[str, object]:
    """Return the gateway's client metadata for an issuer (RFC 7591 §2)."""
    is_local = all(urlsplit(uri).scheme == "http" for uri in redirect_uris)
    return {
        "client_name": name or NAME,
        "redirect_uris": list(redirect_uris),
        "grant_types": list(grants),
        "response_types": ["code"] if _CODE in grants else [],
        "token_endpoint_auth_method": method,
        "application_type": "native" if is_local else "web",
    }


async def _register(
    web: OAuthWeb,
    issuer: Issuer,
    client: OAuthClient,
    redirect_uri: str,
    grants: Sequence[str],
) -> IssuerClient:
    """The issuer can assign another method than the requested one."""
    url = URL(str(issuer.metadata.registration_endpoint))
    method = client.token_endpoint_auth_method or _method_of(issuer)
    wanted = client_metadata([redirect_uri], name=client.name, method=method, grants=grants)
    answer = await web.post_json(url, issuer.reach_of(url), wanted)
    if answer.status not in (200, 201):
        raise refusal(answer, issuer.name)
    try:
        made = OAuthClientInformationFull.model_validate(answer.content)
    except ValidationError:
        raise OAuthRefused("the issuer's answer to the client registration is not valid") from None
    assigned = made.token_endpoint_auth_method or method
    if assigned not in METHODS or (assigned != "none" and made.client_secret is None):
        shown = ascii_text(assigned)
        raise OAuthRefused(
            f"the issuer registered a client with an unsupported authentication method ({shown})"
        )
    secret = None if assigned == "none" else made.client_secret
    return IssuerClient(client_id=made.client_id, secret=secret, method=assigned)


def _method_of(issuer: Issuer) -> str:
    supported = issuer.metadata.token_endpoint_auth_methods_supported
    if supported is None:
        return METHODS[0]
    return next((method for method in METHODS if method in supported), METHODS[0])
