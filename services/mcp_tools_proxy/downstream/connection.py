"""Interface of a connection to a server, and its failures."""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import field
from typing import Any, Protocol

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.proxy_error import ProxyError
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.text import printable, quote


class ConnectionFailure(Exception):
    """A request without a usable answer: refused, cut off, or malformed.

    ``reason`` is free of secrets.

    ``for_operators`` may add details that callers must not read, such as an internal address.
    ``Connection.wait_lost`` returns if the connection is lost as well. ``sent`` is False only if no
    byte of the request can have reached the server, so that repeating it is safe.
    """

    is_alive = False
    """Whether the answer proves that the session works, such as status 429."""
    retry_after_s: float | None = None
    """Seconds to wait before the next request, if the server said so."""

    def __init__(self, reason: str, *, for_operators: str | None = None, sent: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.for_operators = for_operators or reason
        self.sent = sent


class SessionLost(ConnectionFailure):
    """The server does not know the session; a request that was not ``sent`` was not executed."""


class ClosedUnanswered(ConnectionFailure):
    """The server closed the connection before any byte of the answer.

    Usually it closed a kept-alive connection at the moment of reuse.
    """


class NotUsableAsConfigured(ConnectionFailure):
    """The server is reachable but cannot be used with this entry; a retry does not help."""


class AccessRefused(ConnectionFailure):
    """The server accepted no token of a request, and did not execute it.

    ``error`` is for the caller.
    """

    status: int | None = None
    """HTTP status of the refusal; None if nothing was sent."""

    def __init__(self, error: ProxyError) -> None:
        super().__init__(error.message, for_operators=error.reason, sent=False)
        self.error = error


class ResultNotAnObject(ConnectionFailure):
    """The ``result`` of an answer is JSON other than an object."""

    def __init__(self, value: object) -> None:
        super().__init__("the server's answer has neither a result object nor an error")
        self.value = value


class ResponseTooLarge(Exception):
    """The answer exceeds the limit of one message: ``most`` bytes, or ``unit``."""

    def __init__(self, most: int, unit: str = "bytes") -> None:
        self.limit = f"{most} {unit}"
        super().__init__(f"an answer is over {self.limit}")
        self.max_bytes = most if unit == "bytes" else None


@dataclass(frozen=True, slots=True)
class CallHeaders:
    """HTTP headers that depend on a call's caller; transports without headers ignore them."""

    filled: Mapping[str, str] = field(repr=False)
    """The entry's headers, for each request in the modern era."""
    sign: Callable[[], Mapping[str, str]] | None = None
    """Returns the header of a new assertion, for each request in every era.

    Raises CredentialsMissing.
    """

    token: Mapping[str, str] = field(default_factory=dict, repr=False)

    def of_request(self, *, modern: bool) -> Mapping[str, str]:
        """Return the headers of one request. Raises as ``sign``."""
        headers = self.filled if modern else {}
        if self.sign is not None:
            headers = {**headers, **self.sign()}
        return {**headers, **self.token} if self.token else headers


AUTHORIZATION = "Authorization"


class SessionAccess(Protocol):
    """Tokens for requests of one session without a token from their call."""

    async def header(self) -> Mapping[str, str]:
        """Return the header of a request. Raises AccessRefused."""
        ...

    async def renewed(
        self, sent: Mapping[str, str], status: int, challenges: Sequence[str]
    ) -> bool:
        """Return whether to repeat a refused request with another token.

        ``sent`` is its header. Raises AccessRefused if a repetition is useless.
        """
        ...

    def refused(self, status: int) -> AccessRefused:
        """Return the error of a request that was refused twice."""
        ...


_SHARE_OF_LISTS = 0.8
"""Share of the attempt's time for one list; one that is not answered must not fail the attempt."""


class ConnectAttempt:
    """Time limit of one attempt to connect, from the start of the server's process.

    On the ``first_start`` a server may install packages, so its first byte can take
    ``start_timeout_s``. ``waits_for_place`` tells whether the attempt waits for a place among the
    starting processes.
    """

    def __init__(
        self,
        limit: asyncio.Timeout,
        config: ServerConfig,
        *,
        first_start: bool = False,
        waits_for_place: bool = False,
    ) -> None:
        self.waits_for_place = waits_for_place
        self._limit = limit
        self._config = config
        self._first_start = first_start
        self._seconds = 0.0
        self._what = ""
        self._key = ""
        self.begin()

    def begin(self) -> None:
        """Start the time limit of the connection."""
        self._restart(self._config.connect_timeout_s, "did not answer", "connectTimeoutSeconds")

    def wait_for_place(self) -> None:
        """Stop the time limit until a place is free."""
        self._reschedule(None)

    def process_started(self) -> None:
        """Start the time limit of a process until its first byte."""
        if self._first_start:
            self._restart(self._config.start_timeout_s, "sent nothing", "startTimeoutSeconds")
        else:
            self.begin()

    @property
    def list_timeout_s(self) -> float:
        """Seconds for one list, a share of the attempt's remaining time."""
        when = self._limit.when()
        if when is None:
            return self._config.connect_timeout_s * _SHARE_OF_LISTS
        return max(0.0, when - asyncio.get_running_loop().time()) * _SHARE_OF_LISTS

    @property
    def timeout(self) -> ConnectionFailure:
        """Failure of an attempt that exceeded its time limit."""
        reason = f"it {self._what} within {self._seconds:g} s"
        return ConnectionFailure(
            reason, for_operators=f'{reason}; if it needs longer, set "{self._key}" in mcp.json'
        )

    def _restart(self, seconds: float, what: str, key: str) -> None:
        self._seconds, self._what, self._key = seconds, what, key
        self._reschedule(asyncio.get_running_loop().time() + seconds)

    def _reschedule(self, when: float | None) -> None:
        # the attempt is over, or not begun (AssertionError in Python 3.11.2)
        with suppress(RuntimeError, AssertionError):
            self._limit.reschedule(when)


LAST_LINES = 5

LINE_CHARS = 300

_PROBE_REFUSED = "Failed to validate request"
_PROBE_DETAIL = re.compile(r"\s|\w+Request(\.[\w.]+)?\s*$")
"""The lines after it: indented ones, and names of fields."""

_UNTRUSTED = re.compile(
    r"certificate[_ ]verify[_ ]failed|self[-_ ]signed[-_ ]cert"
    r"|unable[_ ]to[_ ]get[_ ](local[_ ])?issuer"
    r"|unable[_ ]to[_ ]verify[_ ](the[_ ]first[_ ]cert|leaf[_ ])"
    r"|unknown[ _]?issuer|unknown authority"
    r"|ssl certificate problem|PKIX path building failed|UntrustedRoot",
    re.IGNORECASE,
)
"""Messages about an untrusted host: Python, Node, Rust, Go, curl, Java, .NET."""

_TRUST = (
    "it does not trust the certificate of a host; behind a company's proxy name the variables with "
    "the file of its authority in MCP_PROXY_STDIO_ENV, such as SSL_CERT_FILE,NODE_EXTRA_CA_CERTS,"
    "REQUESTS_CA_BUNDLE, and set them for the gateway"
)

_GARBLED = "what it writes to stdout is not MCP: each message is one line of JSON-RPC 2.0"

_SHORTEST_SECRET = 4
"""Shorter values are common words and numbers, such as 1 or yes."""


class ServerOutput:
    """Last stderr lines of a program, for operators; secrets are replaced."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._secrets: Sequence[str] = ()
        self._is_about_probe = False
        self._lacks_trust = False
        self.is_garbled = False
        """Whether stdout had text but no valid message."""

    def begin(self, secrets: Iterable[str]) -> None:
        """Discard the lines of the previous process; ``secrets`` are those of the new one."""
        self._lines.clear()
        self._lacks_trust = self.is_garbled = False
        longest_first = sorted(set(secrets), key=len, reverse=True)
        self._secrets = [it for it in longest_first if len(it) >= _SHORTEST_SECRET]

    def add(self, line: str) -> None:
        """Keep a line, unless it is about the probe for the modern era.

        Servers of the Python SDK 1.x write 240 lines about ``server/discover``, which would
        displace the cause of a failure.
        """
        self._lacks_trust = self._lacks_trust or _UNTRUSTED.search(line) is not None
        if _PROBE_REFUSED in line:
            self._is_about_probe = True
        elif not (self._is_about_probe and _PROBE_DETAIL.match(line)):
            self._is_about_probe = False
            self._lines.append(line)

    def added_to(self, error: str) -> str:
        """Return a server's error with its last stderr lines, and a hint at a known cause."""
        hint = f"; {_GARBLED}" if self.is_garbled else ""
        hint += f"; {_TRUST}" if self._lacks_trust else ""
        lines = " | ".join(map(self._shown, self._lines))
        return f"{error}{hint}; stderr: {lines}" if lines else f"{error}{hint}"

    def _shown(self, line: str) -> str:
        for secret in self._secrets:
            line = line.replace(secret, "***")
        return printable(line.strip())[:LINE_CHARS]


User = tuple[str, str]


class Relay(Protocol):
    """The client of one call, as seen by a connection."""

    user: User
    token: int
    """Progress token of the call's requests, unique in this process."""
    request_count: int
    """Requests sent to the client so far."""

    def meta(self, *, modern: bool) -> dict[str, object]:
        """Build the client's part of a request's ``_meta`` in this era."""
        ...

    def attached(
        self, timeout: asyncio.Timeout, *, allows_requests: bool
    ) -> AbstractContextManager[None]:
        """Relay messages for one request while the context is open."""
        ...

    def on_progress(self, params: Mapping[str, Any], size: int) -> None:
        """Relay progress."""
        ...

    def on_log(self, params: Mapping[str, Any], size: int) -> None:
        """Relay a log message."""
        ...

    async def on_request(self, method: str, params: Mapping[str, Any]) -> Mapping[str, object]:
        """Send a client request of the older eras. Raises ClientRequestFailed."""
        ...


class SubscribedResources(Protocol):
    """The subscribed resources, as seen by a connection."""

    changed: asyncio.Event
    """Set at the next change of ``uris``, then replaced by a new event."""

    @property
    def uris(self) -> frozenset[str]:
        """The URIs that have listeners."""
        ...

    def confirmed(self) -> frozenset[str]:
        """Return the URIs that the server has accepted."""
        ...

    def record_answer(self, uri: str, refusal: Exception | None = None) -> None:
        """Record that the server accepted a subscription, or its ``refusal``."""
        ...

    def on_updated(self, uri: str | None) -> None:
        """Notify the listeners of a resource and of resources that contain it; None means all."""
        ...

    def notify(self, uris: Iterable[str]) -> None:
        """Call the listeners of these resources."""
        ...


class Connection(Protocol):
    """A negotiated connection, for any number of concurrent requests."""

    @property
    def era(self) -> str:
        """The negotiated protocol version, such as ``2025-11-25``."""
        ...

    @property
    def transport(self) -> Transport:
        """The transport in use, never the configured choice HTTP."""
        ...

    @property
    def capabilities(self) -> JsonObject:
        """The server's capabilities: ``{"tools": {"listChanged": true}, "prompts": {}, …}``."""
        ...

    @property
    def instructions(self) -> str | None:
        """The server's instructions, if any."""
        ...

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_s: float,
        relay: Relay | None = None,
        call_headers: CallHeaders | None = None,
    ) -> Any:
        """Send one request and return its raw ``result``: an object, for ``tools/call`` any JSON.

        The fields that the era requires are added to ``_meta``. ``relay`` receives the server's
        notifications and client requests during the request; an open client request stops the
        time-out. A cancellation or time-out is passed on to the server. Raises JsonRpcError,
        ConnectionFailure, ResponseTooLarge, TimeoutError.
        """
        ...

    def adopt_tools(self, tools: Mapping[str, JsonObject]) -> None:
        """Replace the tools, by name, with those listed on another connection.

        They define which arguments a call repeats in its headers.
        """
        ...

    async def ping(self, *, timeout_s: float) -> None:
        """Check by the era's cheapest request that the server is alive. Raises as ``request``."""
        ...

    async def sync_subscriptions(self, subscriptions: SubscribedResources) -> None:
        """Keep ``subscriptions`` subscribed and dispatch their updates, until cancelled."""
        ...

    async def wait_lost(self) -> str:
        """Wait until the connection is lost for good; return the reason."""
        ...


OnListChanged = Callable[[], None]
"""Called on the event loop for each ``list_changed`` notification."""

Dial = Callable[
    [ServerConfig, OnListChanged, SessionAccess | None, ServerOutput, ConnectAttempt],
    AbstractAsyncContextManager[Connection],
]
"""Connects and negotiates on entering; closes everything on leaving, including a server process.

``ServerOutput`` receives the stderr of a process. The same task must enter and leave (required by
anyio's cancel scopes). Entering raises ConnectionFailure or JsonRpcError; the session enforces the
time limit of ConnectAttempt. Leaving takes at most a few seconds.
"""


MESSAGE_CHARS = 500

FAULTS = (JsonRpcError, ConnectionFailure, ResponseTooLarge, TimeoutError)

Fault = JsonRpcError | ConnectionFailure | ResponseTooLarge | TimeoutError


def reason_of(fault: Fault, *, timeout_s: float) -> str:
    """Return the text for a failed request; the server's own text is quoted and cut."""
    match fault:
        case ConnectionFailure():
            return fault.reason
        case JsonRpcError():
            return f"it answered with error {fault.code}: {quote(fault.message)}"
        case ResponseTooLarge():
            return f"its answer is over {fault.limit}"
        case _:
            return f"it did not answer within {timeout_s:g} s"
