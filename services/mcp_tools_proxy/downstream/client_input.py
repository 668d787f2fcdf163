"""Calls whose server needs input from their client to continue: in rounds, or suspended.

A server of MCP 2026-07-28 answers ``input_required`` and expects the request again, with the
client's answers. A client that handles these rounds itself gets that answer unchanged; for any
other client ``Rounds`` performs them.

A server of the older eras sends its request during a call; a client of MCP 2026-07-28 can receive
it only as the answer to the call. The call therefore continues in a separate task (``may_suspend``
decides). Its client is answered ``input_required`` with a handle as ``requestState``, and resumes
the call with its answers and the handle. The metric ``mcp_proxy_server_suspended_calls`` counts the
suspensions.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from mcp_tools_proxy.domain.caller import Call, InputResponses
from mcp_tools_proxy.domain.client import Client, ClientRequestFailed
from mcp_tools_proxy.domain.errors import ShuttingDown, ToolFailed, ToolTimeout
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.domain.server import DEFAULT_CALLS_IN_FLIGHT, ServerConfig
from mcp_tools_proxy.downstream.call_relay import (
    INPUT_REQUIRED,
    MAX_CLIENT_WAIT_S,
    CallRelay,
    relay_capabilities,
    unsupported_reason,
)
from mcp_tools_proxy.downstream.connection import MESSAGE_CHARS
from mcp_tools_proxy.system.backoff import Backoff
from mcp_tools_proxy.telemetry.server_metrics import ServerMetrics
from mcp_tools_proxy.wire.mcp_protocol import INVALID_REQUEST
from mcp_tools_proxy.wire.text import quote

STATE_PREFIX = "mcp-tools-proxy/parked:"
"""Prefix of the gateway's ``requestState`` values, which are never sent to a server."""

MAX_SUSPENDED = 1000
MAX_SUSPENDED_PER_TENANT = DEFAULT_CALLS_IN_FLIGHT // 4
"""Each is a call in flight for minutes, so most places are left to other tenants."""

SendRequest = Callable[[Client], Awaitable[Any]]
"""Sends the request for a client that accepts client requests; returns the raw result."""


def may_suspend(call: Call, *, legacy: bool) -> bool:
    """Return whether SuspendedCalls handles a call: it resumes another, or can be suspended.

    ``legacy`` means that the server is known to send client requests during calls. Such a server
    does not use ``requestState``, so any state comes from the gateway, or is wrong.
    """
    if call.input_responses is not None:
        return legacy or (call.input_responses.state or "").startswith(STATE_PREFIX)
    client = call.client
    accepts_requests = client.supports_input_required and relay_capabilities(client.capabilities)
    return legacy and bool(accepts_requests)


def resume_key_of(
    call: Call, config: ServerConfig, method: str, params: Mapping[str, Any]
) -> object:
    """Return the key that a call and the call that resumes it share: caller, server and request.

    It includes the caller's rights, as the answer is that of the suspended call. An operator who
    stands in for a user cannot resume that user's calls.
    """
    caller = call.caller
    fields = {key: value for key, value in params.items() if key != "_meta"}
    operator = () if caller.stand_in is None else tuple(caller.token_log_fields.values())
    owner = (caller.tenant_id, caller.user_id, caller.agent, caller.stand_in, operator)
    claims = caller.jwt_claims if config.exchanges_jwt else ""
    rights = (frozenset(caller.roles), caller.documents, claims)
    return (*owner, *rights, config.server_id), method, fields


class SuspendedCall:
    """A call in a separate task; the relay's Client, whichever real client is connected."""

    supports_input_required = False

    def __init__(self, call: Call, resume_key: object, metrics: ServerMetrics) -> None:
        self.resume_key = resume_key
        self.metrics = metrics
        self.tenant_id = call.caller.tenant_id
        self.capabilities = call.client.capabilities
        self.wants_progress = call.client.wants_progress
        self.log_level = call.client.log_level
        self.expires_at = asyncio.get_running_loop().time() + MAX_CLIENT_WAIT_S
        """When the call is cancelled unless it was resumed, on the loop's clock."""
        self.task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self.result: Any = None
        """The raw result, once ``wait`` returned True; it can be null."""
        self._is_done = False
        self._error: Exception | None = None
        self._requests: dict[str, tuple[str, Mapping[str, object]]] = {}
        self._responses: dict[str, asyncio.Future[Mapping[str, object]]] = {}
        self._count = 0
        self._changed = asyncio.Event()

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Notify the client that is waiting, if any."""
        if self._client is not None:
            await self._client.notify(method, params)

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Wait for the client's answer in the resumed call. Raises ClientRequestFailed."""
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
        """Send the request and store its result or error. Only CancelledError propagates."""
        try:
            self.result, self._is_done = await send(self), True
        except asyncio.CancelledError:
            self._error = ShuttingDown("this replica stopped before the call was done")
            raise
        except Exception as error:  # noqa: BLE001 - `wait` raises it to the caller
            self._error = without_frames(error)
        finally:
            self._changed.set()

    async def wait(self, client: Client) -> bool:
        """Wait for the result; return False when client requests are open.

        Raises the request's error. Cancelling the wait cancels the request.
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
        """Build the ``input_required`` result with the open client requests."""
        requests = {k: {"method": m, "params": dict(p)} for k, (m, p) in self._requests.items()}
        return {"resultType": INPUT_REQUIRED, "inputRequests": requests, "requestState": handle}

    def respond(self, responses: Mapping[str, object]) -> None:
        """Pass the client's answers on to the server; drop those without an open request."""
        for key, future in self._responses.items():
            response = responses.get(key)
            if isinstance(response, Mapping) and not future.done():
                future.set_result(response)
                self._requests.pop(key, None)

    def refuse_requests(self) -> None:
        """Answer all open client requests with an error."""
        for future in self._responses.values():
            if not future.done():
                future.set_exception(
                    ClientRequestFailed(
                        INVALID_REQUEST, "too many calls wait for their clients' answers"
                    )
                )
        self._requests.clear()

    def cancel(self) -> None:
        """Cancel the call."""
        if self.task is not None:
            self.task.cancel()


class SuspendedCalls:
    """The calls that wait for their clients, each under a handle valid once."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None
        self._suspended: dict[str, SuspendedCall] = {}

    def __repr__(self) -> str:
        return f"<SuspendedCalls {len(self._suspended)} calls>"

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Start calls in ``tasks`` from now on."""
        self._tasks = tasks

    async def send(
        self, call: Call, resume_key: object, send: SendRequest, metrics: ServerMetrics
    ) -> Any:
        """Send a request that may be suspended, or resume one if ``call`` has input responses.

        Returns the raw result, or an ``input_required`` result. Raises as the request, and
        ToolFailed if no call waits for the responses.
        """
        if call.input_responses is not None:
            suspended = self._take(call.input_responses.state or "", resume_key)
            suspended.respond(call.input_responses.responses)
        else:
            suspended = SuspendedCall(call, resume_key, metrics)
            if self._tasks is None:
                return await send(suspended)
            suspended.task = self._tasks.create_task(suspended.execute(send))
        return await self._outcome(suspended, call.client)

    def _take(self, handle: str, resume_key: object) -> SuspendedCall:
        """Return the call of a handle, and invalidate the handle. Raises ToolFailed."""
        self._expire()
        suspended = self._suspended.get(handle)
        if suspended is None or suspended.resume_key != resume_key:
            failure = ToolFailed(
                "the call that asked for these inputResponses no longer waits for them; make the "
                "call again without them, and with another idempotency key if it has one"
            )
            failure.nothing_ran = True
            raise failure
        del self._suspended[handle]
        return suspended

    async def _outcome(self, suspended: SuspendedCall, client: Client) -> Any:
        while not await suspended.wait(client):
            self._expire()
            if self._has_capacity(suspended.tenant_id):
                handle = STATE_PREFIX + secrets.token_urlsafe(32)
                self._suspended[handle] = suspended
                suspended.metrics.call_suspended()
                return suspended.input_required_result(handle)
            suspended.refuse_requests()
        return suspended.result

    def _has_capacity(self, tenant_id: str) -> bool:
        theirs = sum(suspended.tenant_id == tenant_id for suspended in self._suspended.values())
        return len(self._suspended) < MAX_SUSPENDED and theirs < MAX_SUSPENDED_PER_TENANT

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        for handle, suspended in tuple(self._suspended.items()):
            if suspended.expires_at <= now:
                suspended.cancel()
                del self._suspended[handle]


MAX_ROUNDS = 10

PAUSES = Backoff(first_s=0.05, longest_s=0.25, least_share=1.0)
"""Pauses before rounds without client requests, as in the SDK's client.

They prevent a tight loop with a server that returns only its state.
"""

_ClientRequests = dict[str, tuple[object, Mapping[str, Any]]]


class Rounds:
    """The rounds of one call after the first; ``relay`` sends its client the server's requests."""

    def __init__(self, relay: CallRelay | None) -> None:
        self._relay = relay
        self._count = self._pauses = 0

    async def answer(self, raw: Mapping[str, Any]) -> InputResponses | None:
        """Return the input of the next round; None if only the caller can supply it.

        Raises ToolFailed, and ToolTimeout if the client did not answer.
        """
        requests, state, relay = _client_requests_of(raw), _state_of(raw), self._relay
        if requests is None or not _can_continue(requests, state, relay):
            return None
        self._count += 1
        if self._count > MAX_ROUNDS:
            raise ToolFailed(
                f"the server asked for input more than {MAX_ROUNDS} times; pass all it needs "
                "as arguments, or use another tool"
            )
        if not requests or relay is None:
            await asyncio.sleep(PAUSES.pause_s(self._pauses))
            self._pauses += 1
            return InputResponses(responses={}, state=state)
        self._pauses = 0
        return InputResponses(responses=await _collect_responses(requests, relay), state=state)


def response_fields(input_responses: InputResponses) -> dict[str, Any]:
    """Build the request's additional fields in a round after the first."""
    fields: dict[str, Any] = {}
    if input_responses.responses:
        fields["inputResponses"] = input_responses.responses
    if input_responses.state is not None:
        fields["requestState"] = input_responses.state
    return fields


def _client_requests_of(raw: Mapping[str, Any]) -> _ClientRequests | None:
    requests = raw.get("inputRequests") or {}
    if not isinstance(requests, Mapping):
        return None
    found: _ClientRequests = {}
    for key, request in requests.items():
        params = request.get("params") if isinstance(request, Mapping) else None
        if not isinstance(request, Mapping) or not isinstance(params, Mapping | None):
            return None
        found[key] = request.get("method"), params or {}
    return found


def supports_all(client: Client, raw: Mapping[str, Any]) -> bool:
    """Return whether a client declared the capabilities for all requests of an answer.

    An answer with neither requests nor state is invalid in MCP.
    """
    requests, capabilities = _client_requests_of(raw), relay_capabilities(client.capabilities)
    if not requests and _state_of(raw) is None:
        return False
    return requests is not None and all(
        unsupported_reason(method, params, capabilities) is None
        for method, params in requests.values()
    )


def _can_continue(requests: _ClientRequests, state: str | None, relay: CallRelay | None) -> bool:
    """Return whether the next round has new input: answers, or at least the server's state.

    The same request without either could execute its work twice.
    """
    if relay is None or not requests:
        return not requests and state is not None
    return all(relay.refusal(method, params) is None for method, params in requests.values())


async def _collect_responses(requests: _ClientRequests, relay: CallRelay) -> dict[str, object]:
    responses: dict[str, object] = {}
    try:
        async with asyncio.timeout_at(relay.deadline):
            for key, (method, params) in requests.items():
                responses[key] = await _request(relay, cast("str", method), params)
    except TimeoutError:
        raise ToolTimeout(
            "the server asked the client for input, and the client did not answer within "
            f"{MAX_CLIENT_WAIT_S:g} s; make the call again when it can"
        ) from None
    return responses


def _state_of(raw: Mapping[str, Any]) -> str | None:
    state = raw.get("requestState")
    return state if isinstance(state, str) else None


async def _request(
    relay: CallRelay, method: str, params: Mapping[str, Any]
) -> Mapping[str, object]:
    refusal = relay.refusal(method, params)
    try:
        if refusal is not None:
            raise refusal
        return await relay.request(method, params)
    except ClientRequestFailed as failure:
        reason = quote(failure.message, MESSAGE_CHARS)
        raise ToolFailed(
            "the server asked the client for input, and the client answered with error "
            f"{failure.code}: {reason}",
            details={"code": failure.code},
        ) from None
