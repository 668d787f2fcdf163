"""Writes by impatient callers to replicas that are killed: none runs twice."""

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.program import UNLIMITED, Program, started
from tests.support.redis_server import running_redis
from tests.support.service import EXECUTE

CALLERS = 24
KILLS = 6
SITUATIONS = ("hung up", "no connection", "replayed")
"""What callers have to meet; on a busy machine that can take more than the planned writes."""

SLOW = {1.5: 40, 6.0: 300}
"""Seconds of a slow write, to 1 in N writes: over the timeout of the caller or the gateway."""

PATIENCE_S = 1.0
FINAL = {"OUTCOME_UNKNOWN", "TOOL_TIMEOUT"}
"""Final codes for a caller; the write may or may not have run."""


class Replicas:
    """Two gateways over one Redis; a killed one is replaced."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self.kills = 0
        self._started = 0
        self._folder = folder
        self._settings = settings
        self._stack = AsyncExitStack()
        self._running: list[Program] = []

    async def __aenter__(self) -> "Replicas":
        await asyncio.gather(self._start(), self._start())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def any_url(self) -> str:
        return f"http://127.0.0.1:{random.choice(self._running).port}"  # noqa: S311 - no secret

    async def replace_one(self) -> None:
        """Kill a replica and start another one."""
        killed = self._running[0]
        killed.process.kill()
        self.kills += 1
        await self._start()
        self._running.remove(killed)

    async def _start(self) -> None:
        self._started += 1
        folder = self._folder / f"replica-{self._started}"
        folder.mkdir()
        entering = self._stack.enter_context
        program = await asyncio.to_thread(entering, started(folder, self._settings))
        await asyncio.to_thread(program.wait_for_server)
        self._running.append(program)


class Callers:
    """Callers that disconnect early, and repeat each write until its outcome is known."""

    def __init__(self, replicas: Replicas, http: aiohttp.ClientSession, writes: int) -> None:
        self.ends: dict[str, str] = {}
        """The outcome of each entry's write: ``ok`` or a code."""
        self.seen: Counter[str] = Counter()
        """Responses of callers: ``replayed``, ``hung up``, ``no connection``, or a code."""
        self._replicas = replicas
        self._http = http
        self._writes = writes
        self._numbers = count()

    @property
    def seen_all(self) -> bool:
        return all(self.seen[it] for it in SITUATIONS)

    async def run(self) -> None:
        for number in self._numbers:
            if number >= self._writes * (1 if self.seen_all else 4):
                return
            entry = f"entry-{number}"
            seconds = next((s for s, each in SLOW.items() if number % each == 7), 0)
            arguments: dict[str, object] = {"entry": entry, "seconds": seconds}
            while entry not in self.ends:
                end = await self._try(entry, arguments)
                if end is not None:
                    self.ends[entry] = end

    async def _try(self, entry: str, arguments: dict[str, object]) -> str | None:
        """Send a write once; return its outcome, or None if it has to be repeated."""
        body = {
            "tool_name": "s1:write",
            "arguments": arguments,
            "user": {"user_id": "u", "tenant_id": "t"},
            "idempotency_key": entry,
        }
        patience = aiohttp.ClientTimeout(total=PATIENCE_S)
        try:
            async with self._http.post(
                self._replicas.any_url + EXECUTE, json=body, timeout=patience
            ) as response:
                envelope: dict[str, Any] = await response.json()
        except TimeoutError:
            self.seen["hung up"] += 1
            return None
        except (aiohttp.ClientError, OSError):
            self.seen["no connection"] += 1
            await asyncio.sleep(0.02)
            return None
        if "replayed" in envelope:
            self.seen["replayed"] += 1
        if envelope["status"] == "ok":
            assert envelope["result"]["content"][0]["text"] == entry
            return "ok"
        error = envelope["error"]
        self.seen[error["code"]] += 1
        assert error.get("retryable") or error["code"] in FINAL, error
        return None if error.get("retryable") else str(error["code"])


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize("writes", [600, pytest.param(2_000, marks=pytest.mark.full)])
async def test_no_write_runs_twice(tmp_path: Path, writes: int) -> None:
    async with running_raw() as server:
        with running_redis(tmp_path) as redis:
            settings = settings_of(server, redis.url, tmp_path)
            async with Replicas(tmp_path, settings) as replicas, aiohttp.ClientSession() as http:
                callers = Callers(replicas, http, writes)
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(callers.run()) for _ in range(CALLERS)]
                    while not all(task.done() for task in tasks):
                        if len(callers.ends) >= writes // KILLS * (replicas.kills + 1):
                            await replicas.replace_one()
                        await asyncio.sleep(0.05)
        written, ends = server.script.written, callers.ends

    assert len(ends) >= writes
    assert [entry for entry, times in written.items() if times > 1] == []
    assert [entry for entry, end in ends.items() if end == "ok" and not written[entry]] == []
    assert set(ends.values()) <= {"ok", *FINAL}
    assert replicas.kills >= KILLS - 1
    assert callers.seen_all, callers.seen


def settings_of(server: RawServer, redis_url: str, folder: Path) -> dict[str, str]:
    entry = {**server.entry, "requestTimeoutSeconds": 3}
    config = Config(servers={"s1": entry}, presets=[make_preset(tools=[("s1", "write")])])
    config.write(folder / "config")
    return {
        **UNLIMITED,
        "MCP_PROXY_CONFIG_DIR": str(folder / "config"),
        "MCP_PROXY_STATE_URL": redis_url,
        "MCP_PROXY_STATE_KEY": "a secret of at least 32 characters",
        "MCP_PROXY_LOG_LEVEL": "error",
    }
