"""Following redirects that stay at the same server, and refusing all others."""

from collections.abc import Awaitable, Callable

import aiohttp
from yarl import URL

from mcp_tools_proxy.downstream.mcp_client.error_mapping import Refused
from mcp_tools_proxy.wire.text import quote

MAX_REDIRECTS = 3
"""How many redirects of one request are followed."""

_KEEPS_REQUEST = frozenset({307, 308})
"""The others let a client turn a POST into a GET."""
_FIRST_REDIRECT = 300
_NOT_FOUND = frozenset({404, 410})
_ADDRESS_CHARS = 300

Send = Callable[[URL], Awaitable[aiohttp.ClientResponse]]
"""Sends one and the same request to an address."""


class Address:
    """Where requests go: the configured address, or where it redirected to the last time."""

    def __init__(self, url: URL) -> None:
        self.url = self._configured_url = url

    async def send(self, send: Send) -> aiohttp.ClientResponse:
        """Send a request, follow its redirects and remember where they led.

        When nothing is there any more the configured address is asked again. Raises Refused.
        """
        response = await send(self.url)
        if response.status < _FIRST_REDIRECT:
            return response
        response, self.url = await _follow(response, send, self.url)
        if response.status in _NOT_FOUND and self.url != self._configured_url:
            response.release()
            response, self.url = await send_following(send, self._configured_url)
        return response


async def send_following(send: Send, url: URL) -> tuple[aiohttp.ClientResponse, URL]:
    """Send a request and follow its redirects; return the answer and the address that gave it.

    307 and 308 within the same scheme, host and port are followed: the headers hold secrets that
    are for nobody else. Raises Refused for any other redirect.
    """
    return await _follow(await send(url), send, url)


async def _follow(
    response: aiohttp.ClientResponse, send: Send, url: URL
) -> tuple[aiohttp.ClientResponse, URL]:
    """Do the rest of ``send_following`` after ``url`` answered."""
    followed = 0
    while _is_redirect(response):
        response.release()
        target = _target_of(response, url)
        if followed == MAX_REDIRECTS:
            more = f"it redirects more than {MAX_REDIRECTS} times, at last to {redact_url(target)}"
            raise Refused(response.status, more=more)
        if response.status not in _KEEPS_REQUEST or not _is_same_origin(url, target):
            raise redirect_refused(response, url)
        followed += 1
        # a user and password in mcp.json's address stay; those of a redirect never count
        url = target.with_user(url.user).with_password(url.password)
        response = await send(url)
    return response, url


def redirect_refused(response: aiohttp.ClientResponse, url: URL) -> Refused:
    """Build the fault of a redirect that ``url`` answered with, and that is not followed."""
    where = redact_url(_target_of(response, url))
    more = f"it points to {where}: if that is right, make it the server's url in mcp.json"
    return Refused(response.status, more=more)


def redact_url(address: URL) -> str:
    """Show a foreign address without what may be secret in it: user, password, query, fragment."""
    if not address.absolute:
        return "an address that cannot be read"
    path = address.origin().with_path(address.raw_path, encoded=True)
    return quote(str(path), _ADDRESS_CHARS)


def _is_redirect(response: aiohttp.ClientResponse) -> bool:
    return _FIRST_REDIRECT <= response.status < 400 and "Location" in response.headers


def _target_of(response: aiohttp.ClientResponse, url: URL) -> URL:
    """Return the absolute address that a redirect points to; an empty one if it is unreadable."""
    try:
        target = url.join(URL(response.headers.get("Location", ""))).with_fragment(None)
        target.origin()
    except ValueError:
        return URL()
    return target


def _is_same_origin(url: URL, target: URL) -> bool:
    return target.absolute and target.origin() == url.origin()
