"""Sends a request with the token of its session, and once more with a new one if it is refused."""

from collections.abc import Awaitable, Callable, Mapping

import aiohttp

from mcp_tools_proxy.downstream.connection import SessionAccess

CHALLENGE = "WWW-Authenticate"

_REFUSED = (401, 403)


async def send_authorized(
    access: SessionAccess | None,
    send: Callable[[Mapping[str, str]], Awaitable[aiohttp.ClientResponse]],
) -> aiohttp.ClientResponse:
    """Send a request by ``send``, which is given the header with the token.

    A 401 was answered before anything was carried out, so the request may be sent again. Raises
    AccessRefused where there is no token that the server accepts.
    """
    if access is None:
        return await send({})
    header = await access.header()
    response = await send(header)
    if response.status not in _REFUSED or not await access.renewed(
        header, response.status, response.headers.getall(CHALLENGE, ())
    ):
        return response
    response.release()
    response = await send(await access.header())
    if response.status in _REFUSED:
        response.release()
        refused = access.refused(response.status)
        refused.status = response.status
        raise refused
    return response
