"""Calls that wait for their client's answers, while the client is not there.

A server of the older eras asks in the midst of a call, and a client of MCP 2026-07-28 can only be
asked by the call's answer. So the call goes on by itself, its client is given the question and a
handle, and comes back with the answer to both.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp.types import INVALID_REQUEST

from mcp_tools_proxy.domain.caller import Call, InputResponses
from mcp_tools_proxy.domain.client import Client, ClientRequestFailed
from mcp_tools_proxy.domain.errors import ShuttingDown, ToolFailed
from mcp_tools_proxy.domain.server import DEFAULT_CALLS_IN_FLIGHT
from mcp_tools_proxy.downstream.components.normalize import INPUT_REQUIRED
from mcp_tools_proxy.downstream.relay.call_relay import MAX_CLIENT_WAIT_S

STATE_PREFIX = "mcp-tools-proxy/parked:"
"""What a ``requestState`` of ours begins with; none of these is ever sent to a server."""

MAX_SUSPENDED = 1000
MAX_SUSPENDED_PER_TENANT = DEFAULT_CALLS_IN_FLIGHT // 4
"""Each is a call in flight at its server, for minutes: one tenant leaves most of them to others."""

SendRequest = Callable[[Client], Awaitable[Any]]
"""Makes the whole request for a client that can be asked at any time; gives the raw result."""


class SuspendedCall:
    """A call that runs by itself: the Client of its request, whoever is there for it now.

    ``resume_key`` is what has to be the same for whoever comes back: caller, server, request.
    """

    supports_input_required = False

    def __init__(self, client: Client, resume_key: object, tenant_id: str) -> None:
        self.resume_key = resume_key
        self.tenant_id = tenant_id
        self.capabilities = client.capabilities
        self.wants_progress = client.wants_progress
        self.log_level = client.log_level
        self.expires_at = asyncio.get_running_loop().time() + MAX_CLIENT_WAIT_S
        """When nobody waits for its client any more, on the loop's clock."""
        self.task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self.result: Any = None
        """The raw result, once ``wait`` said that it is there; it may be null."""
        self._is_done = False
        self._error: Exception | None = None
        self._requests: dict[str, tuple[str, Mapping[str, object]]] = {}
        self._responses: dict[str, asyncio.Future[Mapping[str, object]]] = {}
        self._count = 0
        self._changed = asyncio.Event()

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Tell the client, if it is there."""
        if self._client is not None:
            await self._client.notify(method, params)

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Wait for the answer that the client comes back with. Raises ClientRequestFailed."""
        self._count += 1
        key = f"question-{self._count}"
        self._requests[key] = (method, params)
        self._responses[key] = asyncio.get_running_loop().create_future()
        self._changed.set()
        try:
            return await self._responses[key]
        finally:
            self._requests.pop(key, None)
            del self._responses[key]

    async def execute(self, send: SendRequest) -> None:
        """Make the request, and keep what becomes of it; raises nothing but cancellation."""
        try:
            self.result, self._is_done = await send(self), True
        except asyncio.CancelledError:
            self._error = ShuttingDown("the service stopped before this call was done")
            raise
        except Exception as error:  # noqa: BLE001 - it is raised to whoever waits for the call
            self._error = error
        finally:
            self._changed.set()

    async def wait(self, client: Client) -> bool:
        """Wait for the result; return False when there is a question. Raises what the request does.

        Cancelling it cancels the request.
        """
        self._client = client
        try:
            while not self._is_done and self._error is None and not self._requests:
                self._changed.clear()
                await self._changed.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            self._client = None
        if self._error is not None:
            raise self._error
        return self._is_done

    def input_required_result(self, handle: str) -> dict[str, Any]:
        """Make the answer that asks."""
        requests = {k: {"method": m, "params": dict(p)} for k, (m, p) in self._requests.items()}
        return {"resultType": INPUT_REQUIRED, "inputRequests": requests, "requestState": handle}

    def respond(self, responses: Mapping[str, object]) -> None:
        """Hand the client's answers to the server; those to no question are dropped."""
        for key, future in self._responses.items():
            response = responses.get(key)
            if isinstance(response, Mapping) and not future.done():
                future.set_result(response)
                self._requests.pop(key, None)

    def refuse_requests(self) -> None:
        """Refuse all questions to the server."""
        for future in self._responses.values():
            if not future.done():
                future.set_exception(
                    ClientRequestFailed(
                        INVALID_REQUEST, "too many calls wait for their clients' answers"
                    )
                )
        self._requests.clear()

    def cancel(self) -> None:
        """Give the call up."""
        if self.task is not None:
            self.task.cancel()


class SuspendedCalls:
    """The calls that wait for their clients to come back, each under a handle for one use."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None
        self._suspended: dict[str, SuspendedCall] = {}

    def __repr__(self) -> str:
        return f"<SuspendedCalls {len(self._suspended)} calls>"

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Run calls in ``tasks`` from now on."""
        self._tasks = tasks

    async def start(self, call: Call, resume_key: object, send: SendRequest) -> Any:
        """Make a request that may be parked; return its raw result, or one that asks for input.

        Raises what the request raises.
        """
        suspended = SuspendedCall(call.client, resume_key, call.caller.tenant_id)
        if self._tasks is None:
            return await send(suspended)
        suspended.task = self._tasks.create_task(suspended.execute(send))
        return await self._outcome(suspended, call.client)

    async def resume(self, call: Call, input_responses: InputResponses, resume_key: object) -> Any:
        """Go on with a call. Raises ToolFailed when nothing waits, and as ``run`` does."""
        self._expire()
        handle = input_responses.state or ""
        suspended = self._suspended.get(handle)
        if suspended is None or suspended.resume_key != resume_key:
            raise ToolFailed(
                "nothing waits for these answers any more; make the call again without them"
            )
        del self._suspended[handle]
        suspended.respond(input_responses.responses)
        return await self._outcome(suspended, call.client)

    async def _outcome(self, suspended: SuspendedCall, client: Client) -> Any:
        while not await suspended.wait(client):
            self._expire()
            if self._has_capacity(suspended.tenant_id):
                handle = STATE_PREFIX + secrets.token_urlsafe(32)
                self._suspended[handle] = suspended
                return suspended.input_required_result(handle)
            suspended.refuse_requests()
        return suspended.result

    def _has_capacity(self, tenant_id: str) -> bool:
        theirs = sum(suspended.tenant_id == tenant_id for suspended in self._suspended.values())
        return len(self._suspended) < MAX_SUSPENDED and theirs < MAX_SUSPENDED_PER_TENANT

    def _expire(self) -> None:
        """Give up calls whose clients did not come back in time."""
        now = asyncio.get_running_loop().time()
        for handle, suspended in tuple(self._suspended.items()):
            if suspended.expires_at <= now:
                suspended.cancel()
                del self._suspended[handle]
