"""A bare JSON-RPC responder that acts as an MCP server of both eras. Standard library only."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.mcp_servers.raw_relay_tools import RELAY_BEHAVIOURS, Updates, completed
from tests.support.mcp_servers.raw_tools import (
    BEHAVIOURS,
    OWN_ITEMS,
    Fault,
    Json,
    RpcError,
    Run,
    Send,
    descriptor,
    identify,
)

ALL = BEHAVIOURS | RELAY_BEHAVIOURS
MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
CANCELLED = "cancelled"
PREFIX = "io.modelcontextprotocol/"
METHOD_OF_LIST = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


@dataclass(kw_only=True)
class Options:
    """The server's behaviour; every option can be changed while it runs."""

    name: str = "raw"
    era: str = "both"
    """both, legacy (no server/discover), or modern (no initialize)."""
    tools: int = 0
    """Number of additional tools ``tool_001`` …"""
    only: tuple[str, ...] | None = None
    """The listed scripted tools; None is all."""
    extra: dict[str, list[Any]] = field(default_factory=dict)
    """More descriptors, by list: tools, prompts, resources, resourceTemplates."""
    more: dict[str, Any] = field(default_factory=dict)
    """Additional fields of the results of prompts/get and resources/read; or a whole result."""
    without: tuple[str, ...] = ()
    """Missing capabilities: tools, prompts, resources, completions, subscribe."""
    undeclared: tuple[str, ...] = ()
    """Existing but undeclared capabilities: tools, prompts, resources."""
    page_size: int = 0
    """Items in a page of a list; 0 is all of them."""
    delay_s: float = 0.0
    """Delay of lists in seconds."""
    mute: tuple[str, ...] = ()
    """Methods that are never answered; ``*`` is every one."""
    die_on: tuple[str, ...] = ()
    """Methods that kill it."""
    list_changed: bool = True
    """Whether it declares and sends list_changed."""
    sse: bool = False
    """Streamable HTTP: whether it answers with an event stream instead of JSON."""
    stateless: bool = False
    """Streamable HTTP, legacy era: whether it omits session ids."""
    journal: str = ""
    """A file that gets a line for each received method, tool run, and cancelled call."""


@dataclass(kw_only=True)
class Seen:
    """The source of a request: ``headers`` of HTTP, and the way back while it runs."""

    send: Send
    headers: Json = field(default_factory=dict)


class Script:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.calls: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.cancelled_count = 0
        """Number of calls cancelled by a message or a disconnect."""
        self.running_count = 0
        self.released = asyncio.Event()
        """Ends the calls of ``hold``."""
        self.updates = Updates()
        self.listeners: dict[object, tuple[Send, Json]] = {}
        self.requested: dict[str, asyncio.Future[Json]] = {}
        """Requests to clients, by id; the answer is a message with result or error."""
        self.later: asyncio.Queue[str] = asyncio.Queue()
        """The ids of requests that were sent after the end of their call."""
        self.initialized: Json = {}
        """The client's parameters in the legacy handshake."""
        self.tools: dict[str, Json] = {}
        for name in ALL if options.only is None else options.only:
            self.tools[name] = descriptor(name)
        for number in range(1, options.tools + 1):
            self.tools[f"tool_{number:03}"] = descriptor(f"tool_{number:03}")
        for place, tool in enumerate(options.extra.get("tools", [])):
            key = tool.get("name") if isinstance(tool, dict) else None
            self.tools[key if isinstance(key, str) else f"odd {place}"] = tool

    def swap(self, tool: str) -> None:
        """Remove the tool, or add it, and notify the listeners."""
        if self.tools.pop(tool, None) is None:
            self.tools[tool] = descriptor(tool)
        self.notify_list_changed()

    def notify_list_changed(self, kind: str = "tools") -> None:
        for send, meta in list(self.listeners.values()):
            note = {"method": f"notifications/{kind}/list_changed"}
            send({"jsonrpc": "2.0", **note, "params": {"_meta": meta} if meta else {}})

    def request_client(self, question: Json, send: Send) -> str:
        id_ = f"q{len(self.requested) + 1}"
        self.requested[id_] = asyncio.get_running_loop().create_future()
        send({"jsonrpc": "2.0", "id": id_, **question})
        return id_

    def on_response(self, message: Json) -> None:
        future = self.requested.get(str(message.get("id")))
        if future is not None and not future.done():
            future.set_result({k: message[k] for k in ("result", "error") if k in message})

    async def answer(self, request: Json, seen: Seen) -> Json | Fault:
        """Answer one request; the cancellation of a tool call is counted."""
        method, params = str(request["method"]), request.get("params") or {}
        self.requests[method] += 1
        self._journal(method)
        if method in self.options.mute or "*" in self.options.mute:
            await asyncio.Event().wait()
        if method in self.options.die_on:
            return Fault.CRASH
        answer: Json = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            result = await self._result(method, params, seen, request["id"])
        except RpcError as error:
            return answer | {"error": error.error}
        if isinstance(result, Fault):
            return result
        is_stamped = is_modern(params) and isinstance(result, dict)
        return answer | {"result": self._stamped(method, result) if is_stamped else result}

    async def _result(self, method: str, params: Json, seen: Seen, id_: object) -> Any:
        if method in METHOD_OF_LIST:
            await asyncio.sleep(self.options.delay_s)
            return self._page(METHOD_OF_LIST[method], params)
        if method == "tools/call":
            return await self._call(params, seen)
        if method == "subscriptions/listen" and self.options.era != "legacy":
            return await self._listen(params, seen, id_)
        at_once: dict[str, Callable[[Json], Json]] = {
            "initialize": self._initialized,
            "server/discover": self._discovered,
            "ping": lambda _: {},
            "prompts/get": self._prompt,
            "completion/complete": completed,
            "resources/subscribe": self.updates.subscribe,
            "resources/unsubscribe": self.updates.unsubscribe,
            "resources/read": self._resource,
        }
        if method not in at_once or (method == "ping" and is_modern(params)):
            raise RpcError(-32601, f"Method not found: {method}")
        result, more = at_once[method](params), self.options.more.get(method, {})
        return result | more if isinstance(more, dict) else more

    def _initialized(self, params: Json) -> Json:
        if self.options.era == "modern":
            raise RpcError(-32022, "Unsupported protocol version", {"supported": [MODERN]})
        self.initialized = params
        requested = params.get("protocolVersion")
        return {
            "protocolVersion": requested if requested in LEGACY else LEGACY[-1],
            "capabilities": self._capabilities(),
            "serverInfo": self._identity(),
        }

    def _discovered(self, params: Json) -> Json:
        if self.options.era == "legacy":
            raise RpcError(-32601, "Method not found: server/discover")
        return {"supportedVersions": [MODERN], "capabilities": self._capabilities()}

    def _identity(self) -> Json:
        return {"name": self.options.name, "version": "0.0.1"}

    def _capabilities(self) -> Json:
        undeclared = self.options.without + self.options.undeclared
        offered = [k for k in ("tools", "prompts", "resources") if k not in undeclared]
        completes: Json = {} if "completions" in self.options.without else {"completions": {}}
        found: Json = {k: {"listChanged": self.options.list_changed} for k in offered}
        if "resources" in found and "subscribe" not in self.options.without:
            found["resources"]["subscribe"] = True
        return found | completes

    def _stamped(self, method: str, result: Json) -> Json:
        """Add the modern era's fields of results."""
        meta = {**result.get("_meta", {}), f"{PREFIX}serverInfo": self._identity()}
        stamped = {"resultType": "complete", **result, "_meta": meta}
        if method in METHOD_OF_LIST or method in {"server/discover", "resources/read"}:
            stamped |= {"ttlMs": 0, "cacheScope": "private"}
        return stamped

    def _page(self, kind: str, params: Json) -> Json:
        self._offered("resources" if kind == "resourceTemplates" else kind)
        items = self._items(kind)
        start = int(params.get("cursor") or 0)
        end = start + (self.options.page_size or len(items) or 1)
        return {kind: items[start:end]} | ({"nextCursor": str(end)} if end < len(items) else {})

    def _offered(self, capability: str) -> None:
        if capability in self.options.without:
            raise RpcError(-32601, f"No {capability} here")

    def _items(self, kind: str) -> list[Any]:
        if kind == "tools":
            return list(self.tools.values())
        return OWN_ITEMS[kind] + self.options.extra.get(kind, [])

    async def _listen(self, params: Json, seen: Seen, id_: object) -> Json:
        """Keep a modern subscription open until it is cancelled."""
        meta = {f"{PREFIX}subscriptionId": id_}
        wanted = dict(params.get("notifications", {}))
        uris = [u for u in wanted.get("resourceSubscriptions", []) if u != "raw://refused"]
        if "resourceSubscriptions" in wanted:
            wanted["resourceSubscriptions"] = uris
        ack = {"notifications": wanted, "_meta": meta}
        method = "notifications/subscriptions/acknowledged"
        seen.send({"jsonrpc": "2.0", "method": method, "params": ack})
        token = object()
        self.listeners[token] = (seen.send, meta)
        self.updates.streams[token] = (seen.send, meta, uris)
        try:
            await asyncio.Event().wait()
        finally:
            del self.listeners[token], self.updates.streams[token]
        return {"_meta": meta}

    async def _call(self, params: Json, seen: Seen) -> Any:
        name = str(params.get("name"))
        if name not in self.tools:
            raise RpcError(-32602, f"Unknown tool: {name}")
        self.calls[name] += 1
        self._journal(name)
        self.running_count += 1
        run = Run(
            script=self,
            tool=name,
            arguments=params.get("arguments") or {},
            params=params,
            meta=params.get("_meta") or {},
            headers=seen.headers,
            send=seen.send,
        )
        try:
            return await ALL.get(name, identify)(run)
        except asyncio.CancelledError:
            self.cancelled_count += 1
            self._journal(CANCELLED)
            raise
        finally:
            self.running_count -= 1

    def _journal(self, word: str) -> None:
        if self.options.journal:
            with open(self.options.journal, "a", encoding="utf-8") as journal:
                journal.write(f"{word}\n")

    def _prompt(self, params: Json) -> Json:
        self._offered("prompts")
        name, arguments = str(params.get("name")), params.get("arguments") or {}
        if name not in [it.get("name") for it in self._items("prompts") if isinstance(it, dict)]:
            raise RpcError(-32602, f"Unknown prompt: {name}")
        text = f"{name} of {self.options.name} for {arguments.get('name', 'all')}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}

    def _resource(self, params: Json) -> Json:
        self._offered("resources")
        uri = str(params.get("uri"))
        known = [it.get("uri") for it in self._items("resources") if isinstance(it, dict)]
        if uri not in known and not uri.startswith("raw://item/"):
            raise RpcError(-32602 if is_modern(params) else -32002, f"Resource not found: {uri}")
        return {"contents": [{"uri": uri, "text": f"{uri} of {self.options.name}"}]}


def is_modern(params: Any) -> bool:
    return isinstance(params, dict) and f"{PREFIX}protocolVersion" in (params.get("_meta") or {})


def die() -> None:
    os._exit(3)
