import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import SERVERS, Service, eventually, running
from tests.support.tokens import bearer

EXPLAIN = "/internal/mcp/explain"
FAILURES = 3
NEVER_S = 3600.0
"""A pause that no test outlives."""

ADMIN = "correct-horse-battery"
USER = {"tenant_id": "tenant_1", "user_id": "u"}
TOOLS = ("hang", "half", "crash", "echo", "is_error", "error", "sleep", "counter")


class Called(NamedTuple):
    """A service in front of a server with a circuit breaker."""

    service: Service
    server: RawServer

    async def code(self, tool: str, arguments: Json | None = None, **of_user: str) -> str:
        user = {**USER, **of_user}
        return await self.service.code(f"s1:{tool}", arguments, user=user)

    async def fail(self, times: int = FAILURES, tenant_id: str = "tenant_1") -> None:
        """Send calls whose answer is cut short."""
        for _ in range(times):
            assert await self.code("half", tenant_id=tenant_id) == "SERVER_UNAVAILABLE"

    async def explanation(self, **of_user: str) -> Any:
        """Explain a call as an operator."""
        body = {"tool_name": "s1:echo", "arguments": {"text": "a"}, "user": {**USER, **of_user}}
        answer = await self.service.http.post(EXPLAIN, json=body, headers=bearer(ADMIN))
        return answer.json()

    async def open_circuits(self) -> float:
        lines = (await self.service.http.get("/metrics")).text.splitlines()
        name = 'mcp_proxy_server_circuits_open{server="s1"} '
        (line,) = [line for line in lines if line.startswith(name)]
        return float(line.removeprefix(name))


@asynccontextmanager
async def calling(
    transport: str = "http", pause_s: float = NEVER_S, **entry: Any
) -> AsyncIterator[Called]:
    async with running_raw(transport) as server:
        own = {
            **server.entry,
            "requestTimeoutSeconds": 60,
            "breakerFailures": FAILURES,
            "breakerPauseSeconds": pause_s,
            **entry,
        }
        preset = make_preset(tools=[("s1", tool) for tool in TOOLS])
        config = Config(servers={"s1": own}, presets=[preset])
        async with running(config=config, admin_token=ADMIN) as service:
            yield Called(service, server)


@pytest.mark.parametrize("transport", ["http", "ws"])
async def test_a_hung_server_is_not_called_again_until_the_pause_is_over(transport: str) -> None:
    async with calling(transport, requestTimeoutSeconds=0.5) as called:
        for _ in range(FAILURES):
            assert await called.code("hang") == "TOOL_TIMEOUT"
        error = (await called.service.execute("s1:echo", {"text": "a"}))["error"]
        assert (error["code"], error["retryable"]) == ("SERVER_UNAVAILABLE", True)
        assert error["retry_after_s"] > 1
        assert called.server.script.calls["echo"] == 0
        assert await called.open_circuits() == 1
        (status,) = (await called.service.get(SERVERS))["servers"]
        assert f"{FAILURES} calls in a row got no answer" in status["last_error"]


async def test_truncated_answers_open_the_circuit_as_well() -> None:
    async with calling() as called:
        for _ in range(FAILURES):
            assert await called.code("half") == "SERVER_UNAVAILABLE"
        assert await called.open_circuits() == 1
        await called.code("counter")
        assert called.server.script.calls["counter"] == 0


async def test_one_call_is_admitted_after_the_pause_and_its_success_closes_the_circuit() -> None:
    async with calling(pause_s=0.05) as called:
        await called.fail()

        async def is_back() -> bool:
            return await called.code("echo", {"text": "a"}) == "OK"

        await eventually(is_back)
        assert await called.open_circuits() == 0
        assert await is_back()
        (status,) = (await called.service.get(SERVERS))["servers"]
        assert status.get("last_error") is None


@pytest.mark.parametrize(
    ("tool", "arguments"), [("is_error", {}), ("error", {"code": -32050}), ("sleep", {})]
)
async def test_errors_of_a_tool_or_of_arguments_never_open_it(tool: str, arguments: Json) -> None:
    async with calling() as called:
        for _ in range(2 * FAILURES):
            assert await called.code(tool, arguments) in ("TOOL_FAILED", "INVALID_ARGUMENTS")
        assert await called.code("echo", {"text": "a"}) == "OK"


async def test_an_answer_between_failures_resets_the_count() -> None:
    async with calling() as called:
        for _ in range(3):
            await called.fail(FAILURES - 1)
            assert await called.code("is_error") == "TOOL_FAILED"
        assert await called.open_circuits() == 0


async def test_each_tenant_has_a_separate_circuit() -> None:
    async with calling(isolation="tenant") as called:
        await called.fail(tenant_id="one")
        assert await called.code("echo", {"text": "a"}, tenant_id="one") == "SERVER_UNAVAILABLE"
        assert await called.code("echo", {"text": "a"}, tenant_id="two") == "OK"
        assert await called.open_circuits() == 1


@pytest.mark.parametrize(("tool", "timeout_s"), [("hang", 2), ("half", 60)])
async def test_one_tenants_unanswered_calls_do_not_affect_other_tenants(
    tool: str, timeout_s: float
) -> None:
    async with calling(requestTimeoutSeconds=timeout_s) as called:
        for _ in range(FAILURES):
            await called.code(tool, tenant_id="one")
        assert await called.code("echo", {"text": "a"}, tenant_id="one") == "SERVER_UNAVAILABLE"
        assert await called.code("echo", {"text": "a"}, tenant_id="two") == "OK"
        assert await called.open_circuits() == 1


@pytest.mark.parametrize("transport", ["ws", "sse"])
async def test_crashing_a_shared_connection_opens_no_other_tenants_circuit(
    transport: str,
) -> None:
    async with calling(transport) as called:
        async with asyncio.TaskGroup() as tasks:
            in_flight = [
                tasks.create_task(called.code("hang", tenant_id="two")) for _ in range(2 * FAILURES)
            ]

            async def all_run() -> bool:
                return called.server.script.calls["hang"] == 2 * FAILURES

            await eventually(all_run)
            await called.code("crash", tenant_id="one")
        assert {it.result() for it in in_flight} == {"SERVER_UNAVAILABLE"}
        assert await called.code("echo", {"text": "a"}, tenant_id="two") == "OK"
        assert await called.open_circuits() == 0


async def test_a_slow_probe_of_one_tenant_delays_no_other_tenant() -> None:
    async with calling(pause_s=0.05, requestTimeoutSeconds=3) as called:
        await called.fail(tenant_id="one")
        async with asyncio.TaskGroup() as tasks:
            for _ in range(FAILURES):
                tasks.create_task(called.code("hang", tenant_id="one"))
            for _ in range(FAILURES):
                assert await called.code("echo", {"text": "a"}, tenant_id="two") == "OK"


async def test_by_default_no_call_is_refused() -> None:
    async with calling(breakerFailures=None) as called:
        await called.fail(2 * FAILURES)
        assert await called.code("echo", {"text": "a"}) == "OK"


@pytest.mark.parametrize("isolation", ["shared", "tenant", "user"])
async def test_an_explanation_reports_the_refusal_of_the_open_circuit(isolation: str) -> None:
    async with calling(isolation=isolation) as called:
        assert (await called.explanation())["decision"] == "pass"
        await called.fail()
        error = (await called.service.execute("s1:echo", {"text": "a"}, user=USER))["error"]
        explained = await called.explanation()
        (check,) = [it for it in explained["checks"] if it["check"] == "server"]
        assert explained["decision"] == check["verdict"] == error["code"] == "SERVER_UNAVAILABLE"
        assert check["message"] == error["message"]
        assert called.server.script.calls["echo"] == 0
        if isolation != "shared":
            other = await called.explanation(tenant_id="another")
            assert other["decision"] == "pass"


async def test_an_explanation_does_not_probe_an_open_circuit() -> None:
    async with calling(pause_s=0.05) as called:
        await called.fail()

        async def is_to_be_probed() -> bool:
            return bool((await called.explanation())["decision"] == "pass")

        await eventually(is_to_be_probed)
        assert await called.open_circuits() == 1
        assert called.server.script.calls["echo"] == 0
        assert await called.code("echo", {"text": "a"}) == "OK"
