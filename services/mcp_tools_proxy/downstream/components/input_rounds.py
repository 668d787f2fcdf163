"""Sends a call's request in rounds (MCP 2026-07-28): request, input required, request with answers.

A server of that era answers ``input_required`` and expects the request again, with the client's
answers. A client that handles rounds itself gets that answer unchanged; for any other client the
rounds are driven here.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from mcp_tools_proxy.aiokits.backoff import Backoff
from mcp_tools_proxy.domain.caller import Call, Caller, InputResponses
from mcp_tools_proxy.domain.client import NULL_CLIENT, Client, ClientRequestFailed
from mcp_tools_proxy.domain.errors import ProxyError, ToolFailed, ToolTimeout
from mcp_tools_proxy.downstream.call_relay import (
    MAX_CLIENT_WAIT_S,
    CallRelay,
    input_required,
    relay_capabilities,
    unsupported_reason,
)
from mcp_tools_proxy.downstream.connection import MESSAGE_CHARS
from mcp_tools_proxy.downstream.reconnecting_session import ReconnectingSession
from mcp_tools_proxy.downstream.suspended_calls import may_suspend, resume_key_of
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.text import quote

MAX_ROUNDS = 10
"""Upper bound of the rounds of one call."""

PAUSES = Backoff(first_s=0.05, longest_s=0.25, least_share=1.0)
"""The pauses before rounds without client requests, as in the SDK's client.

A server that returns only its state would else be sent the request in a tight loop.
"""

_ClientRequests = dict[str, tuple[object, Mapping[str, Any]]]
"""Method and params of each client request of one answer, by its key."""


async def send_with_rounds(
    call: Call,
    session: ReconnectingSession,
    method: str,
    params: dict[str, Any],
    *,
    idempotent: bool,
) -> Any:
    """Send a call's request and return the raw result; ``params`` may hold ``_meta``.

    An ``idempotent`` request is repeated once when no answer came. The result is ``input_required``
    only if the call's client supports that, or cannot be sent the server's requests. Raises as
    ``RequestSender.send``; ToolFailed, ToolTimeout when the client did not answer.
    """
    request = _Request(call, session, method, params, idempotent)
    if call.client is NULL_CLIENT and call.input_responses is None:
        return await request.send(NULL_CLIENT, None)
    if may_suspend(call, legacy=session.is_legacy):
        resume_key = resume_key_of(call, session.config, method, params)
        return await session.suspended_calls.send(
            call, resume_key, request.send_relayed, session.metrics
        )
    if call.input_responses is not None:
        params.update(_response_fields(call.input_responses))
    return await request.send_relayed(call.client)


@dataclass(slots=True)
class _Request:
    """The request of one call, in as many rounds as its server requires."""

    call: Call
    session: ReconnectingSession
    method: str
    params: Mapping[str, Any]
    idempotent: bool

    @property
    def _caller(self) -> Caller | None:
        """The caller, for a server that is given something of it."""
        return self.call.caller if self.session.config.needs_caller else None

    async def send_relayed(self, client: Client) -> Any:
        """Send it; relay to ``client`` what the server sends meanwhile."""
        caller = self.call.caller
        async with CallRelay(client, (caller.tenant_id, caller.user_id)) as relay:
            return await self.send(client, relay)

    async def send(self, client: Client, relay: CallRelay | None) -> Any:
        """Send it until the result is final, or requires input that only the caller can supply."""
        raw = await self._send_first_round(relay)
        rounds = pauses = 0
        while input_required(raw) and not client.supports_input_required:
            requests, state = _client_requests_of(raw), _state_of(raw)
            if not _can_continue(requests, state, relay):
                return raw
            rounds += 1
            if rounds > MAX_ROUNDS:
                raise ToolFailed(
                    f"the server asked for input more than {MAX_ROUNDS} times; pass all it needs "
                    "as arguments, or use another tool"
                )
            responses: dict[str, object] = {}
            if requests and relay is not None:
                responses, pauses = await _collect_responses(requests, relay), 0
            else:
                await asyncio.sleep(PAUSES.pause_s(pauses))
                pauses += 1
            raw = await self._send_next_round(
                InputResponses(responses=responses, state=state), relay
            )
        return raw

    async def _send_first_round(self, relay: CallRelay | None) -> Any:
        try:
            return await self.session.sender.send(
                self.method,
                self.params,
                repeatable=self.idempotent and self.call.input_responses is None,
                idempotent=self.idempotent,
                relay=relay,
                tenant_id=self.call.caller.tenant_id,
                waited_s=self.call.waited_s,
                caller=self._caller,
            )
        except JsonRpcError as error:
            error.came_first = relay is None or not relay.request_count
            raise

    async def _send_next_round(
        self, input_responses: InputResponses, relay: CallRelay | None
    ) -> Any:
        """Send the next round.

        The server has seen the first round, so a failure is not retryable unless the call is
        idempotent, and never one of a call that did nothing.
        """
        try:
            return await self.session.sender.send(
                self.method,
                {**self.params, **_response_fields(input_responses)},
                idempotent=self.idempotent,
                relay=relay,
                tenant_id=self.call.caller.tenant_id,
                caller=self._caller,
            )
        except ProxyError as error:
            if not self.idempotent and (error.retryable or error.nothing_ran):
                raise error.after_sending() from None
            raise


def _response_fields(input_responses: InputResponses) -> dict[str, Any]:
    """Build the fields that a request carries in a round after the first."""
    fields: dict[str, Any] = {}
    if input_responses.responses:
        fields["inputResponses"] = input_responses.responses
    if input_responses.state is not None:
        fields["requestState"] = input_responses.state
    return fields


def _client_requests_of(raw: Mapping[str, Any]) -> _ClientRequests | None:
    """Return method and params of each client request, by its key; None if any is malformed."""
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
    """Return whether a client declared the capabilities for everything that an answer requests.

    An answer without requests and without state is invalid in MCP, and clients refuse it.
    """
    requests, capabilities = _client_requests_of(raw), relay_capabilities(client.capabilities)
    if not requests and _state_of(raw) is None:
        return False
    return requests is not None and all(
        unsupported_reason(method, params, capabilities) is None
        for method, params in requests.values()
    )


def _can_continue(
    requests: _ClientRequests | None, state: str | None, relay: CallRelay | None
) -> bool:
    """Return whether the next round has something new: answers, or at least the server's state.

    The same request without either could execute its work twice.
    """
    if requests is None or not (requests or state is not None):
        return False
    if relay is None:
        return not requests
    return all(relay.refusal(method, params) is None for method, params in requests.values())


async def _collect_responses(requests: _ClientRequests, relay: CallRelay) -> dict[str, object]:
    """Send the client one request after the other; return the results by key.

    Raises ToolFailed, ToolTimeout.
    """
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
