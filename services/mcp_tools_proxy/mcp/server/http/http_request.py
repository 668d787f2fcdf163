"""A request of streamable HTTP: its caller, headers, and response channel.

Some headers of a stateless request repeat routing fields and arguments, since proxies route by
``x-mcp-header`` of the input schema. A call whose headers and arguments differ is refused.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Self

from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import ListOptions
from mcp_tools_proxy.mcp.server.request import NO_HEADERS
from mcp_tools_proxy.mcp.server.stateless import StatelessRequest
from mcp_tools_proxy.registry.registry import RegistryHolder
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import X_MCP_HEADER

_ROUTING = frozenset({"mcp-protocol-version", "mcp-method", "mcp-name"})
_KNOWN = {name.encode(): name for name in ("accept", "content-type", *_ROUTING)}
_PARAMETER = b"mcp-param-"

MAX_CACHED_CHARS = 256
"""A longer ``Accept`` header is parsed each time: caching headers of 64 kB took 32 MB."""


CallerCheck = Callable[[], Awaitable[None]]
"""Raises ProxyError if the caller has lost access to the stream."""


class HttpRequest:
    """An authenticated request and its response channel.

    ``check`` is repeated while the response is a stream.
    """

    def __init__(
        self,
        scope: Scope,
        caller: Caller,
        options: ListOptions,
        check: CallerCheck,
        receive: Receive,
        send: Send,
    ) -> None:
        self.scope = scope
        self.caller = caller
        self.options = options
        self.check = check
        self.receive = receive
        self.send = send
        self.first_headers: Mapping[bytes, bytes] = dict(reversed(scope["headers"]))
        """The headers, with the first value of a repeated one."""
        values = [value for name, value in scope["headers"] if name == b"accept"]
        self.accept = b",".join(values).decode("latin-1")
        """The media types that the client accepts."""

    @property
    def method(self) -> str:
        """The HTTP method."""
        method: str = self.scope["method"]
        return method

    @property
    def path(self) -> str:
        """The path without a trailing slash."""
        path: str = self.scope["path"]
        return path.rstrip("/")

    @property
    def headers(self) -> Headers:
        """The headers, with all values of a repeated one."""
        return Headers(scope=self.scope)

    @property
    def accepts_events(self) -> bool:
        """Whether the response can be an event stream."""
        return accepts_events(self.accept)

    async def respond(self, response: Response) -> None:
        """Send a response other than JSON-RPC."""
        await response(self.scope, self.receive, self.send)

    async def refuse_method(self, *allowed: str) -> None:
        """Send the response to an unsupported HTTP method."""
        await self.respond(Response(status_code=405, headers={"Allow": ", ".join(allowed)}))


@dataclass(frozen=True, slots=True)
class PostHeaders:
    """The headers of a POST, without white space around values (RFC 9110 §5.5)."""

    values: Mapping[str, str]
    """Routing headers and media types, by name; the first value of a repeated header."""
    repeated: str | None
    """The first repeated routing header, if any."""
    parameters: Headers
    """The ``Mcp-Param-`` headers, see HeaderParameters."""

    @classmethod
    def read(cls, raw: Iterable[tuple[bytes, bytes]]) -> Self:
        """Parse the headers of an ASGI scope."""
        values: dict[str, str] = {}
        repeated: str | None = None
        parameters: list[tuple[bytes, bytes]] = []
        for key, value in raw:
            name = _KNOWN.get(key)
            if name is None:
                if key.startswith(_PARAMETER):
                    parameters.append((key, value.strip(b" \t")))
            elif name not in values:
                values[name] = value.strip(b" \t").decode("latin-1")
            elif repeated is None and name in _ROUTING:
                repeated = name
        return cls(values, repeated, Headers(raw=parameters) if parameters else NO_HEADERS)


def accepts_json(accept: str) -> bool:
    """Return whether an ``Accept`` header allows JSON."""
    return _accepts(accept, ("*/*", "application/*", "application/json"))


def accepts_events(accept: str) -> bool:
    """Return whether an ``Accept`` header allows an event stream."""
    return _accepts(accept, ("*/*", "text/*", "text/event-stream"))


def _accepts(accept: str, wanted: tuple[str, ...]) -> bool:
    read = _names_any if len(accept) <= MAX_CACHED_CHARS else _names_any.__wrapped__
    return read(accept, wanted)


@lru_cache(maxsize=256)
def _names_any(accept: str, wanted: tuple[str, ...]) -> bool:
    kinds = {kind.partition(";")[0].strip().lower() for kind in accept.split(",")}
    return not kinds.isdisjoint(wanted)


_KEYWORD = to_json(X_MCP_HEADER)


class HeaderParameters:
    """Finds tools with header parameters, once for each tool of a registry.

    Most tools lack them, and walking the schema at each call would waste time.
    """

    def __init__(self, registry: RegistryHolder) -> None:
        self._holder = registry
        self._registry = registry.current
        self._has_parameters: dict[int, bool] = {}
        """By ``id()`` of the schemas, which are unique while their registry exists."""

    def check(self, request: StatelessRequest, caller: Caller, headers: Mapping[str, str]) -> None:
        """Raise JsonRpcError if the ``Mcp-Param-`` headers of a tools/call differ from its
        arguments.

        Tools that ``caller`` cannot use are not checked, so that their schema is not revealed.
        """
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if request.method != "tools/call" or not isinstance(name, str):
            return
        if not isinstance(arguments, dict | None) or not (arguments or headers):
            return
        schema = self._schema(name, caller)
        if schema is None:
            return
        # the SDK, already imported for the server of such a tool
        from mcp.shared.inbound import validate_mcp_param_headers  # noqa: PLC0415

        rejection = validate_mcp_param_headers(schema, arguments or {}, headers)
        if rejection is not None:
            raise JsonRpcError(rejection.code, rejection.message, rejection.data)

    def _schema(self, tool: str, caller: Caller) -> JsonObject | None:
        registry = self._holder.current
        schema = registry.input_schema(tool, caller)
        if schema is None:
            return None
        if registry is not self._registry:
            self._registry, self._has_parameters = registry, {}
        found = self._has_parameters.get(id(schema))
        if found is None:
            self._has_parameters[id(schema)] = found = _KEYWORD in to_json(schema)
        return schema if found else None
