"""Builds the pages by which users sign in to servers; its libraries are slow to import."""

from urllib.parse import urlsplit

from mcp_tools_proxy.app.open_logins import OpenLogins, UserSignIns
from mcp_tools_proxy.app.user_sign_ins.open_sign_in_store import open_sign_in_store
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.downstream.lazy_oauth import LazyOAuth
from mcp_tools_proxy.downstream.oauth.client_registration import client_metadata
from mcp_tools_proxy.downstream.oauth.oauth_access import now
from mcp_tools_proxy.downstream.oauth.pages.own_issuer import OwnClient
from mcp_tools_proxy.downstream.oauth.pages.page_flow import FindServer, PageFlow, PageOffers
from mcp_tools_proxy.downstream.oauth.pages.sign_in_records import SignInRecords
from mcp_tools_proxy.login_pages.page_routes import LoginPages
from mcp_tools_proxy.logins.sign_ins.sign_in_store import RecordSealer
from mcp_tools_proxy.settings.settings import Settings


def open_user_sign_ins(
    settings: Settings,
    pages_url: str,
    logins: OpenLogins,
    oauth: LazyOAuth,
    authenticator: Authenticator,
    find_server: FindServer,
) -> UserSignIns:
    """Build the pages below ``pages_url``. Raises ValueError for an unusable URL of Redis."""
    store = open_sign_in_store(settings, logins)
    keys = [key.get_secret_value().encode() for key in settings.credentials_key]
    records = SignInRecords(store, RecordSealer(keys), now)
    redirect_uri, metadata_url = f"{pages_url}/oauth/callback", f"{pages_url}/oauth/client.json"
    flow = PageFlow(
        records,
        own_client(settings),
        oauth.open,
        lambda token: authenticator.authenticate(f"Bearer {token}"),
        find_server,
        redirect_uri=redirect_uri,
        # issuers fetch it by https alone (and so register the gateway on a loopback address)
        metadata_url=metadata_url if pages_url.startswith("https:") else None,
    )
    document = {
        "client_id": metadata_url,
        **client_metadata([redirect_uri], name=None, method="none"),
    }
    return UserSignIns(
        pages=LoginPages(flow, pages_url, document),
        offers=PageOffers(records, pages_url),
        close=store.aclose,
    )


def own_client(settings: Settings) -> OwnClient:
    """Return the gateway as a client of the issuer of callers' tokens."""
    secret = settings.signin_client_secret
    audience = next(iter(settings.jwt_audience), "")
    resource = settings.mcp_resource or (audience if urlsplit(audience).scheme else "")
    return OwnClient(
        issuer=settings.jwt_issuer or "",
        client_id=settings.signin_client_id or "",
        client_secret=None if secret is None else secret.get_secret_value(),
        scopes=settings.signin_scopes,
        resource=resource,
    )
