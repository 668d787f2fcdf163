"""A key set at a URL, fetched periodically."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

import httpx
import structlog

from mcp_tools_proxy.auth.jwks import InvalidJwks, KeySet, parse_key_set, state_of
from mcp_tools_proxy.system.failure_reasons import connection_reason

REFRESH_S = 300.0
"""Seconds between successful fetches, which is the longest that a removed key stays valid."""

RETRY_S = 10.0

MIN_REFRESH_GAP_S = 10.0
"""Minimum seconds between fetches for unknown keys; otherwise forged tokens cause any number."""

TIMEOUT_S = 5.0

MAX_BYTES = 1024 * 1024

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}

log = structlog.get_logger()


class _InvalidResponse(Exception):
    """A response without a usable key set; the message is one line."""


class JwksUrl:
    """Holds the keys of ``url``; keep ``run`` running. The last valid keys stay while it is down.

    Redirects and proxies of the environment are not used. ``transport`` replaces the network in
    tests, ``clock`` is monotonic, in seconds.
    """

    def __init__(
        self,
        url: str,
        allowed: Collection[str],
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._url = url
        self._allowed = allowed
        self._transport = transport
        self._trust = _trust(url)
        self._timeout_s = timeout_s
        self._clock = clock
        self._sleep = sleep
        self._fetch_lock = asyncio.Lock()
        self._fetched_at: float | None = None
        self._failure: str | None = "not fetched yet"
        self.keys = KeySet()

    def __repr__(self) -> str:
        return f"<JwksUrl {self.keys.count} keys, failure={self._failure!r}>"

    async def load(self) -> None:
        """Do nothing: a start does not wait for the network; ``run`` fetches at once."""

    async def run(self) -> None:
        """Fetch the keys periodically until cancelled."""
        while True:
            async with self._fetch_lock:
                await self._update()
            await self._sleep(REFRESH_S if self._failure is None else RETRY_S)

    async def refresh(self) -> None:
        """Fetch the keys for a token with an unknown key, at most every MIN_REFRESH_GAP_S."""
        async with self._fetch_lock:
            if self._fetched_at is None or self._clock() - self._fetched_at >= MIN_REFRESH_GAP_S:
                await self._update()

    def state(self) -> Mapping[str, object]:
        """Return the state of the keys, for readiness, without the URL."""
        return state_of(self.keys, source="url", failure=self._failure)

    async def _update(self) -> None:
        self._fetched_at = self._clock()
        failure = None
        try:
            async with asyncio.timeout(self._timeout_s):
                self._replace(parse_key_set(await self._fetch(), self._allowed))
        except TimeoutError:
            failure = f"did not answer within {self._timeout_s:g} s"
        except httpx.HTTPError as error:
            failure = f"could not be reached: {connection_reason(error) or type(error).__name__}"
        except (_InvalidResponse, InvalidJwks) as error:
            failure = str(error)
        if failure is not None and failure != self._failure:
            log.error("jwks.failed", reason=failure)
        self._failure = failure

    def _replace(self, keys: KeySet) -> None:
        if keys.by_kid.keys() != self.keys.by_kid.keys():
            log.info("jwks.loaded", keys=keys.count, unusable=keys.unusable)
        self.keys = keys

    async def _fetch(self) -> bytes:
        client = httpx.AsyncClient(
            verify=self._trust, trust_env=False, transport=self._transport, timeout=self._timeout_s
        )
        async with client, client.stream("GET", self._url, headers=_HEADERS) as response:
            if response.status_code != 200:
                raise _InvalidResponse(f"answered with HTTP status {response.status_code}")
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise _InvalidResponse("sent a compressed answer")
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MAX_BYTES:
                    raise _InvalidResponse(f"sent more than {MAX_BYTES} bytes")
            return bytes(body)


def _trust(url: str) -> ssl.SSLContext:
    """Load the certificates once, and only for https, as it takes tens of milliseconds."""
    if not url.startswith("https"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without certificates: trusts no server
    trust = httpx.create_ssl_context(trust_env=False)
    trust.load_default_certs()  # a company's CA is in the system's store
    return trust
