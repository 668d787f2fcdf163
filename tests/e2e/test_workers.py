"""``serve --workers 2``: one service in two processes over one Redis."""

import asyncio
import json
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from mcp_tools_proxy.server.supervisor import HUNG_S, PING_S
from tests.roll_out.callers import Callers, Work
from tests.support.bounds import BOUND_S, until
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_endpoint import BOTH, ENVELOPE, INITIALIZE, LEGACY, MODERN
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.plain_http import NO_TLS
from tests.support.program import UNLIMITED, Program, started, wait_until
from tests.support.program_launch import run
from tests.support.redis_server import RedisServer, running_redis
from tests.support.remote_backend.backend import running_backend
from tests.support.remote_backend.handshakes import TOKEN
from tests.support.service import EXECUTE, REMOTE, SERVERS

T = TypeVar("T")

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

ADMIN = {"Authorization": "Bearer an-admin-token-of-the-test"}
TOOLS = ("echo", "hold", "sleep")
FRESH = 12
"""Requests over connections of their own: both workers get some of them, almost certainly."""

WORK = (
    Work("s1:echo", {"text": "hello"}, "hello"),
    Work("s1:sleep", {"seconds": 0.2}, "slept"),
    Work("read_doc_pages", {"doc_id": "doc_1", "page_start": 1, "page_end": 2}, "LDAP"),
)
METADATA = {"tool_name": "read_doc_metadata", "arguments": {"doc_id": "doc_1"}}


@contextmanager
def two_workers(
    folder: Path, redis_url: str, servers: Mapping[str, Json] | None = None, **settings: str
) -> Iterator[Program]:
    """Start a service; its configuration has the presets ``work`` (all of TOOLS) and ``less``."""
    presets = [
        make_preset(tools=[("s1", name) for name in TOOLS]),
        make_preset("less", tools=[("s1", "echo")]),
    ]
    Config(servers=servers or {}, presets=presets, more={"defaultPresetId": "work"}).write(
        folder / "config"
    )
    environment = {
        **UNLIMITED,
        "MCP_PROXY_RATE_LIMIT_TENANT_CALLS": "1000000",  # Redis counts each call
        "MCP_PROXY_CONFIG_DIR": str(folder / "config"),
        "MCP_PROXY_RATE_LIMIT_STORAGE_URL": redis_url,
        "MCP_PROXY_STATE_KEY": "a secret of at least 32 characters",
        "MCP_PROXY_ADMIN_TOKEN": "an-admin-token-of-the-test",
        "MCP_PROXY_WORKERS": "2",
        **settings,
    }
    with started(folder, environment, fresh=True) as program:
        wait_until(lambda: '"service.workers"' in program.log.read_text())
        yield program


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(tmp_path) as server:
        yield server


@asynccontextmanager
async def with_server(
    folder: Path, redis: RedisServer, **settings: str
) -> AsyncIterator[tuple[Program, RawServer]]:
    async with running_raw() as server:
        starting = two_workers(folder, redis.url, {"s1": server.entry}, **settings)
        program = await asyncio.to_thread(starting.__enter__)
        try:
            await until(lambda: all_workers_see_the_server(program))
            yield program, server
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)


def all_workers_see_the_server(program: Program) -> bool:
    return all(request(program, "GET", SERVERS)["servers"][0]["state"] == "ready" for _ in range(4))


def request(program: Program, method: str, path: str, **more: Any) -> Any:
    """Send a request over a new connection, and return the JSON of the answer."""
    url = f"http://127.0.0.1:{program.port}{path}"
    headers = {**ADMIN, **more.pop("headers", {})}
    response = httpx.request(
        method, url, headers=headers, timeout=BOUND_S, verify=NO_TLS, trust_env=False, **more
    )
    return response.json() if response.content else None


def call(program: Program, tool: str, arguments: Json, **user: str) -> Json:
    body = {
        "tool_name": tool,
        "arguments": arguments,
        "user": {"user_id": "u", "tenant_id": "tenant_1", **user},
    }
    answer: Json = request(program, "POST", EXECUTE, json=body, headers={"Authorization": ""})
    return answer


def code_of(answer: Json) -> str:
    return "OK" if answer["status"] == "ok" else str(answer["error"]["code"])


def children(process_id: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{process_id}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that ended meanwhile
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


def is_running(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def total_of(program: Program, metric: str) -> float:
    url = f"http://127.0.0.1:{program.port}/metrics"
    text = httpx.get(url, timeout=BOUND_S, verify=NO_TLS, trust_env=False).text
    lines = re.findall(rf"^{metric}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, lines))


async def at_once(number: int, send: Callable[..., T], *arguments: object) -> list[T]:
    """Run a blocking function several times in parallel."""
    with ThreadPoolExecutor(number) as threads:
        loop = asyncio.get_running_loop()
        running = [loop.run_in_executor(threads, send, *arguments) for _ in range(number)]
        return await asyncio.gather(*running)


async def test_both_workers_together_admit_exactly_the_limit(
    tmp_path: Path, redis: RedisServer
) -> None:
    settings = {"MCP_PROXY_RATE_LIMIT_CALLS": "30", "MCP_PROXY_AUDIT": "file:audit/{worker}.jsonl"}
    with two_workers(tmp_path, redis.url, None, **settings) as program:
        answers = await at_once(90, call, program, "read_doc_metadata", {"doc_id": "doc_1"})
        assert Counter(map(code_of, answers)) == {"OK": 30, "RATE_LIMIT_EXCEEDED": 60}
        assert total_of(program, "mcp_proxy_calls_total") == 90
        assert program.stop() == -signal.SIGTERM
    calls = [
        sum('"tool.call"' in line for line in file.read_text().splitlines())
        for file in (tmp_path / "audit").glob("[12].jsonl")
    ]
    assert sum(calls) == 90
    assert min(calls) > 0, "each worker has a file of its own"


async def test_the_totals_of_a_killed_worker_are_not_lost(
    tmp_path: Path, redis: RedisServer
) -> None:
    with two_workers(tmp_path, redis.url) as program:
        for _ in range(FRESH):
            call(program, "read_doc_metadata", {"doc_id": "doc_1"})
        assert total_of(program, "mcp_proxy_calls_total") == FRESH
        for _ in range(3):  # also of those that took over the totals of others
            worker = children(program.process.pid)[0]
            os.kill(worker, signal.SIGKILL)
            await until(partial(is_replaced, program, worker))
            assert total_of(program, "mcp_proxy_calls_total") == FRESH
        answer = call(program, "read_doc_metadata", {"doc_id": "doc_1"})
        assert code_of(answer) == "OK"
        program.stop()
    exits = [line for line in program.log_lines() if line["event"] == "worker.exited"]
    assert [line["payload"]["signal"] for line in exits] == ["SIGKILL"] * 3


def is_whole(program: Program) -> bool:
    return running_workers(program) == 2


def running_workers(program: Program) -> int:
    """Return the number of workers that readiness reports; 0 if the one asked is killed."""
    try:
        answer = request(program, "GET", "/health/ready")
    except httpx.TransportError:
        return 0
    return int(answer["checks"]["workers"]["running"])


async def test_a_change_by_an_operator_reaches_both_workers_at_once(
    tmp_path: Path, redis: RedisServer
) -> None:
    tokens = tmp_path / "tokens.jsonl"
    tokens.touch()
    async with with_server(
        tmp_path, redis, MCP_PROXY_AUTH_MODE="token", MCP_PROXY_TOKENS_FILE=str(tokens)
    ) as (program, _):
        for preset in ("less", "work", "less"):
            body = {"preset_id": preset, "persist": preset == "work"}
            request(program, "PUT", "/internal/mcp/presets/active", json=body)
            seen = [request(program, "GET", "/internal/mcp/presets") for _ in range(FRESH)]
            assert {it["active"] for it in seen} == {preset}

        request(program, "PUT", "/internal/mcp/log-level", json={"level": "warning"})
        levels = [request(program, "GET", "/internal/mcp/log-level") for _ in range(FRESH)]
        assert {it["level"] for it in levels} == {"warning"}

        wanted = {"tenant_id": "tenant_1", "user_id": "ann"}
        created = request(program, "POST", "/internal/mcp/tokens", json=wanted)
        headers = {"Authorization": f"Bearer {created['token']}"}

        def codes_of_calls() -> set[str]:
            answers = (
                request(program, "POST", EXECUTE, json=METADATA, headers=headers)
                for _ in range(FRESH)
            )
            return {code_of(it) for it in answers}

        assert codes_of_calls() == {"OK"}
        request(program, "DELETE", "/internal/mcp/tokens", params={"token_id": created["id"]})
        assert codes_of_calls() == {"UNAUTHENTICATED"}


async def test_a_document_and_its_readers_are_the_same_in_both_workers(
    tmp_path: Path, redis: RedisServer
) -> None:
    (tmp_path / "documents").mkdir()
    with two_workers(tmp_path, redis.url) as program:
        place = {"tenant_id": "acme", "doc_id": "plan"}

        def read(**user: str) -> set[str]:
            answers = [
                call(program, "read_doc_metadata", {"doc_id": "plan"}, **user) for _ in range(FRESH)
            ]
            return {code_of(it) for it in answers}

        for number in range(3):
            headers = {"Content-Type": "text/markdown", **match_of(program, place)}
            put = request(
                program,
                "PUT",
                "/internal/documents/content",
                params=place,
                content=f"# Plan {number}\n\nText.",
                headers=headers,
            )
            assert "error" not in put, put
            assert read(tenant_id="acme") == {"OK"}
            assert read(tenant_id="other") == {"ACCESS_DENIED"}
        rights = request(
            program,
            "PUT",
            "/internal/documents/rights",
            params=place,
            json={"readers": {"users": ["ann"], "roles": []}},
            headers={"If-Match": "*"},
        )
        assert "error" not in rights, rights
        assert read(tenant_id="acme") == {"ACCESS_DENIED"}
        assert read(tenant_id="acme", user_id="ann") == {"OK"}


def match_of(program: Program, place: Json) -> dict[str, str]:
    known = request(program, "GET", "/internal/documents", params={"tenant_id": "acme"})
    return {"If-Match": "*"} if known["documents"] else {"If-None-Match": "*"}


async def test_workers_are_replaced_under_load_without_a_lost_call(
    tmp_path: Path, redis: RedisServer
) -> None:
    callers = Callers(WORK, "tenant_1")
    async with with_server(tmp_path, redis, MCP_PROXY_LOG_LEVEL="info") as (program, _):
        callers.replicas = [f"http://127.0.0.1:{program.port}"]
        async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
            group.create_task(callers.run(8))
            await under_load(callers)
            before = set(children(program.process.pid))
            program.process.send_signal(signal.SIGHUP)
            await all_replaced(program, 1)
            after = set(children(program.process.pid))
            assert (len(after), before & after) == (2, set())
            callers.stop()
        assert callers.ends.keys() == {"ok"}


async def under_load(callers: Callers) -> None:
    done = callers.calls
    await until(lambda: callers.calls >= done + 100)


async def all_replaced(program: Program, times: int) -> None:
    event = '"service.replaced_workers"'
    await until(lambda: program.log.read_text().count(event) == times)


async def test_a_killed_worker_costs_its_calls_only(tmp_path: Path, redis: RedisServer) -> None:
    async with with_server(tmp_path, redis) as (program, server), asyncio.TaskGroup() as tasks:
        calls = tasks.create_task(at_once(FRESH, outcome, program, "s1:hold", {}))
        await until(lambda: in_flight(program) == FRESH)
        worker = children(program.process.pid)[0]
        os.kill(worker, signal.SIGKILL)
        server.script.released.set()
        assert {*await calls} <= {"OK", "lost"}
        await until(partial(is_replaced, program, worker))
        assert {*await at_once(FRESH, outcome, program, "s1:echo", {"text": "x"})} == {"OK"}


def in_flight(program: Program) -> float:
    return total_of(program, "mcp_proxy_calls_in_flight")


def outcome(program: Program, tool: str, arguments: Json) -> str:
    try:
        return code_of(call(program, tool, arguments))
    except httpx.TransportError:
        return "lost"


async def test_without_its_supervisor_a_service_ends(tmp_path: Path, redis: RedisServer) -> None:
    async with with_server(tmp_path, redis) as (program, server), asyncio.TaskGroup() as tasks:
        workers = children(program.process.pid)
        slow = tasks.create_task(at_once(1, outcome, program, "s1:hold", {}))
        await until(lambda: in_flight(program) == 1)
        program.process.kill()
        server.script.released.set()
        assert await slow == ["OK"]
        await until(lambda: not any(map(is_running, workers)))


async def test_a_stop_waits_for_calls_and_refuses_new_ones_in_both_workers(
    tmp_path: Path, redis: RedisServer
) -> None:
    settings = {"MCP_PROXY_SHUTDOWN_GRACE_S": str(BOUND_S)}
    async with (
        with_server(tmp_path, redis, **settings) as (program, server),
        asyncio.TaskGroup() as tasks,
    ):
        slow = tasks.create_task(at_once(1, outcome, program, "s1:hold", {}))
        await until(lambda: in_flight(program) == 1)
        program.process.send_signal(signal.SIGTERM)
        local = ("read_doc_metadata", {"doc_id": "doc_1"})
        await until(lambda: outcome(program, *local) == "SHUTTING_DOWN")
        refused = [outcome(program, *local) for _ in range(FRESH)]
        server.script.released.set()
        assert await slow == ["OK"]
        assert {*refused} <= {"SHUTTING_DOWN", "lost"}
        assert await asyncio.to_thread(program.process.wait, BOUND_S) == -signal.SIGTERM


async def test_calls_go_on_while_redis_is_gone(tmp_path: Path, redis: RedisServer) -> None:
    with two_workers(tmp_path, redis.url) as program:
        redis.stop()
        codes = [outcome(program, "read_doc_metadata", {"doc_id": "doc_1"}) for _ in range(FRESH)]
        assert {*codes} == {"OK"}
        store = request(program, "GET", "/health/ready")["checks"]["limit_store"]
        assert store["status"] == "degraded"
        redis.start()
        await until(
            lambda: (
                request(program, "GET", "/health/ready")["checks"]["limit_store"]["status"] == "ok"
            )
        )


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_an_mcp_client_reaches_any_worker(
    tmp_path: Path, redis: RedisServer, version: str
) -> None:
    async with with_server(tmp_path, redis) as (program, _):
        headers = {**BOTH, "X-Tenant-Id": "tenant_1", "Authorization": ""}
        if version == LEGACY:
            session = await asyncio.to_thread(open_session, program, headers)
            headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
        else:
            headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}
        answers = [rpc(program, headers, "tools/list", version) for _ in range(FRESH)]
        lists = [[it["name"] for it in answer["result"]["tools"]] for answer in answers]
        assert all("s1_echo" in names or "s1:echo" in names for names in lists), lists
        if version == LEGACY:
            await asyncio.to_thread(request, program, "DELETE", "/mcp", headers=headers)
            await until(lambda: has_ended(program, headers))


def has_ended(program: Program, headers: dict[str, str]) -> bool:
    answers = (rpc(program, headers, "tools/list", LEGACY) for _ in range(FRESH))
    return all("error" in answer for answer in answers)


def open_session(program: Program, headers: dict[str, str]) -> str:
    response = httpx.post(
        f"http://127.0.0.1:{program.port}/mcp",
        headers=headers,
        json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE},
        verify=NO_TLS,
        timeout=BOUND_S,
    )
    return response.headers["Mcp-Session-Id"]


def rpc(program: Program, headers: dict[str, str], method: str, version: str) -> Json:
    params = {"_meta": ENVELOPE} if version == MODERN else {}
    response = httpx.post(
        f"http://127.0.0.1:{program.port}/mcp",
        headers=headers,
        json={"jsonrpc": "2.0", "id": 2, "method": method, "params": params},
        verify=NO_TLS,
        timeout=BOUND_S,
    )
    text = response.text
    if text.startswith(("event:", "data:", ":")):
        text = text.partition("data:")[2].partition("\n")[0]
    answer: Json = json.loads(text)
    return answer


async def test_a_stream_at_one_worker_reports_a_change_at_another(
    tmp_path: Path, redis: RedisServer
) -> None:
    async with with_server(tmp_path, redis) as (program, _):
        headers = {**BOTH, "X-Tenant-Id": "tenant_1"}
        session = await asyncio.to_thread(open_session, program, headers)
        headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
        url = f"http://127.0.0.1:{program.port}/mcp"
        async with (
            httpx.AsyncClient(verify=NO_TLS, timeout=BOUND_S) as http,
            http.stream("GET", url, headers=headers) as stream,
        ):
            assert stream.status_code == 200
            lines = stream.aiter_lines()
            for preset in ("less", "work"):
                body = {"preset_id": preset, "persist": False}
                await asyncio.to_thread(
                    request, program, "PUT", "/internal/mcp/presets/active", json=body
                )
                async for line in lines:
                    if "notifications/tools/list_changed" in line:
                        break


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"MCP_PROXY_AUDIT": "file:audit.jsonl"}, "MCP_PROXY_AUDIT"),
        ({"MCP_PROXY_WORKERS": "200"}, "maxCallsInFlight"),
        ({"MCP_PROXY_WORKERS": "none"}, "MCP_PROXY_WORKERS"),
        ({"MCP_PROXY_WORKERS": "0"}, "MCP_PROXY_WORKERS"),
        ({"MCP_PROXY_WORKERS": "257"}, "MCP_PROXY_WORKERS"),
    ],
)
def test_settings_that_several_workers_cannot_have_stop_the_start(
    tmp_path: Path, redis: RedisServer, settings: dict[str, str], problem: str
) -> None:
    entry = {"url": "http://127.0.0.1:1/mcp"}
    Config(servers={"s1": entry}).write(tmp_path / "config")
    environment = {
        "MCP_PROXY_RATE_LIMIT_STORAGE_URL": redis.url,
        "MCP_PROXY_WORKERS": "2",
        **settings,
    }
    code, _, complaint = run(tmp_path, "serve", "--port", "0", fresh=False, **environment)
    assert (code, problem in complaint) == (2, True), complaint
    code, report, complaint = run(tmp_path, "check", "--offline", fresh=False, **environment)
    assert (code > 0, problem in report + complaint) == (True, True), report


@pytest.mark.parametrize("number", ["0", "257", "-1", "two"])
def test_an_option_with_a_wrong_number_of_workers_is_refused(tmp_path: Path, number: str) -> None:
    code, _, complaint = run(tmp_path, "serve", "--port", "0", f"--workers={number}")
    assert (code, "from 1 to 256" in complaint) == (2, True), complaint


async def test_a_legacy_client_posts_to_any_worker(tmp_path: Path, redis: RedisServer) -> None:
    with two_workers(tmp_path, redis.url) as program:
        url = f"http://127.0.0.1:{program.port}"
        headers = {"X-Tenant-Id": "tenant_1"}
        async with (
            httpx.AsyncClient(verify=NO_TLS, timeout=BOUND_S) as http,
            http.stream("GET", f"{url}/mcp/sse", headers=headers) as stream,
        ):
            data = (it.partition(": ")[2] async for it in stream.aiter_lines() if ": " in it)
            assert await anext(data) == "endpoint"
            address = url + await anext(data)

            def post(number: int, tenant: str = "tenant_1") -> int:
                """Post a message over a new connection; return the status."""
                body = {"jsonrpc": "2.0", "id": number, "method": "ping"}
                sent_by = {"X-Tenant-Id": tenant}
                return httpx.post(address, json=body, headers=sent_by, verify=NO_TLS).status_code

            assert {post(number) for number in range(FRESH)} == {202}
            answered = [json.loads(it)["id"] async for it in first(2 * FRESH, data) if it[0] == "{"]
            assert sorted(answered) == [*range(FRESH)]
            assert {post(number, "tenant_2") for number in range(FRESH)} == {404}


async def first(count: int, items: AsyncIterator[str]) -> AsyncIterator[str]:
    for _ in range(count):
        yield await anext(items)


async def test_one_worker_holds_the_link_to_the_backend(tmp_path: Path, redis: RedisServer) -> None:
    async with running_backend() as backend:
        starting = two_workers(
            tmp_path,
            redis.url,
            MCP_PROXY_REMOTE_URL=backend.url,
            MCP_PROXY_REMOTE_TOKEN=TOKEN,
        )
        program = await asyncio.to_thread(starting.__enter__)
        try:
            await backend.connected()
            await until(lambda: states_of_link(program) == {"online"})
            assert len(backend.handshakes) == 1
            program.process.send_signal(signal.SIGHUP)
            await all_replaced(program, 1)
            await backend.connected()
            await until(lambda: states_of_link(program) == {"online"})
            assert len(backend.handshakes) == 2
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)


def states_of_link(program: Program) -> set[str]:
    return {request(program, "GET", REMOTE)["state"] for _ in range(FRESH)}


async def test_the_number_of_workers_is_right_after_kills_during_a_replacement(
    tmp_path: Path, redis: RedisServer
) -> None:
    async with with_server(tmp_path, redis) as (program, server), asyncio.TaskGroup() as tasks:
        first = children(program.process.pid)
        calls = tasks.create_task(at_once(4, outcome, program, "s1:hold", {}))
        await until(lambda: in_flight(program) == 4)
        program.process.send_signal(signal.SIGHUP)
        await until(lambda: running_workers(program) == 3)
        # one that is new, and one that is old and whose turn comes later
        (new,) = {*children(program.process.pid)} - {*first}
        os.kill(new, signal.SIGKILL)
        os.kill(first[-1], signal.SIGKILL)
        server.script.released.set()
        assert {*await calls} <= {"OK", "lost"}
        await until(lambda: has_two_new_workers(program, first))
        before = children(program.process.pid)
        program.process.send_signal(signal.SIGHUP)
        await until(lambda: has_two_new_workers(program, before))


def has_two_new_workers(program: Program, before: Sequence[int]) -> bool:
    now = children(program.process.pid)
    return len(now) == 2 and not {*now} & {*before} and is_whole(program)


async def test_totals_never_fall(tmp_path: Path, redis: RedisServer) -> None:
    with two_workers(tmp_path, redis.url) as program:
        for _ in range(FRESH):
            call(program, "read_doc_metadata", {"doc_id": "doc_1"})
        assert total_of(program, "mcp_proxy_calls_total") == FRESH
        stops = (signal.SIGTERM, signal.SIGKILL)
        for stop, worker in zip(stops, children(program.process.pid), strict=True):
            os.kill(worker, stop)  # both without a scrape in between
            await until(partial(is_replaced, program, worker))
        assert total_of(program, "mcp_proxy_calls_total") == FRESH
        program.process.send_signal(signal.SIGHUP)
        totals = set()
        while '"service.replaced_workers"' not in program.log.read_text():
            totals.add(total_of(program, "mcp_proxy_calls_total"))
            await asyncio.sleep(0.1)
        assert totals == {FRESH}


def is_replaced(program: Program, worker: int) -> bool:
    """Return whether the supervisor has noticed that a worker ended, and has another one."""
    return worker not in children(program.process.pid) and is_whole(program)


@pytest.mark.full  # it takes 45 s
async def test_a_pause_of_the_supervisor_costs_no_worker(
    tmp_path: Path, redis: RedisServer
) -> None:
    with two_workers(tmp_path, redis.url) as program:
        before = children(program.process.pid)
        program.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(HUNG_S + PING_S)
        program.process.send_signal(signal.SIGCONT)
        await asyncio.sleep(2 * PING_S)
        assert children(program.process.pid) == before
        assert is_whole(program)
