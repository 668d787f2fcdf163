import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.bounds import until
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_preset
from tests.support.leak_checks import runs
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.service import SERVERS, Envelope, Service, eventually, running
from tests.support.tokens import bearer, file_token, token_settings

ADMIN = "correct-horse-battery"
TOOLS = ("echo", "hang", "witness")


async def reconnect(service: Service, server_id: str = "s1", token: str = ADMIN) -> httpx.Response:
    return await service.http.post(f"{SERVERS}/{server_id}/reconnect", headers=bearer(token))


async def status(service: Service) -> Envelope:
    (server,) = (await service.get(SERVERS))["servers"]
    shown: Envelope = server
    return shown


async def wait_ready(service: Service, reconnects: int) -> None:
    async def ready() -> bool:
        shown = await status(service)
        return (shown["state"], shown["reconnects"]) == ("ready", reconnects)

    await eventually(ready)


@asynccontextmanager
async def serving(entry: Json, **settings: Any) -> AsyncIterator[Service]:
    preset = make_preset(tools=[("s1", name) for name in TOOLS])
    config = Config(servers={"s1": entry}, presets=[preset])
    async with running(config=config, admin_token=ADMIN, **settings) as service:
        yield service


@pytest.mark.parametrize(
    ("transport", "era"),
    [("http", "modern"), ("http", "legacy"), ("sse", "legacy"), ("ws", "modern"), ("ws", "legacy")],
)
async def test_the_connection_is_reopened_and_works(transport: str, era: str) -> None:
    async with (
        running_raw(transport, era=era, only=TOOLS) as server,
        serving(server.entry) as service,
    ):
        answer = await reconnect(service)
        shown = answer.json()
        assert (answer.status_code, shown["server_id"], shown["state"]) == (
            202,
            "s1",
            "reconnecting",
        )
        await wait_ready(service, 1)
        assert await service.code("s1:echo") == "OK"


async def test_consecutive_requests_are_combined() -> None:
    async with running_raw(era="legacy", only=TOOLS) as server, serving(server.entry) as service:
        before = server.script.requests["initialize"]
        answers = await asyncio.gather(*(reconnect(service) for _ in range(20)))
        await wait_ready(service, 1)
        assert {it.status_code for it in answers} == {202}
        assert server.script.requests["initialize"] == before + 1
        await reconnect(service)
        await wait_ready(service, 2)


async def test_a_call_in_flight_completes_and_the_next_one_is_served() -> None:
    async with running_raw(only=TOOLS) as server, serving(server.entry) as service:
        async with asyncio.TaskGroup() as group:
            calling = group.create_task(service.code("s1:hang"))
            await until(lambda: server.script.running_count)
            await reconnect(service)
        assert calling.result() == "SERVER_UNAVAILABLE"
        assert await service.code("s1:echo") == "OK"
        assert server.script.calls["hang"] == 1


async def test_an_unreachable_server_is_retried_immediately() -> None:
    async with running_raw(only=TOOLS) as server, serving(server.entry) as service:
        await server.stop()

        async def lost() -> bool:
            await service.code("s1:echo")
            return bool((await status(service))["state"] != "ready")

        await eventually(lost)
        await server.start()
        assert (await reconnect(service)).status_code == 202
        assert await service.code("s1:echo") == "OK"


async def test_a_failed_server_is_retried_immediately() -> None:
    async with running_raw(era="legacy", only=TOOLS) as server:
        entry = {**server.entry, "headers": {"X-Tenant": "${caller.tenant_id}"}}
        async with serving(entry) as service:
            assert (await status(service))["state"] == "failed"
            server.script.options.era = "modern"
            await reconnect(service)
            await wait_ready(service, 0)


async def test_the_process_of_a_server_is_restarted_and_no_other_is_left() -> None:
    async with serving(raw_entry(only=list(TOOLS))) as service:
        first = int((await service.result("s1:witness"))["structured_content"]["process"])
        await reconnect(service)
        await wait_ready(service, 1)
        second = int((await service.result("s1:witness"))["structured_content"]["process"])
        await until(lambda: not runs(first), "the first process ends")
        assert (first != second, runs(second)) == (True, True)
    assert not runs(second)


async def test_the_sessions_of_tenants_are_reopened_too() -> None:
    entry = {**raw_entry(only=list(TOOLS)), "isolation": "tenant"}
    async with serving(entry) as service:

        async def process(tenant_id: str) -> int:
            result = await service.result("s1:witness", tenant_id=tenant_id)
            return int(result["structured_content"]["process"])

        before = [await process("tenant_1"), await process("tenant_2")]
        await reconnect(service)
        await until(lambda: not any(map(runs, before)), "the processes of the tenants end")
        after = [await process("tenant_1"), await process("tenant_2")]
        assert len({*before, *after}) == 4
        assert (await status(service))["sessions"]["open"] == 2


@pytest.mark.parametrize("server_id", ["s2", "s1%2F..", "%00", "x" * 300, "%ff"])
async def test_an_unknown_server_is_not_found(server: RawServer, server_id: str) -> None:
    async with serving(server.entry) as service:
        answer = await reconnect(service, server_id)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")
        await wait_ready(service, 0)


async def test_a_server_that_does_not_run_cannot_be_reconnected(server: RawServer) -> None:
    async with serving({**server.entry, "enabled": False}) as service:
        answer = await reconnect(service)
    assert (answer.status_code, answer.json()["error"]["details"]) == (
        422,
        {"field": "server_id"},
    )


async def test_reconnecting_needs_the_right_config_for_all_tenants_and_is_recorded(
    server: RawServer,
) -> None:
    tokens = {
        "caller": file_token(),
        "others": file_token(tenant=None, may={*OperatorRight} - {OperatorRight.CONFIG}),
        "tenant": file_token(may={*OperatorRight}),
        "all": file_token(tenant=None, may={OperatorRight.CONFIG}),
    }
    async with serving(server.entry, **token_settings()) as service:
        with capture_logs() as lines:
            answers = {name: await reconnect(service, token=it) for name, it in tokens.items()}
        no_token = (await service.http.post(f"{SERVERS}/s1/reconnect")).status_code
    statuses = {name: answer.status_code for name, answer in answers.items()}
    assert statuses == {"caller": 403, "others": 403, "tenant": 403, "all": 202}
    used = [line for line in lines if line["event"] == "operator.right_used"]
    assert [(it["right"], it["server_id"], it["code"]) for it in used] == [("config", "s1", "OK")]
    assert no_token == 401


async def test_callers_without_the_right_see_no_server_errors(tmp_path: Path) -> None:
    token = file_token(tenant=None, may={OperatorRight.CONFIG})
    entry = {"command": str(tmp_path / "no_such_program")}
    async with serving(entry, **token_settings()) as service:
        answer = await reconnect(service, token=token)
        full = await reconnect(service)
    assert ("last_error" in answer.json(), str(tmp_path) in answer.text) == (False, False)
    assert "last_error" in full.json()
