import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from mcp_tools_proxy.domain.caller import Call, InputResponses
from mcp_tools_proxy.domain.client import Client, ClientRequestFailed
from mcp_tools_proxy.domain.errors import ShuttingDown, ToolFailed
from mcp_tools_proxy.domain.server import Grant, LoginFor, ServerAuth
from mcp_tools_proxy.downstream.call_relay import MAX_CLIENT_WAIT_S
from mcp_tools_proxy.downstream.client_input import (
    MAX_SUSPENDED_PER_TENANT,
    STATE_PREFIX,
    SendRequest,
    SuspendedCalls,
    resume_key_of,
)
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.server_metrics import ServerMetrics
from tests.downstream.connections import config_of
from tests.support.builders import make_call
from tests.support.fakes import FakeClient
from tests.support.tables import each_row

FORM = ("elicitation/create", {"message": "Which name?"})
TERMS = "the same"


def calling(tenant_id: str = "tenant_1") -> Call:
    client = FakeClient(supports_input_required=True)
    return replace(make_call(tenant_id=tenant_id), client=client)


class FakeRequest:
    """A request that asks the client once and returns the answer."""

    def __init__(self) -> None:
        self.cancelled = 0

    async def run(self, client: Client) -> dict[str, Any]:
        try:
            return {"answer": await client.request(*FORM)}
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def sending(suspended: SuspendedCalls, send: SendRequest, tenant_id: str = "tenant_1") -> Any:
    call = calling(tenant_id)
    return await suspended.send(call, TERMS, send, ServerMetrics(Metrics(), "notes"))


async def resuming(suspended: SuspendedCalls, input_responses: InputResponses) -> Any:
    call = replace(calling(), input_responses=input_responses)
    return await suspended.send(call, TERMS, FakeRequest().run, ServerMetrics(Metrics(), "notes"))


@asynccontextmanager
async def suspended_calls() -> AsyncIterator[SuspendedCalls]:
    found = SuspendedCalls()
    async with asyncio.TaskGroup() as tasks:
        found.open(tasks)
        yield found


async def test_a_call_that_is_not_resumed_ends_after_a_timeout() -> None:
    first_request, other = FakeRequest(), FakeRequest()
    async with suspended_calls() as suspended:
        first = await sending(suspended, first_request.run)
        await asyncio.sleep(MAX_CLIENT_WAIT_S + 1)
        second = await sending(suspended, other.run)
        input_responses = InputResponses(responses={}, state=first["requestState"])
        with pytest.raises(ToolFailed):
            await resuming(suspended, input_responses)
        answers = {key: {"action": "accept"} for key in second["inputRequests"]}
        input_responses = InputResponses(responses=answers, state=second["requestState"])
        result = await resuming(suspended, input_responses)
    assert (first_request.cancelled, result) == (1, {"answer": {"action": "accept"}})


async def test_each_suspension_of_a_call_is_counted() -> None:
    metrics = Metrics()
    async with suspended_calls() as suspended:
        of_server = ServerMetrics(metrics, "notes")
        result = await suspended.send(calling(), TERMS, FakeRequest().run, of_server)
        input_responses = InputResponses(responses={}, state=result["requestState"])
        again = await resuming(suspended, input_responses)
        answers: dict[str, object] = {key: {"action": "accept"} for key in again["inputRequests"]}
        input_responses = InputResponses(responses=answers, state=again["requestState"])
        await resuming(suspended, input_responses)
    sample = metrics.registry.get_sample_value
    assert sample("mcp_proxy_server_suspended_calls_total", {"server": "notes"}) == 2


async def test_a_handle_cannot_be_guessed() -> None:
    async with suspended_calls() as suspended:
        handles = {(await sending(suspended, FakeRequest().run))["requestState"] for _ in "ab"}
        assert {len(handle) for handle in handles} == {len(STATE_PREFIX) + 43}
        assert len(handles) == 2
        await asyncio.sleep(MAX_CLIENT_WAIT_S + 1)
        with pytest.raises(ToolFailed):
            await resuming(suspended, InputResponses(responses={}, state="x"))


async def test_suspended_calls_are_limited_per_tenant() -> None:
    async with suspended_calls() as suspended:
        for _ in range(MAX_SUSPENDED_PER_TENANT):
            await sending(suspended, FakeRequest().run)
        with pytest.raises(ClientRequestFailed, match="too many calls wait"):
            await sending(suspended, FakeRequest().run)
        assert "requestState" in await sending(suspended, FakeRequest().run, "tenant_2")
        await asyncio.sleep(MAX_CLIENT_WAIT_S + 1)
        with pytest.raises(ToolFailed):
            await resuming(suspended, InputResponses(responses={}))


async def test_invalid_answers_are_requested_again() -> None:
    async with suspended_calls() as suspended:
        result = await sending(suspended, FakeRequest().run)
        responses: dict[str, object] = dict.fromkeys(result["inputRequests"], "no object")
        input_responses = InputResponses(responses=responses, state=result["requestState"])
        again = await resuming(suspended, input_responses)
        assert again["inputRequests"] == result["inputRequests"]
        await asyncio.sleep(MAX_CLIENT_WAIT_S + 1)
        with pytest.raises(ToolFailed):
            await resuming(suspended, InputResponses(responses={}))


async def test_waiting_calls_fail_when_the_service_stops() -> None:
    async def hang(_: Client) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    waiting: list[asyncio.Future[dict[str, Any]]] = []

    async def serve() -> None:
        async with suspended_calls() as suspended:
            waiting.append(asyncio.ensure_future(sending(suspended, hang)))
            await asyncio.Event().wait()

    serving = asyncio.ensure_future(serve())
    await asyncio.sleep(1)
    serving.cancel()
    await asyncio.wait([serving])
    with pytest.raises(ShuttingDown):
        await waiting[0]


@each_row("grant", [None, Grant.TOKEN_EXCHANGE, Grant.ID_JAG])
def test_with_token_exchange_only_a_jwt_with_the_same_claims_resumes(
    grant: Grant | None,
) -> None:
    auth = None if grant is None else ServerAuth(login_for=LoginFor.USER, grant=grant)
    config = config_of({"transport": "http", "url": "http://h/mcp"}, auth=auth)
    call = calling()
    one, same, other = (
        resume_key_of(
            replace(call, caller=replace(call.caller, jwt_claims=claims)), config, "tools/call", {}
        )
        for claims in ("narrow", "narrow", "wide")
    )
    assert one == same
    assert (one == other) == (grant is None)
