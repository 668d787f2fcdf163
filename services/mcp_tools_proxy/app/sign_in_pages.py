"""Builds the sign-in pages for servers, and the gateway's client at the callers' issuer."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcp_tools_proxy.app.logins import OpenLogins, open_sign_in_store
from mcp_tools_proxy.app.optional import Lazy
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.configuration import Configuration
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.logins import SignInOffers
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.http.login_pages import LoginPages
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import secret_keys, secret_text

if TYPE_CHECKING:
    from mcp_tools_proxy.downstream.oauth.page_flow import OwnClient
    from mcp_tools_proxy.downstream.oauth.session_tokens import OAuthAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSignIns:
    """Sign-ins of users to servers; all fields are None without sign-in pages."""

    pages: LoginPages | None = None
    offers: SignInOffers | None = None
    close: Callable[[], Awaitable[None]] | None = None

    async def aclose(self) -> None:
        """Close the store of unfinished sign-ins."""
        if self.close is not None:
            await self.close()


def build_user_sign_ins(
    settings: Settings,
    logins: OpenLogins,
    oauth: "Lazy[OAuthAccess]",
    authenticator: Authenticator,
    configuration: Callable[[], Configuration],
) -> UserSignIns:
    """Build the pages below ``pages_url``. Raises ValueError for an unusable URL of Redis."""
    pages_url = settings.pages_url
    if pages_url is None:
        return UserSignIns()
    # the libraries of OAuth are slow to import
    from mcp_tools_proxy.downstream.oauth.login_flow import (  # noqa: PLC0415
        client_metadata,
    )
    from mcp_tools_proxy.downstream.oauth.page_flow import (  # noqa: PLC0415
        PageFlow,
        PageOffers,
    )
    from mcp_tools_proxy.downstream.oauth.session_tokens import now  # noqa: PLC0415
    from mcp_tools_proxy.downstream.oauth.sign_in_records import (  # noqa: PLC0415
        SignInRecords,
    )
    from mcp_tools_proxy.storage.logins.sign_in_store import RecordSealer  # noqa: PLC0415

    def find_server(server_id: str) -> ServerConfig | None:
        return configuration().servers.get(server_id)

    store = open_sign_in_store(settings, logins)
    keys = secret_keys(settings.credentials_key)
    records = SignInRecords(store, RecordSealer(keys), now)
    redirect_uri, metadata_url = f"{pages_url}/oauth/callback", f"{pages_url}/oauth/client.json"
    flow = PageFlow(
        records,
        own_client(settings),
        oauth.open,
        lambda token: authenticator.authenticate(f"Bearer {token}"),
        find_server,
        redirect_uri=redirect_uri,
        # issuers fetch it over https only (and so register the gateway on a loopback address)
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


def own_client(settings: Settings) -> "OwnClient":
    """Return the gateway as a client of the issuer of callers' tokens."""
    from mcp_tools_proxy.downstream.oauth.page_flow import OwnClient  # noqa: PLC0415 - slow

    audience = next(iter(settings.jwt_audience), "")
    resource = settings.mcp_resource or (audience if urlsplit(audience).scheme else "")
    return OwnClient(
        issuer=settings.jwt_issuer or "",
        client_id=settings.signin_client_id or "",
        client_secret=secret_text(settings.signin_client_secret),
        scopes=settings.signin_scopes,
        resource=resource,
    )
