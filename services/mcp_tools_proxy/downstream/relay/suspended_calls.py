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
from mcp_tools_proxy.downstream.relay.call_relay import MAX_ASKING_S

STATE_PREFIX = "mcp-tools-proxy/parked:"
"""What a ``requestState`` of ours begins with; none of these is ever sent to a server."""

MAX_PARKED = 1000
MAX_PARKED_OF_TENANT = DEFAULT_CALLS_IN_FLIGHT // 4
"""Each is a call in flight at its server, for minutes: one tenant leaves most of them to others."""

Run = Callable[[Client], Awaitable[Any]]
"""Makes the whole request for a client that can be asked at any time; gives the raw result."""


class SuspendedCall:
    """A call that runs by itself: the Client of its request, whoever is there for it now.

    ``terms`` is what has to be the same for whoever comes back: caller, server, request.
    """

    resumes = False

    def __init__(self, client: Client, terms: object, tenant_id: str) -> None:
        self.terms = terms
        self.tenant_id = tenant_id
        self.capabilities = client.capabilities
        self.wants_progress = client.wants_progress
        self.log_level = client.log_level
        self.ends_at = asyncio.get_running_loop().time() + MAX_ASKING_S
        """When nobody waits for its client any more, on the loop's clock."""
        self.task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self.result: Any = None
        """The raw result, once ``wait`` said that it is there; it may be null."""
        self._is_done = False
        self._error: Exception | None = None
        self._questions: dict[str, tuple[str, Mapping[str, object]]] = {}
        self._answers: dict[str, asyncio.Future[Mapping[str, object]]] = {}
        self._count = 0
        self._news = asyncio.Event()

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Tell the client, if it is there."""
        if self._client is not None:
            await self._client.notify(method, params)

    async def ask(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Wait for the answer that the client comes back with. Raises ClientRequestFailed."""
        self._count += 1
        key = f"question-{self._count}"
        self._questions[key] = (method, params)
        self._answers[key] = asyncio.get_running_loop().create_future()
        self._news.set()
        try:
            return await self._answers[key]
        finally:
            self._questions.pop(key, None)
            del self._answers[key]

    async def work(self, run: Run) -> None:
        """Make the request, and keep what becomes of it; raises nothing but cancellation."""
        try:
            self.result, self._is_done = await run(self), True
        except asyncio.CancelledError:
            self._error = ShuttingDown("the service stopped before this call was done")
            raise
        except Exception as error:  # noqa: BLE001 - it is raised to whoever waits for the call
            self._error = error
        finally:
            self._news.set()

    async def wait(self, client: Client) -> bool:
        """Wait for the result; return False when there is a question. Raises what the request does.

        Cancelling it cancels the request.
        """
        self._client = client
        try:
            while not self._is_done and self._error is None and not self._questions:
                self._news.clear()
                await self._news.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            self._client = None
        if self._error is not None:
            raise self._error
        return self._is_done

    def question(self, handle: str) -> dict[str, Any]:
        """Make the answer that asks."""
        asked = {k: {"method": m, "params": dict(p)} for k, (m, p) in self._questions.items()}
        return {"resultType": INPUT_REQUIRED, "inputRequests": asked, "requestState": handle}

    def answer(self, responses: Mapping[str, object]) -> None:
        """Hand the client's answers to the server; those to no question are dropped."""
        for key, answer in self._answers.items():
            response = responses.get(key)
            if isinstance(response, Mapping) and not answer.done():
                answer.set_result(response)
                self._questions.pop(key, None)

    def refuse(self) -> None:
        """Refuse all questions to the server."""
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(
                    ClientRequestFailed(
                        INVALID_REQUEST, "too many calls wait for their clients' answers"
                    )
                )
        self._questions.clear()

    def cancel(self) -> None:
        """Give the call up."""
        if self.task is not None:
            self.task.cancel()


class SuspendedCalls:
    """The calls that wait for their clients to come back, each under a handle for one use."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None
        self._parked: dict[str, SuspendedCall] = {}

    def __repr__(self) -> str:
        return f"<SuspendedCalls {len(self._parked)} calls>"

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Run calls in ``tasks`` from now on."""
        self._tasks = tasks

    async def run(self, call: Call, terms: object, run: Run) -> Any:
        """Make a request that may be parked; return its raw result, or one that asks for input.

        Raises what the request raises.
        """
        parked = SuspendedCall(call.client, terms, call.caller.tenant_id)
        if self._tasks is None:
            return await run(parked)
        parked.task = self._tasks.create_task(parked.work(run))
        return await self._outcome(parked, call.client)

    async def resume(self, call: Call, resumed: InputResponses, terms: object) -> Any:
        """Go on with a call. Raises ToolFailed when nothing waits, and as ``run`` does."""
        self._sweep()
        handle = resumed.state or ""
        parked = self._parked.get(handle)
        if parked is None or parked.terms != terms:
            raise ToolFailed(
                "nothing waits for these answers any more; make the call again without them"
            )
        del self._parked[handle]
        parked.answer(resumed.responses)
        return await self._outcome(parked, call.client)

    async def _outcome(self, parked: SuspendedCall, client: Client) -> Any:
        while not await parked.wait(client):
            self._sweep()
            if self._has_capacity(parked.tenant_id):
                handle = STATE_PREFIX + secrets.token_urlsafe(32)
                self._parked[handle] = parked
                return parked.question(handle)
            parked.refuse()
        return parked.result

    def _has_capacity(self, tenant_id: str) -> bool:
        theirs = sum(parked.tenant_id == tenant_id for parked in self._parked.values())
        return len(self._parked) < MAX_PARKED and theirs < MAX_PARKED_OF_TENANT

    def _sweep(self) -> None:
        """Give up calls whose clients did not come back in time."""
        now = asyncio.get_running_loop().time()
        for handle, parked in tuple(self._parked.items()):
            if parked.ends_at <= now:
                parked.cancel()
                del self._parked[handle]
