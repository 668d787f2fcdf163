"""The HTTP requests of OAuth: https, no redirects, limited in bytes and seconds.

A server must not choose where secrets go: an address in its challenge or metadata could be in an
internal network, or a cloud's metadata service, which returns credentials for a simple GET.
``Reach`` defines the allowed addresses.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from enum import Enum
from ipaddress import ip_address, ip_network
from typing import Any

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from pydantic_core import from_json
from yarl import URL

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.networks import (
    ANY_NETWORK,
    CLOUD_METADATA,
    NO_PROXIES,
    TRANSLATED,
    Address,
    Proxies,
    Proxy,
    ServerNetworks,
)
from mcp_tools_proxy.system.egress import (
    NOT_DIALLED,
    checked_sockets,
    plain_socket,
    session_options,
)
from mcp_tools_proxy.system.failure_reasons import connection_reason

TIMEOUT_S = 5.0

MAX_BYTES = 64 * 1024

_NOT_CARRIED_OUT = (429, 503)
"""Statuses of a request that was not executed.

After a proxy's 502 or 504 the answer may be lost.
"""

_ERROR_CODE = re.compile(r"[a-z_]{1,64}")
"""All registered codes match; nearly every secret has a digit or a capital."""

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
_FAULTS = (aiohttp.ClientError, HttpProcessingError, OSError, ValueError)


class IssuerUnavailable(Exception):
    """An issuer, or the server's metadata, is unavailable; a later attempt may succeed.

    The message is for operators, without secrets. ``may_have_worked`` means that the request may
    have been executed and its answer lost.
    """

    def __init__(self, message: str, *, may_have_worked: bool = False) -> None:
        super().__init__(message)
        self.may_have_worked = may_have_worked


class OAuthRefused(Exception):
    """The answer of an issuer or a server is unusable; a retry does not help.

    The message is for operators, without secrets; ``error`` is the issuer's own code, such as
    ``invalid_grant``. ``may_have_worked`` marks an invalid answer to a request that may have been
    executed.
    """

    def __init__(self, message: str, *, error: str = "", may_have_worked: bool = False) -> None:
        super().__init__(message)
        self.error = error
        self.may_have_worked = may_have_worked


def error_code(text: object) -> str:
    """Return the code of an issuer's error; empty for other text, such as an echoed token."""
    return text if isinstance(text, str) and _ERROR_CODE.fullmatch(text) else ""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer: its status, and its body as JSON, or None for other bodies."""

    status: int
    content: Any
    challenges: tuple[str, ...] = ()


class Zone(Enum):
    """Network zone of an address."""

    PUBLIC = "public"
    PRIVATE = "private"
    LOOPBACK = "loopback"
    FORBIDDEN = "forbidden"
    """Link-local, unspecified, multicast, reserved, translated, or a cloud's metadata service."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The zones, in addition to the public one, that requests can be sent to."""

    private: bool = False
    loopback: bool = False

    def allows(self, zone: Zone) -> bool:
        """Return whether connections to a zone are allowed."""
        match zone:
            case Zone.PUBLIC:
                return True
            case Zone.PRIVATE:
                return self.private
            case Zone.LOOPBACK:
                return self.loopback
            case Zone.FORBIDDEN:
                return False


class OAuthWeb:
    """HTTP client for requests to issuers.

    The address is checked at each connection, as a name can resolve differently than before.
    Addresses that are not public must be in ``networks``, those of the servers in mcp.json, because
    mcp.json also names issuers. ``proxies`` are those of the environment; ``own_issuer``, of
    callers' JWTs, is a setting and can have any address.
    """

    def __init__(
        self,
        *,
        networks: ServerNetworks = ANY_NETWORK,
        proxies: Proxies = NO_PROXIES,
        own_issuer: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._networks = networks
        self._proxies = proxies
        self._own_origin = None if own_issuer is None else URL(own_issuer).origin()
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._clients: dict[tuple[Reach, bool, Proxy | None], aiohttp.ClientSession] = {}

    def __repr__(self) -> str:
        return f"<OAuthWeb {len(self._clients)} clients>"

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def get(self, url: URL, reach: Reach, headers: Mapping[str, str]) -> HttpAnswer:
        """Fetch a document. Raises IssuerUnavailable, OAuthRefused."""
        return await self._send("GET", url, reach, headers=headers)

    async def post_form(
        self,
        url: URL,
        reach: Reach,
        form: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> HttpAnswer:
        """Post a form. Raises as ``get``."""
        return await self._send("POST", url, reach, data=dict(form), headers=headers)

    async def post_json(self, url: URL, reach: Reach, content: Mapping[str, object]) -> HttpAnswer:
        """Post a JSON object. Raises as ``get``."""
        return await self._send("POST", url, reach, json=dict(content))

    async def _send(
        self,
        method: str,
        url: URL,
        reach: Reach,
        *,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> HttpAnswer:
        check_scheme(url, reach)
        try:
            async with self._client(url, reach).request(
                method,
                url,
                headers=_HEADERS | dict(headers or {}),
                allow_redirects=False,
                **options,
            ) as response:
                body = await response.content.read(MAX_BYTES + 1)
                while len(body) <= MAX_BYTES and (more := await response.content.readany()):
                    body += more
                status = response.status
                challenges = tuple(response.headers.getall("WWW-Authenticate", ()))
        except _FAULTS as error:
            if NOT_DIALLED in str(error):  # as one of several, if the name has several addresses
                raise OAuthRefused(f"{_origin(url)} {NOT_DIALLED}") from None
            was_sent = not isinstance(
                error, aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError
            )
            raise IssuerUnavailable(
                f"{_origin(url)} {_fault_text(error)}", may_have_worked=was_sent
            ) from None
        if len(body) > MAX_BYTES:
            text = f"{_origin(url)} sent more than {MAX_BYTES} bytes"
            raise OAuthRefused(text, may_have_worked=True)
        if status >= 500 or status == 429:
            raise IssuerUnavailable(
                f"{_origin(url)} answered with HTTP status {status}",
                may_have_worked=status not in _NOT_CARRIED_OUT,
            )
        return HttpAnswer(status, _json(body), challenges)

    def _client(self, url: URL, reach: Reach) -> aiohttp.ClientSession:
        is_own, proxy = url.origin() == self._own_origin, self._proxies.find(str(url))
        client = self._clients.get((reach, is_own, proxy))
        if client is None:

            def allows(address: str) -> bool:
                zone = zone_of(address)
                is_in_networks = is_own or zone is Zone.PUBLIC or self._networks.allows(address)
                return reach.allows(zone) and is_in_networks

            options: dict[str, Any] = {}
            dialled: Callable[[str], bool] = allows
            if proxy is not None:
                # an operator's name may be known only to the proxy; a server's name is resolved
                # here
                is_trusted = is_own or (reach.private and not self._networks.networks)
                options = session_options(proxy.url, allows, allows_unresolved=is_trusted)
                dialled = ANY_NETWORK.allows
            connector = aiohttp.TCPConnector(socket_factory=checked_sockets(dialled, plain_socket))
            client = self._clients[reach, is_own, proxy] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=self._timeout,
                trust_env=False,
                auto_decompress=False,  # a bomb would be inflated before it is counted
                **options,
            )
        return client


def check_scheme(url: URL, reach: Reach) -> None:
    """Raise OAuthRefused unless a URL is https, or http on this machine if allowed."""
    is_local = url.scheme == "http" and reach.loopback and is_loopback_host(url)
    if url.user is not None or url.password is not None:
        raise OAuthRefused(
            f"{_origin(url)} has a user or password in its URL, which is not allowed"
        )
    if url.scheme != "https" and not is_local:
        raise OAuthRefused(f"{_origin(url)} is not https, so secrets are not sent to it")


def _fault_text(error: Exception) -> str:
    """Return a description of an issuer's failure; the fault's own text may contain the address."""
    match error:
        case TimeoutError():
            return "did not answer in time"
        case aiohttp.ClientConnectorCertificateError():
            return _certificate_text(error.certificate_error)
        case aiohttp.ClientConnectorSSLError():
            return "cannot be reached: the TLS handshake failed"
        case aiohttp.ClientHttpProxyError() | aiohttp.ClientProxyConnectionError():
            return f"cannot be reached through the proxy: {connection_reason(error) or 'refused'}"
        case aiohttp.ClientConnectorError():
            is_unknown = isinstance(error, aiohttp.ClientConnectorDNSError)
            why = (
                "its host name cannot be resolved"
                if is_unknown
                else "the connection was refused or failed"
            )
            return f"cannot be reached: {why}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | OSError():
            return "closed the connection before its answer was complete"
        case _:
            return "sent an answer that is not valid HTTP"


def _certificate_text(error: Exception) -> str:
    what = "has a TLS certificate that was not accepted"
    if not isinstance(error, ssl.SSLCertVerificationError):
        return what
    return (
        f"{what}: {error.verify_message}; if you use your own certificate "
        "authority, name its file in SSL_CERT_FILE"
    )


def _json(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError:
        return None


def _origin(url: URL) -> str:
    """Return a URL without the path and query that a server chose."""
    try:
        return str(url.origin())
    except ValueError:
        return "an address without a host"


_GLOBAL_IPV6 = ip_network("2000::/3")
"""All allocated addresses; ``is_global`` includes formerly site-local ones."""


def zone_of(text: str) -> Zone:
    """Return the zone of an IP address. One with a scope (``fe80::1%eth0``) is forbidden."""
    try:
        address = ip_address(text)
    except ValueError:
        return Zone.FORBIDDEN
    # newer releases of Python count a mapped one as loopback, too
    if address.is_loopback and getattr(address, "ipv4_mapped", None) is None:
        return Zone.LOOPBACK
    if _is_forbidden(address):
        return Zone.FORBIDDEN
    is_public = address.is_global and (address.version == 4 or address in _GLOBAL_IPV6)
    return Zone.PUBLIC if is_public else Zone.PRIVATE


def _is_forbidden(address: Address) -> bool:
    if address in CLOUD_METADATA or getattr(address, "scope_id", None):
        return True
    if any(address in network for network in TRANSLATED if network.version == address.version):
        return True
    return bool(
        address.is_link_local
        or address.is_unspecified
        or address.is_multicast
        or (address.is_reserved and address.version == 4)
    )


def reach_of(url: URL, server: URL, configured: frozenset[URL]) -> Reach:
    """Return the zones allowed for requests to ``url``.

    ``server`` is the server's own address, ``configured`` are the origins that the operator wrote.
    Those can be in any internal network; others must be public, or on loopback if the server is.
    """
    is_configured = url.origin() in configured
    return Reach(
        private=is_configured or url.origin() == server.origin(),
        loopback=is_configured or is_loopback_host(server),
    )


def is_loopback_host(url: URL) -> bool:
    """Return whether the text of a URL's host means this machine."""
    host = url.host or ""
    return host == "localhost" or host.endswith(".localhost") or zone_of(host) is Zone.LOOPBACK
