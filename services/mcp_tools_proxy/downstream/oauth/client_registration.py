"""What the gateway is at an issuer: a configured client, a metadata document, or registered now."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from mcp.shared.auth import OAuthClientInformationFull
from pydantic import ValidationError
from yarl import URL

from mcp_tools_proxy.domain.server_auth import OAuthClient
from mcp_tools_proxy.downstream.oauth.device_flow import DEVICE_CODE_GRANT
from mcp_tools_proxy.downstream.oauth.discovery import Issuer
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthRefused, OAuthWeb
from mcp_tools_proxy.downstream.oauth.token_endpoint import METHODS, IssuerClient, refusal
from mcp_tools_proxy.wire.text import ascii_text

NAME = "MCP Tools Proxy"

_CODE, _REFRESH = "authorization_code", "refresh_token"
BROWSER_GRANTS = (_CODE, _REFRESH)
"""What a client does by which people sign in with a browser."""

DEVICE_GRANTS = (DEVICE_CODE_GRANT, _REFRESH)
"""What a client does by which people sign in on another device."""


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

    ``filled`` has the entry's ``id`` and ``secret``, where it has them; ``metadata_url`` is the
    gateway's own document, for entries that name none. A document comes before a registration,
    which is for ``grants``.
    Raises IssuerUnavailable, OAuthRefused.
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
    """Return what an issuer is told of the gateway (RFC 7591 §2)."""
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
    """Register the gateway. An issuer may assign another method than was requested."""
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
    """Return the first method of ours that an issuer supports."""
    supported = issuer.metadata.token_endpoint_auth_methods_supported
    if supported is None:
        return METHODS[0]
    return next((method for method in METHODS if method in supported), METHODS[0])
