"""Follows redirects within the same origin, and refuses all others."""

from collections.abc import Awaitable, Callable

import aiohttp
from yarl import URL

from mcp_tools_proxy.downstream.mcp_client.error_mapping import Refused
from mcp_tools_proxy.wire.redaction import redact_url

MAX_REDIRECTS = 3
"""How many redirects of one request are followed."""

_KEEPS_REQUEST = frozenset({307, 308})
"""With other statuses a client may turn a POST into a GET."""
_FIRST_REDIRECT = 300
_NOT_FOUND = frozenset({404, 410})

Send = Callable[[URL], Awaitable[aiohttp.ClientResponse]]
"""Sends one and the same request to an address."""


class Address:
    """The address that requests go to: the configured one, or the last redirect's target."""

    def __init__(self, url: URL) -> None:
        self.url = self._configured_url = url

    async def send(self, send: Send) -> aiohttp.ClientResponse:
        """Send a request, follow its redirects, and remember the address they led to.

        A 404 or 410 there repeats the request at the configured address. Raises Refused.
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
    """Send a request, following its redirects; return the response and its address.

    Only 307 and 308 within the same scheme, host and port are followed: the headers hold secrets,
    which another server must not see. Raises Refused for any other redirect.
    """
    return await _follow(await send(url), send, url)


async def _follow(
    response: aiohttp.ClientResponse, send: Send, url: URL
) -> tuple[aiohttp.ClientResponse, URL]:
    """Follow the redirects of ``response``, which came from ``url``."""
    followed = 0
    while _is_redirect(response):
        response.release()
        target = _target_of(response, url)
        if followed == MAX_REDIRECTS:
            more = f"it redirects more than {MAX_REDIRECTS} times, last to {redact_url(target)}"
            raise Refused(response.status, more=more)
        if response.status not in _KEEPS_REQUEST or not _is_same_origin(url, target):
            raise redirect_refused(response, url)
        followed += 1
        # keep the user and password of the url in mcp.json; ignore those that a redirect contains
        url = target.with_user(url.user).with_password(url.password)
        response = await send(url)
    return response, url


def redirect_refused(response: aiohttp.ClientResponse, url: URL) -> Refused:
    """Build the fault of a redirect that is not followed; ``url`` answered with it."""
    where = redact_url(_target_of(response, url))
    more = f"it points to {where}; if that is correct, set it as the server's url in mcp.json"
    return Refused(response.status, more=more)


def _is_redirect(response: aiohttp.ClientResponse) -> bool:
    return _FIRST_REDIRECT <= response.status < 400 and "Location" in response.headers


def _target_of(response: aiohttp.ClientResponse, url: URL) -> URL:
    """Return the absolute address that a redirect points to; an empty one if that is no URL."""
    try:
        target = url.join(URL(response.headers.get("Location", ""))).with_fragment(None)
        target.origin()
    except ValueError:
        return URL()
    return target


def _is_same_origin(url: URL, target: URL) -> bool:
    return target.absolute and target.origin() == url.origin()
