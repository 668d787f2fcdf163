"""A sign-in on another device, for machines without a browser (RFC 8628)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AnyHttpUrl, BaseModel, Field, ValidationError
from yarl import URL

from mcp_tools_proxy.downstream.oauth.discovery import Issuer
from mcp_tools_proxy.downstream.oauth.login_flow import LoginRequest
from mcp_tools_proxy.downstream.oauth.oauth_web import (
    IssuerUnavailable,
    OAuthRefused,
    OAuthWeb,
    check_scheme,
)
from mcp_tools_proxy.downstream.oauth.token_endpoint import AccessToken, TokenEndpoint, refusal

DEVICE_CODE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_LEAST_INTERVAL_S = 1.0
_SLOWER_S = 5.0
_LONGEST_S = 1800.0
_WAIT = frozenset({"authorization_pending", "slow_down"})


_Seconds = Annotated[float, Field(le=1e9, allow_inf_nan=False)]
"""Of an issuer, which may write whatever number it likes."""


class _DeviceAnswer(BaseModel):
    """What an issuer answers; a terminal shows the user code and the address."""

    device_code: str
    user_code: Annotated[str, Field(pattern=r"^[ -~]{1,64}$")]
    verification_uri: AnyHttpUrl
    expires_in: _Seconds
    interval: _Seconds = _SLOWER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """What a person types in elsewhere, and what we ask with meanwhile."""

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
    """Wait until the person has signed in. Raises OAuthRefused when the time is over."""
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
