"""Opens OAuth when a server needs it: its libraries take half a second to import."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from anyio.abc import AsyncResource

from mcp_tools_proxy.domain.proxies import NO_PROXIES, Proxies
from mcp_tools_proxy.domain.server_networks import ANY_NETWORK, ServerNetworks
from mcp_tools_proxy.downstream.module_import import import_in_thread
from mcp_tools_proxy.downstream.text_filler import TextFiller

if TYPE_CHECKING:
    from mcp_tools_proxy.downstream.oauth.oauth_access import OAuthAccess
    from mcp_tools_proxy.downstream.oauth.stored_logins import NoticeLogin
    from mcp_tools_proxy.logins.login_sealer import LoginSealer
    from mcp_tools_proxy.logins.login_store import LoginStore

_MODULE = "mcp_tools_proxy.downstream.oauth.oauth_access"


class LazyOAuth(AsyncResource):
    """Opens an OAuthAccess when it is first needed.

    ``jwt_issuer`` is the issuer of callers' JWTs, None where they have none; ``open_logins``
    returns the store of logins and what seals them, None where there is no key; ``notice`` is for
    StoredLogins; ``networks`` are those that servers, and issuers that are not public, may be in;
    ``proxies`` are those of the environment.
    """

    def __init__(
        self,
        filler: TextFiller,
        jwt_issuer: str | None,
        open_logins: "Callable[[], tuple[LoginStore, LoginSealer] | None]",
        notice: "NoticeLogin | None" = None,
        networks: ServerNetworks = ANY_NETWORK,
        proxies: Proxies = NO_PROXIES,
    ) -> None:
        self._networks = networks
        self._proxies = proxies
        self._notice = notice
        self._open_logins = open_logins
        self._filler = filler
        self._jwt_issuer = jwt_issuer
        self._access: OAuthAccess | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<LazyOAuth {self._access}>"

    async def aclose(self) -> None:
        """Close every connection to issuers."""
        if self._access is not None:
            await self._access.aclose()

    async def open(self) -> "OAuthAccess":
        """Return the tokens of all servers; the import is in a thread."""
        if self._access is not None:
            return self._access
        async with self._opening:
            if self._access is None:
                module = await import_in_thread(_MODULE)
                self._access = module.open_oauth(
                    self._filler.fill_texts,
                    self._jwt_issuer,
                    self._open_logins(),
                    self._notice,
                    self._networks,
                    self._proxies,
                )
            return self._access
