import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import cycle, islice, product

from tests.isolation.witness import (
    SEPARATED,
    CallerIds,
    Seen,
    check_sessions,
    config_of,
    entry_of,
    server_of,
    user_of,
)
from tests.support.configuration import Config, Json, make_preset
from tests.support.leak_checks import ResourcesInUse
from tests.support.service import ACTIVE, CONFIG_DIR, Service, eventually, running

PARALLEL = 32
CALLERS: tuple[CallerIds, ...] = tuple(
    product(("tenant-a", "tenant-b"), ("user-1", "user-2", "user-3"))
)
SERVERS = {"web": "http-legacy", "process": "stdio"}
CHANGES = (("tenant", 10), ("user", 4), ("shared", 10), ("user", 10))
"""Successive values of isolation and maxSessions of the entries."""
CALLS_BETWEEN = 32
CLEAR = {"OK", "TOOL_NOT_ALLOWED", "SERVER_UNAVAILABLE", "SERVER_BUSY", "TOOL_TIMEOUT"}
"""Allowed answers of a call while sessions come and go."""


def config_with(servers: Json, isolation: str, max_sessions: int, number: int) -> Config:
    """Build a configuration whose entries differ for each ``number``."""
    entries = {}
    for name, kind in SERVERS.items():
        entry = entry_of(servers[name], kind, isolation, maxSessions=max_sessions)
        place, prefix = ("env", "CALLER_") if kind == "stdio" else ("headers", "X-")
        marks = {f"{prefix}isolation": isolation, f"{prefix}number": str(number)}
        entries[name] = {**entry, place: {**entry[place], **marks}, "requestTimeoutSeconds": 20}
    config = config_of(entries)
    only_web = make_preset("only_web", tools=[("web", "witness")])
    return Config(servers=entries, presets=[*config.presets, only_web], more=config.more)


class Storm:
    """Callers who continuously call both servers, and their answers."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.seen: list[tuple[str, Seen]] = []
        self.codes: set[str] = set()
        self.calls = 0
        self._is_over = False

    @asynccontextmanager
    async def calling_continuously(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            for caller, server in islice(cycle(product(CALLERS, SERVERS)), PARALLEL):
                tasks.create_task(self._keep_calling(caller, server))
            try:
                yield
            finally:
                self._is_over = True

    async def passes(self, calls: int) -> None:
        """Wait for this many more answers."""
        target = self.calls + calls

        async def reached() -> bool:
            return self.calls >= target

        await eventually(reached)

    async def _keep_calling(self, caller: CallerIds, server: str) -> None:
        while not self._is_over:
            envelope = await self.service.execute(f"{server}:witness", user=user_of(caller))
            self._record(caller, server, envelope)
            self.calls += 1
            await asyncio.sleep(0)  # a refusal does not yield to the event loop

    def _record(self, caller: CallerIds, server: str, envelope: Json) -> None:
        if envelope["status"] != "ok":
            self.codes.add(envelope["error"]["code"])
            assert all(name not in str(envelope) for it in CALLERS for name in it)
            return
        self.codes.add("OK")
        content = envelope["result"]["structured_content"]
        mark = content["headers"].get("x-isolation") or content["environment"]["CALLER_isolation"]
        self.seen.append((server, Seen(mark, caller, content)))


async def test_changes_under_load_mix_up_no_callers_and_leak_nothing() -> None:
    async with server_of("http-legacy") as web, server_of("stdio") as process:
        servers = {"web": web, "process": process}
        calm = config_with(servers, "shared", 10, 0)
        async with running(config=calm) as service:
            held, storm = ResourcesInUse.now(), Storm(service)
            async with storm.calling_continuously():
                for number, (isolation, max_sessions) in enumerate(CHANGES, 1):
                    config_with(servers, isolation, max_sessions, number).write(CONFIG_DIR)
                    await service.gateway.reloader.load()
                    await storm.passes(CALLS_BETWEEN)
                    kill_one(storm)
                    await switch(service, "work" if number % 2 == 0 else "only_web")
                    await storm.passes(CALLS_BETWEEN)
                calm.write(CONFIG_DIR)
                await service.gateway.reloader.load()
                await storm.passes(CALLS_BETWEEN)
            await eventually(held.is_not_exceeded)
    assert {it.isolation for _, it in storm.seen} == set(SEPARATED)
    assert {"OK", "TOOL_NOT_ALLOWED"} <= storm.codes <= CLEAR
    for server, it in storm.seen:
        it.check(SERVERS[server])
    check_sessions(it for _, it in storm.seen)


def kill_one(storm: Storm) -> None:
    """Kill the process that answered last."""
    processes = [it.content["process"] for server, it in storm.seen if server == "process"]
    with suppress(ProcessLookupError):
        os.kill(processes[-1], signal.SIGKILL)


async def switch(service: Service, preset_id: str) -> None:
    choice = {"preset_id": preset_id, "persist": False}
    assert (await service.http.put(ACTIVE, json=choice)).status_code == 200
