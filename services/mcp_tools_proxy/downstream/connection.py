"""What a connection to a server offers, whatever its transport, and how its requests fail."""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.proxy_error import ProxyError
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.text import printable, quote


class ConnectionFailure(Exception):
    """A request got no usable answer: refused, cut off, or garbage. ``reason`` contains no secret.

    ``for_operators`` may contain more than callers may read, such as an address of the inner
    network. Only this request is affected; ``Connection.wait_lost`` returns when the connection is
    lost as well. ``sent`` is False only where surely nothing of the request reached the server, so
    that repeating the request is safe.
    """

    is_alive = False
    """Whether the answer proves that the server and its session work, such as HTTP status 429."""
    retry_after_s: float | None = None
    """The seconds after which the server wants to be asked again; None if it did not say."""

    def __init__(self, reason: str, *, for_operators: str | None = None, sent: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.for_operators = for_operators or reason
        self.sent = sent


class SessionLost(ConnectionFailure):
    """The server does not know the session; a request that was not ``sent`` was not executed."""


class ClosedUnanswered(ConnectionFailure):
    """The server closed the connection before any byte of the answer.

    Most often it closed a kept-alive connection in the moment of its reuse.
    """


class NotUsableAsConfigured(ConnectionFailure):
    """The server can be reached, and not be used as its entry says; waiting does not help."""


class AccessRefused(ConnectionFailure):
    """A request had no token that the server accepts, so it was not carried out.

    ``error`` is what its caller is told.
    """

    status: int | None = None
    """The HTTP status of the refusal; None if no request was sent."""

    def __init__(self, error: ProxyError) -> None:
        super().__init__(error.message, for_operators=error.reason, sent=False)
        self.error = error


class ResultNotAnObject(ConnectionFailure):
    """The ``result`` of an answer is JSON other than an object; ``value`` holds that JSON."""

    def __init__(self, value: object) -> None:
        super().__init__("the server's answer has neither a result object nor an error")
        self.value = value


class ResponseTooLarge(Exception):
    """The server's answer exceeds what is read of one message: ``most`` bytes, or ``unit``."""

    def __init__(self, most: int, unit: str = "bytes") -> None:
        self.limit = f"{most} {unit}"
        super().__init__(f"an answer is over {self.limit}")
        self.max_bytes = most if unit == "bytes" else None


@dataclass(frozen=True, slots=True)
class CallHeaders:
    """The HTTP headers that a call has of its caller; transports without headers ignore them."""

    filled: Mapping[str, str] = field(repr=False)
    """Those of the entry, for an era in which each request stands for itself."""
    sign: Callable[[], Mapping[str, str]] | None = None
    """Returns the header of a new assertion, which goes with each request in every era.

    Raises CredentialsMissing.
    """

    token: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The header with the token of the call's session, which goes with each request, too."""

    def of_request(self, *, modern: bool) -> Mapping[str, str]:
        """Return the headers of one request. Raises as ``sign``."""
        headers = self.filled if modern else {}
        if self.sign is not None:
            headers = {**headers, **self.sign()}
        return {**headers, **self.token} if self.token else headers


AUTHORIZATION = "Authorization"
"""The header that a token goes in."""


class SessionAccess(Protocol):
    """Gives each request of one session its token, unless its call has looked it up already."""

    async def header(self) -> Mapping[str, str]:
        """Return the header of a request. Raises AccessRefused."""
        ...

    async def renewed(
        self, sent: Mapping[str, str], status: int, challenges: Sequence[str]
    ) -> bool:
        """Return whether a refused request should be sent once more, with another token.

        ``sent`` is the header that it had. Raises AccessRefused if that would not help.
        """
        ...

    def refused(self, status: int) -> AccessRefused:
        """Return the error of a request that was refused twice."""
        ...


_SHARE_OF_LISTS = 0.8
"""One list that is never answered would otherwise fail the attempt, and with it all other lists."""


class ConnectAttempt:
    """The time limit of one attempt to connect, whose clock starts with the server's process.

    ``first_start`` is the first start of the server: it may install its packages, and has
    ``start_timeout_s`` until its first byte. ``waits_for_place`` is whether it waits while as many
    others start as may at once.
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
        """Begin the clock of the connection itself: at once, or with a server's first byte."""
        self._restart(self._config.connect_timeout_s, "did not answer", "connectTimeoutSeconds")

    def wait_for_place(self) -> None:
        """Stop the clock until there is a place."""
        self._reschedule(None)

    def process_started(self) -> None:
        """Begin the clock of a process that has sent nothing yet."""
        if self._first_start:
            self._restart(self._config.start_timeout_s, "sent nothing", "startTimeoutSeconds")
        else:
            self.begin()

    @property
    def list_timeout_s(self) -> float:
        """The seconds that a list may take: less than what is left of the attempt."""
        when = self._limit.when()
        if when is None:
            return self._config.connect_timeout_s * _SHARE_OF_LISTS
        return max(0.0, when - asyncio.get_running_loop().time()) * _SHARE_OF_LISTS

    @property
    def timeout(self) -> ConnectionFailure:
        """The failure of an attempt that took too long."""
        reason = f"it {self._what} within {self._seconds:g} s"
        return ConnectionFailure(
            reason, for_operators=f'{reason}; if it needs longer, set "{self._key}" in mcp.json'
        )

    def _restart(self, seconds: float, what: str, key: str) -> None:
        self._seconds, self._what, self._key = seconds, what, key
        self._reschedule(asyncio.get_running_loop().time() + seconds)

    def _reschedule(self, when: float | None) -> None:
        # the attempt has not begun, which Python 3.11.2 says by an AssertionError, or is over
        with suppress(RuntimeError, AssertionError):
            self._limit.reschedule(when)


LAST_LINES = 5
"""Lines of a server's stderr that its last error has."""

LINE_CHARS = 300

_PROBE_REFUSED = "Failed to validate request"
_PROBE_DETAIL = re.compile(r"\s|\w+Request(\.[\w.]+)?\s*$")
"""The lines after it: indented ones, and the field that each is about."""

_UNTRUSTED = re.compile(
    r"certificate[_ ]verify[_ ]failed|self[-_ ]signed[-_ ]cert"
    r"|unable[_ ]to[_ ]get[_ ](local[_ ])?issuer"
    r"|unable[_ ]to[_ ]verify[_ ](the[_ ]first[_ ]cert|leaf[_ ])"
    r"|unknown[ _]?issuer|unknown authority"
    r"|ssl certificate problem|PKIX path building failed|UntrustedRoot",
    re.IGNORECASE,
)
"""What programs write that do not trust a host: Python, Node, Rust, Go, curl, Java, .NET."""

_TRUST = (
    "it does not trust the certificate of a host; behind a company's proxy name the variables with "
    "the file of its authority in MCP_PROXY_STDIO_ENV, such as SSL_CERT_FILE,NODE_EXTRA_CA_CERTS,"
    "REQUESTS_CA_BUNDLE, and set them for the gateway"
)

_GARBLED = "what it writes to stdout is not MCP: each message is one line of JSON-RPC 2.0"

_SHORTEST_SECRET = 4
"""Shorter values are common words and numbers, such as 1 or yes."""


class ServerOutput:
    """What a program wrote last to its stderr, for operators: secrets of its entry are replaced."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._secrets: Sequence[str] = ()
        self._is_about_probe = False
        self._lacks_trust = False
        self.is_garbled = False
        """Whether stdout has had text, but no valid message."""

    def begin(self, secrets: Iterable[str]) -> None:
        """Forget the lines of the process before; ``secrets`` are known to the new one."""
        self._lines.clear()
        self._lacks_trust = self.is_garbled = False
        longest_first = sorted(set(secrets), key=len, reverse=True)
        self._secrets = [it for it in longest_first if len(it) >= _SHORTEST_SECRET]

    def add(self, line: str) -> None:
        """Keep a line, unless it is about the probe for the modern era.

        Servers of the Python SDK 1.x write 240 lines of pydantic's about ``server/discover``, which
        would hide the lines that say why the server failed.
        """
        self._lacks_trust = self._lacks_trust or _UNTRUSTED.search(line) is not None
        if _PROBE_REFUSED in line:
            self._is_about_probe = True
        elif not (self._is_about_probe and _PROBE_DETAIL.match(line)):
            self._is_about_probe = False
            self._lines.append(line)

    def added_to(self, error: str) -> str:
        """Return an error of the server with what the program wrote, and what that means."""
        hint = f"; {_GARBLED}" if self.is_garbled else ""
        hint += f"; {_TRUST}" if self._lacks_trust else ""
        lines = " | ".join(map(self._shown, self._lines))
        return f"{error}{hint}; stderr: {lines}" if lines else f"{error}{hint}"

    def _shown(self, line: str) -> str:
        for secret in self._secrets:
            line = line.replace(secret, "***")
        return printable(line.strip())[:LINE_CHARS]


User = tuple[str, str]
"""The tenant and user of a call."""


class Relay(Protocol):
    """The client of one call, as a connection sees it."""

    user: User
    token: int
    """The progress token of the call's requests, unique in this process."""
    request_count: int
    """How many requests the client was sent so far."""

    def meta(self, *, modern: bool) -> dict[str, object]:
        """Build the part of a request's ``_meta`` that describes the client, as the era has it."""
        ...

    def attached(
        self, timeout: asyncio.Timeout, *, allows_requests: bool
    ) -> AbstractContextManager[None]:
        """Relay messages for one request, whose time-out this is, while the context is open."""
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
    """The resources with listeners, as a connection that has to subscribe to them sees them."""

    changed: asyncio.Event
    """Set at the next change of ``uris``, when a fresh event replaces it."""

    @property
    def uris(self) -> frozenset[str]:
        """The URIs that have listeners."""
        ...

    def confirmed(self) -> frozenset[str]:
        """Return the URIs that the server accepted before."""
        ...

    def record_answer(self, uri: str, refusal: Exception | None = None) -> None:
        """Record that the server accepted a subscription, or refused it with ``refusal``."""
        ...

    def on_updated(self, uri: str | None) -> None:
        """Notify the listeners to a resource, and to those it is a part of; None stands for all."""
        ...

    def notify(self, uris: Iterable[str]) -> None:
        """Call the listeners to these resources."""
        ...


class Connection(Protocol):
    """A negotiated connection. Any number of tasks may send requests at once."""

    @property
    def era(self) -> str:
        """The negotiated protocol version, such as ``2025-11-25``."""
        ...

    @property
    def transport(self) -> Transport:
        """The transport that the server turned out to speak; never the configured choice HTTP."""
        ...

    @property
    def capabilities(self) -> JsonObject:
        """The server's capabilities: ``{"tools": {"listChanged": true}, "prompts": {}, …}``."""
        ...

    @property
    def instructions(self) -> str | None:
        """What the server said of itself when the connection was negotiated; None for nothing."""
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

        ``params`` may hold ``_meta``; the fields that the era requires are added. ``relay``
        receives the notifications and the client requests of the server meanwhile; while a client
        request is open the time-out does not run. Raises JsonRpcError, ConnectionFailure,
        ResponseTooLarge, TimeoutError. A cancellation or time-out is passed on to the server.
        """
        ...

    def adopt_tools(self, tools: Mapping[str, JsonObject]) -> None:
        """Replace the tools by those that another connection listed, by name.

        They tell what a call has to repeat in its headers.
        """
        ...

    async def ping(self, *, timeout_s: float) -> None:
        """Send the era's cheapest request to prove that the server lives.

        Raises like ``request``.
        """
        ...

    async def sync_subscriptions(self, subscriptions: SubscribedResources) -> None:
        """Keep ``subscriptions`` subscribed and dispatch their updates, until cancelled."""
        ...

    async def wait_lost(self) -> str:
        """Wait until the connection is lost for good; return the reason."""
        ...


OnListChanged = Callable[[], None]
"""Called on the event loop for each ``list_changed`` notification of the server."""

Dial = Callable[
    [ServerConfig, OnListChanged, SessionAccess | None, ServerOutput, ConnectAttempt],
    AbstractAsyncContextManager[Connection],
]
"""Connects and negotiates on entering; closes everything on leaving, a server process included.

``ServerOutput`` gets what a server process writes to its stderr.

One task enters and leaves (anyio's cancel scopes require that). Entering raises ConnectionFailure
or JsonRpcError. Its time limit is that of ConnectAttempt, which the session enforces. Leaving takes
at most a few seconds, however the server behaves.
"""


MESSAGE_CHARS = 500
"""How many characters of a server's own words an error message contains."""

FAULTS = (JsonRpcError, ConnectionFailure, ResponseTooLarge, TimeoutError)
"""All exceptions that a request on a connection raises."""

Fault = JsonRpcError | ConnectionFailure | ResponseTooLarge | TimeoutError


def reason_of(fault: Fault, *, timeout_s: float) -> str:
    """Return the text for a failed request; the server's own words are quoted and cut."""
    match fault:
        case ConnectionFailure():
            return fault.reason
        case JsonRpcError():
            return f"it answered with error {fault.code}: {quote(fault.message)}"
        case ResponseTooLarge():
            return f"its answer is over {fault.limit}"
        case _:
            return f"it did not answer within {timeout_s:g} s"
