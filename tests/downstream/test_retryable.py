"""``retryable`` is never true for a request that a server may have executed (contract, Δ2)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from mcp_tools_proxy.domain.client import ClientRequestFailed
from mcp_tools_proxy.domain.errors import ProxyError, ServerUnavailable
from tests.downstream.faulty_servers import SERVER_KINDS, scene
from tests.downstream.relay_fixtures import MODERN, relaying, used
from tests.downstream.stub_server import Answer, answering, events
from tests.support.configuration import Config, make_preset
from tests.support.fakes import FakeClient
from tests.support.service import running

every_kind = pytest.mark.parametrize("kind", SERVER_KINDS)
Json = dict[str, Any]

TOOLS: list[Json] = [
    {"name": "write", "inputSchema": {"type": "object"}},
    {"name": "odd", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "yes"}},
    *(
        {"name": hint, "inputSchema": {"type": "object"}, "annotations": {hint: True}}
        for hint in ("readOnlyHint", "idempotentHint")
    ),
]


def final(error: Json) -> bool:
    """Return whether an error does not suggest sending the call again."""
    return (
        "retryable" not in error
        and "retry_after_s" not in error
        and "try again later" not in error["message"]
        and "check before you make it again" in error["message"]
    )


@every_kind
@pytest.mark.parametrize("tool", ["crash", "half", "counter_crash"])
async def test_a_write_with_a_lost_answer_is_final(kind: str, tool: str) -> None:
    async with scene(kind) as it:
        error = (await it.envelope(tool))["error"]
        assert (error["code"], final(error)) == ("SERVER_UNAVAILABLE", True), error


@every_kind
async def test_a_write_whose_server_is_killed_during_it_is_final(kind: str) -> None:
    async with scene(kind, entry={"requestTimeoutSeconds": 30}) as it:
        call = it.start("hang")
        await it.has_seen("hang")
        await it.bad.kill()
        error = (await call)["error"]
        assert (error["code"], final(error)) == ("SERVER_UNAVAILABLE", True), error


async def test_a_timeout_is_final_for_a_write_but_not_for_a_read() -> None:
    async with scene("http-modern", entry={"requestTimeoutSeconds": 0.3}) as it:
        errors = {tool: (await it.envelope(tool))["error"] for tool in ("hang", "hang_safe")}
    assert {tool: error["code"] for tool, error in errors.items()} == dict.fromkeys(
        errors, "TOOL_TIMEOUT"
    )
    assert (final(errors["hang"]), final(errors["hang_safe"])) == (True, False)


@every_kind
async def test_a_read_with_a_lost_answer_may_be_retried(kind: str) -> None:
    async with scene(kind) as it:
        error = (await it.envelope("crash_safe"))["error"]
        assert (error["code"], error["retryable"]) == ("SERVER_UNAVAILABLE", True), error


@every_kind
async def test_a_write_that_was_certainly_not_sent_may_be_retried(kind: str) -> None:
    async with scene(kind) as it:
        assert await it.answers()
        await it.bad.kill()
        while (error := (await it.envelope("counter")).get("error", {})).get("retryable") is None:
            assert error == {} or final(error), "until the loss is seen"
        assert (error["code"], it.bad.seen("counter")) == ("SERVER_UNAVAILABLE", 0)


def status(code: int) -> Answer:
    async def answer(_: web.Request, __: Json) -> web.Response:
        return web.Response(status=code, text="no", headers={"Retry-After": "1"})

    return answer


def body(text: str, kind: str = "application/json") -> Answer:
    async def answer(_: web.Request, message: Json) -> web.Response:
        filled = text.replace("ID", str(message["id"]))
        return web.Response(text=filled, content_type=kind)

    return answer


async def hang_up(request: web.Request, _: Json) -> web.Response:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def stream_that_ends(request: web.Request, _: Json) -> web.StreamResponse:
    return await events(request, "id: 7\nretry: 0\ndata:\n\n")


async def stream_that_breaks(request: web.Request, _: Json) -> web.StreamResponse:
    response = await events(request, "data: {")
    assert request.transport is not None
    request.transport.close()
    return response


ANSWERS: dict[str, Answer] = {
    **{str(code): status(code) for code in (202, 307, 401, 500, 502, 504)},
    "no-json": body("<html>"),
    "html": body("<html>", "text/html"),
    "other-id": body('{"jsonrpc":"2.0","id":77,"result":{}}'),
    "no-result": body('{"jsonrpc":"2.0","id":ID}'),
    "hangs-up": hang_up,
    "stream-ends": stream_that_ends,
    "stream-breaks": stream_that_breaks,
}


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_every_unusable_answer_to_a_write_over_http_is_final(
    era: str, answer: Answer
) -> None:
    names = [tool["name"] for tool in TOOLS]
    async with answering(answer, era=era, session_id="s" if era == "legacy" else None) as server:
        server.listing = TOOLS
        config = Config(
            servers={"s1": {"transport": "http", "url": server.url}},
            presets=[make_preset(tools=[("s1", name) for name in names])],
        )
        async with running(config=config) as service:
            errors = {n: (await service.execute(f"s1:{n}"))["error"] for n in names}
    assert {n: error["code"] for n, error in errors.items()} == dict.fromkeys(
        names, "SERVER_UNAVAILABLE"
    )
    assert {n: final(error) for n, error in errors.items()} == {
        "write": True,
        "odd": True,
        "readOnlyHint": False,
        "idempotentHint": False,
    }, errors
    assert errors["readOnlyHint"]["retryable"] is True


QUESTION = {"name": {"method": "elicitation/create", "params": {"message": "Which name?"}}}
BOTH: Json = {"elicitation": {}}
ACCEPTED = {"action": "accept", "content": {}}


@pytest.mark.parametrize("kind", MODERN)
async def test_an_unsent_later_round_belongs_to_a_sent_call(kind: str) -> None:
    """The first round reached the server, so the call is final regardless of the next one."""
    async with relaying(kind, config={"max_calls_in_flight": 1}) as relay:
        tools = {tool.spec.bare_name: tool for tool in relay.components.tools}
        hanging: list[asyncio.Future[Any]] = []

        async def take_the_only_slot(_method: str, _params: object) -> Json:
            hanging.append(asyncio.ensure_future(used(tools["hang"])))
            await asyncio.sleep(0)
            return ACCEPTED

        client = FakeClient(take_the_only_slot, capabilities=BOTH)
        with pytest.raises(ProxyError) as caught:
            await relay.result("input", client, arguments={"questions": QUESTION})
        hanging[0].cancel()
        assert (caught.value.code, final(caught.value.as_json)) == ("SERVER_BUSY", True)


async def test_a_later_round_without_a_connection_belongs_to_a_sent_call() -> None:
    """Its idempotency key must stay taken, because the first round may have had effects."""
    async with (
        relaying("websocket-modern", config={"call_timeout_s": 0.5}) as relay,
        mute() as here,
    ):

        async def lose_the_server(_method: str, _params: object) -> Json:
            assert relay.server is not None
            await relay.server.stop()
            await here.listen(relay.server.port)
            await here.connected.wait()
            return ACCEPTED

        client = FakeClient(lose_the_server, capabilities=BOTH)
        with pytest.raises(ProxyError) as caught:
            await relay.result("input", client, arguments={"questions": QUESTION})
    assert (caught.value.code, caught.value.is_outcome) == ("TOOL_TIMEOUT", True)


class Mute:
    """Listens without answering."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.connected = asyncio.Event()
        self._stack = stack

    async def listen(self, port: int) -> None:
        async def hold(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._stack.callback(writer.close)  # keeps it: from Python 3.13 on a lost writer closes
            self.connected.set()

        server = await asyncio.start_server(hold, "127.0.0.1", port, reuse_port=True)
        self._stack.callback(server.close)


@asynccontextmanager
async def mute() -> AsyncIterator[Mute]:
    async with AsyncExitStack() as stack:
        yield Mute(stack)


@pytest.mark.parametrize("kind", MODERN)
async def test_an_error_for_the_client_had_no_effects_only_if_it_came_first(kind: str) -> None:
    """-32042: the client must open a page and then repeat the call."""
    async with relaying(kind) as relay:
        with pytest.raises(ProxyError) as first:
            await relay.result("error", arguments={"code": -32042})
        client = FakeClient(ClientRequestFailed(-32042, "no"), capabilities=BOTH)
        with pytest.raises(ProxyError) as later:
            await relay.result("input", client, arguments={"questions": QUESTION})
    assert (first.value.is_outcome, later.value.is_outcome) == (False, True)


async def test_a_write_interrupted_by_the_services_end_is_final() -> None:
    async with scene("http-modern", entry={"requestTimeoutSeconds": 30}) as it:
        calls = {tool: it.start(tool) for tool in ("hang", "hang_safe")}
        for tool in calls:
            await it.has_seen(tool)
        it.service.gateway.lifecycle.cancel_in_flight()
        errors = {tool: (await call)["error"] for tool, call in calls.items()}
    assert {tool: error["code"] for tool, error in errors.items()} == dict.fromkeys(
        calls, "SHUTTING_DOWN"
    )
    assert (final(errors["hang"]), errors["hang_safe"]["retryable"]) == (True, True)


def test_the_message_states_the_next_step_and_keeps_the_cause() -> None:
    error = ServerUnavailable("server s is unavailable: gone", retry_after_s=3.0).after_sending()
    assert error.as_json == {
        "code": "SERVER_UNAVAILABLE",
        "message": "server s is unavailable: gone; the server may have carried the call out, "
        "so check before you make it again",
    }
    assert ServerUnavailable("x").as_json["retryable"] is True
