import asyncio
from typing import Any

import pytest

from tests.downstream.relay_fixtures import DUPLEX, LEGACY, MODERN, STREAMING, relaying
from tests.support.fakes import FakeClient

PROGRESS = "notifications/progress"
LOG_LINE = "notifications/message"
LINE = {"level": "info", "data": {"n": 1}, "logger": "x"}

streaming = pytest.mark.parametrize("kind", STREAMING)
duplex = pytest.mark.parametrize("kind", DUPLEX)


def progress(value: object, of: object = "$token", **more: object) -> dict[str, Any]:
    return {
        "method": PROGRESS,
        "params": {"progressToken": of, "progress": value, **more},
    }


def log_line(**more: object) -> dict[str, Any]:
    return {"method": LOG_LINE, "params": LINE | more}


@streaming
async def test_progress_reaches_the_client_in_order_before_the_result(kind: str) -> None:
    client = FakeClient()
    messages = [progress(1, total=3, message="one"), progress(2.5, total=3), progress(3)]
    async with relaying(kind) as relay:
        await relay.structured("notify", client, messages=messages)
        assert client.notes == [
            (PROGRESS, {"progress": 1, "total": 3, "message": "one"}),
            (PROGRESS, {"progress": 2.5, "total": 3}),
            (PROGRESS, {"progress": 3}),
        ]


@pytest.mark.parametrize("kind", [*MODERN, *LEGACY])
async def test_a_server_gets_a_progress_token_only_for_a_client_that_wants_it(
    kind: str,
) -> None:
    async with relaying(kind) as relay:
        plain = await relay.structured("meta", FakeClient(wants_progress=False))
        assert "progressToken" not in plain
        assert "progressToken" in await relay.structured("meta", FakeClient())


async def test_progress_tokens_of_two_calls_differ() -> None:
    async with relaying("http-modern") as relay:
        tokens = {(await relay.structured("meta", FakeClient()))["progressToken"] for _ in range(3)}
        assert len(tokens) == 3


@streaming
async def test_invalid_progress_is_dropped_and_the_call_continues(kind: str) -> None:
    client = FakeClient()
    garbage = [
        progress("much"),
        progress(None),
        progress(True),
        progress(1, of=None),
        progress(1, of=[1]),
        progress(1, of=10**9),
        {"method": PROGRESS},
        {"method": PROGRESS, "params": {"progress": 1}},
        progress(7, total="all", message=3),
    ]
    async with relaying(kind) as relay:
        await relay.structured("notify", client, messages=garbage)
        assert client.notes == [(PROGRESS, {"progress": 7})]


@streaming
async def test_a_slow_client_gets_the_latest_progress_of_a_flood(kind: str) -> None:
    class Slow(FakeClient):
        async def notify(self, method: str, params: Any) -> None:
            await asyncio.sleep(0.001)
            await super().notify(method, params)

    client = Slow()
    async with relaying(kind) as relay:
        flood = relay.structured("notify", client, messages=[progress(1)], times=10_000)
        await asyncio.gather(flood, relay.structured("echo", text="x"))
        await relay.structured("notify", client, messages=[progress(2)])
        assert len(client.notes) < 9_000
        assert client.notes[-1] == (PROGRESS, {"progress": 2})


@duplex
async def test_progress_after_the_answer_is_dropped(kind: str) -> None:
    early, late = FakeClient(), FakeClient()
    async with relaying(kind) as relay:
        await relay.structured("notify_late", early, messages=[progress(1)])
        await relay.result("sleep", late, arguments={"seconds": 0.1})
        assert (early.notes, late.notes) == ([], [])


@streaming
async def test_progress_of_parallel_calls_reaches_its_own_client(kind: str) -> None:
    clients = [FakeClient() for _ in range(10)]
    async with relaying(kind) as relay:
        calls = (
            relay.structured("notify", client, messages=[progress(number)])
            for number, client in enumerate(clients)
        )
        await asyncio.gather(*calls)
        assert [client.notes for client in clients] == [
            [(PROGRESS, {"progress": number})] for number in range(10)
        ]


@streaming
async def test_a_log_line_reaches_the_client_of_the_only_call(kind: str) -> None:
    client = FakeClient(log_level="info")
    async with relaying(kind) as relay:
        await relay.structured("notify", client, messages=[log_line()])
        assert client.notes == [(LOG_LINE, LINE)]


@streaming
async def test_an_invalid_log_line_is_dropped(kind: str) -> None:
    client = FakeClient(log_level="info")
    garbage = [{"method": LOG_LINE}, log_line(level=7), log_line(data="x" * 100_000)]
    garbage.append({"method": LOG_LINE, "params": {"level": "info"}})
    async with relaying(kind) as relay:
        await relay.structured("notify", client, messages=garbage)
        assert client.notes == []


@duplex
async def test_a_log_line_that_may_belong_to_another_call_is_dropped(kind: str) -> None:
    one, other = FakeClient(log_level="info"), FakeClient(log_level="info")
    async with relaying(kind) as relay, relay.in_a_call(one):
        await relay.result("notify", other, arguments={"messages": [log_line()]}, tenant_id="t2")
        assert (one.notes, other.notes) == ([], [])


@pytest.mark.parametrize("kind", ["http-modern-sse", "http-legacy-sse"])
async def test_a_log_line_on_a_calls_own_stream_reaches_only_its_client(
    kind: str,
) -> None:
    one, other = FakeClient(log_level="info"), FakeClient(log_level="info")
    async with relaying(kind) as relay, relay.in_a_call(one):
        await relay.result("notify", other, arguments={"messages": [log_line()]}, tenant_id="t2")
        assert (one.notes, other.notes) == ([], [(LOG_LINE, LINE)])


@pytest.mark.parametrize("kind", MODERN)
@pytest.mark.parametrize("level", ["debug", None])
async def test_a_server_of_the_newer_era_receives_the_clients_log_level(
    kind: str, level: str | None
) -> None:
    async with relaying(kind) as relay:
        meta = await relay.structured("meta", FakeClient(log_level=level))
        assert meta.get("io.modelcontextprotocol/logLevel") == level


@streaming
async def test_a_client_that_does_not_read_delays_its_result_only_briefly(kind: str) -> None:
    class Deaf(FakeClient):
        async def notify(self, method: str, params: Any) -> None:
            await asyncio.Event().wait()

    async with relaying(kind) as relay:
        result = await relay.result("notify", Deaf(), arguments={"messages": [progress(1)]})
        assert result.value["content"][0]["text"] == "said"  # type: ignore[index]
