"""One fake for each of our protocols."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.components import (
    JsonObject,
    NamesNoDocument,
    PromptSpec,
    RemoteComponents,
    ResourceSpec,
    Result,
    ToolSpec,
)
from mcp_tools_proxy.domain.errors import ServerUnavailable
from mcp_tools_proxy.domain.offers import Snapshot, View
from mcp_tools_proxy.domain.server import ServerConfig, ServerState, ServerStatus
from mcp_tools_proxy.policy.aliases import alias_of

Run = Callable[[Call], Awaitable[Result]]
Respond = Callable[[str, Mapping[str, object]], Awaitable[Mapping[str, object]]]


class FakeClient:
    """A Client that stores its notifications and requests.

    It returns ``answer``, raises it if it is an error, or calls it.
    """

    def __init__(
        self,
        answer: "JsonObject | Exception | Respond | None" = None,
        *,
        capabilities: Mapping[str, object] | None = None,
        wants_progress: bool = True,
        log_level: str | None = None,
        supports_input_required: bool = False,
    ) -> None:
        self.capabilities = {"elicitation": {}} if capabilities is None else capabilities
        self.wants_progress = wants_progress
        self.log_level = log_level
        self.supports_input_required = supports_input_required
        self.notes: list[tuple[str, Mapping[str, object]]] = []
        self.requests: list[tuple[str, Mapping[str, object]]] = []
        self.forgotten = 0
        """Number of cancelled requests."""
        self._answer = answer or {"action": "decline"}

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        self.notes.append((method, params))

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        self.requests.append((method, params))
        if isinstance(self._answer, Exception):
            raise self._answer
        if isinstance(self._answer, Mapping):
            return self._answer
        try:
            return await self._answer(method, params)
        except asyncio.CancelledError:
            self.forgotten += 1
            raise


async def forever(_method: str, _params: Mapping[str, object]) -> Mapping[str, object]:
    """Never answer a request of the server; for ``answer`` of FakeClient."""
    await asyncio.Event().wait()
    return {}


class FakeTool(NamesNoDocument):
    """A Tool that returns ``answer`` or calls ``run``."""

    def __init__(
        self,
        *,
        name: str = "fake",
        alias: str | None = None,
        server_id: str | None = None,
        properties: tuple[str, ...] = (),
        answer: JsonObject | None = None,
        tokens: int = 0,
        run: Run | None = None,
        needs_tenant: bool = False,
    ) -> None:
        self.spec = ToolSpec(
            name=name,
            alias=alias or name,
            description="A fake.",
            input_schema={"type": "object", "properties": {name: {} for name in properties}},
            server_id=server_id,
            needs_tenant=needs_tenant,
        )
        self._result = Result(value=answer or {}, tokens=tokens)
        self._run = run

    def parse(self, arguments: JsonObject) -> object:
        return arguments

    async def call(self, parsed: object, call: Call) -> Result:
        return self._result if self._run is None else await self._run(call)


class FakeCompletion(NamesNoDocument):
    """Completes an argument with the received request."""

    def __init__(self, spec: PromptSpec | ResourceSpec) -> None:
        self.spec = spec

    def parse(self, arguments: JsonObject) -> object:
        return arguments

    async def call(self, parsed: object, call: Call) -> Result:
        return Result(value={"completion": {"values": [self.spec.name]}}, tokens=0)


class FakePrompt(NamesNoDocument):
    """A Prompt of server ``s`` that answers without messages."""

    def __init__(
        self, name: str = "hello", *, server_id: str = "s", arguments: tuple[str, ...] = ()
    ) -> None:
        self.spec = PromptSpec(
            name=name,
            server_id=server_id,
            as_mcp={"name": name},
            argument_names=frozenset(arguments),
        )

    def parse(self, arguments: JsonObject) -> object:
        return arguments

    @property
    def completion(self) -> FakeCompletion:
        return FakeCompletion(self.spec)

    async def call(self, parsed: object, call: Call) -> Result:
        return Result(value={"messages": []}, tokens=0)


class FakeResource(NamesNoDocument):
    """A Resource of server ``s`` that answers with its URI."""

    def __init__(
        self, uri: str = "u://1", *, server_id: str = "s", spec: ResourceSpec | None = None
    ) -> None:
        self.uri = uri
        self.listeners: list[Callable[[], None]] = []
        self.spec = spec or ResourceSpec(
            name=uri, server_id=server_id, as_mcp={"uri": uri, "name": uri}
        )

    async def subscribe(self, on_update: Callable[[], None], caller: Caller) -> Callable[[], None]:
        self.listeners.append(on_update)
        return lambda: self.listeners.remove(on_update)

    def parse(self, arguments: JsonObject) -> object:
        return arguments

    async def call(self, parsed: object, call: Call) -> Result:
        return Result(value={"contents": [{"uri": self.uri}]}, tokens=0)


class FakeTemplate:
    """A ResourceTemplate ``prefix{rest}`` that matches every URI beginning with ``prefix``."""

    def __init__(self, prefix: str = "u://", *, server_id: str = "s") -> None:
        name = f"{prefix}{{rest}}"
        self.spec = ResourceSpec(
            name=name, server_id=server_id, as_mcp={"uriTemplate": name, "name": name}
        )
        self._prefix = prefix

    @property
    def completion(self) -> FakeCompletion:
        return FakeCompletion(self.spec)

    def at(self, uri: str) -> FakeResource | None:
        return FakeResource(uri, spec=self.spec) if uri.startswith(self._prefix) else None


class FakePool:
    """A pool whose servers provide ``offers`` as soon as they are wanted.

    Other servers are never discovered. ``applied`` has every applied set, the last at the end.
    """

    def __init__(self, offers: Mapping[str, Snapshot] | None = None) -> None:
        self.offers = dict(offers or {})
        self.applied: list[Mapping[str, ServerConfig]] = []

    def apply(self, wanted: Mapping[str, ServerConfig]) -> None:
        """Run only the enabled servers of ``wanted``."""
        self.applied.append(wanted)

    @property
    def pending(self) -> Sequence[str]:
        """Always empty, because servers are discovered immediately or never."""
        return ()

    def undiscovered(self, _: Kind) -> Mapping[str, ServerUnavailable]:
        """Always empty, because unknown servers are never called."""
        return {}

    @property
    def statuses(self) -> Sequence[ServerStatus]:
        wanted = self.applied[-1] if self.applied else {}
        return [self._status_of(config) for config in wanted.values()]

    def _status_of(self, config: ServerConfig) -> ServerStatus:
        state = ServerState.READY if config.server_id in self.offers else ServerState.UNREACHABLE
        return ServerStatus(
            server_id=config.server_id,
            state=state if config.enabled else ServerState.DISABLED,
            transport=config.transport,
            reason="connection refused",
        )

    async def wait_first_attempt(self, server_id: str, waited_s: float, tenant_id: str) -> None:
        raise AssertionError("no server is pending")

    @property
    def snapshots(self) -> Mapping[str, Snapshot]:
        running = self.applied[-1] if self.applied else {}
        return {
            server_id: self.offers[server_id]
            for server_id, config in running.items()
            if config.enabled and server_id in self.offers
        }


def fake_components(view: View, _bindings: object = None) -> RemoteComponents:
    return RemoteComponents(
        tools=tuple(
            FakeTool(
                name=name, alias=alias_of(route.server_id, route.name), server_id=route.server_id
            )
            for name, route in view.tools.items()
        ),
        prompts=tuple(
            FakePrompt(k, server_id=r.server_id) for k, rs in view.prompts.items() for r in rs
        ),
        resources=tuple(
            FakeResource(k, server_id=r.server_id) for k, rs in view.resources.items() for r in rs
        ),
        templates=tuple(
            FakeTemplate(k.partition("{")[0], server_id=r.server_id)
            for k, rs in view.templates.items()
            for r in rs
        ),
    )
