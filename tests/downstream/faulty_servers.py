"""A server that tests break and restore over every transport, beside a working one."""

import asyncio
import os
import shlex
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_servers.raw_script import CANCELLED, Options, Script
from tests.support.mcp_servers.raw_tools import BEHAVIOURS
from tests.support.mcp_servers.raw_web import RawServer
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.service import ACTIVE, SERVERS, Envelope, Service, eventually, running

SERVER_KINDS: dict[str, dict[str, Any]] = {
    "stdio": {"transport": "stdio"},
    "http-legacy": {"transport": "http", "era": "legacy"},
    "http-modern": {"transport": "http", "era": "modern"},
    "sse": {"transport": "sse", "era": "legacy"},
    "websocket": {"transport": "ws"},
}
"""Every transport, as options of the raw server."""

SHORT: Json = {"requestTimeoutSeconds": 1.0}
"""For tests that wait for one call to time out while no other call has to end."""
QUICKLY_LEFT: Json = SHORT | {"connectTimeoutSeconds": 2.0}
"""Also the time that a hung server has to respond."""

DEAD = ("SERVER_UNAVAILABLE",)
"""Allowed codes of a call whose server died."""


class Faulty(Protocol):
    """A server that starts dead or alive and keeps its address."""

    @property
    def entry(self) -> Json: ...

    async def start(self) -> None:
        """Start it, or allow the gateway to start it."""
        ...

    async def kill(self) -> None:
        """End it immediately; it stays down until it is started."""
        ...

    async def restart(self) -> None:
        """End it immediately; it is available again on request."""
        ...

    async def freeze(self) -> None:
        """Stop answering but keep connections open."""
        ...

    async def thaw(self) -> None:
        """Answer new messages again."""
        ...

    def seen(self, word: str) -> int:
        """Count requests of a method, runs of a tool, or ``cancelled`` calls."""
        ...


class FaultyWeb:
    """Over the network, in the test's event loop."""

    def __init__(self, options: Json) -> None:
        transport = options.pop("transport")
        self.raw = RawServer(Script(Options(**options)), transport)

    @property
    def entry(self) -> Json:
        return self.raw.entry

    async def start(self) -> None:
        await self.raw.start()

    async def kill(self) -> None:
        await self.raw.stop()

    async def restart(self) -> None:
        await self.raw.restart()

    async def freeze(self) -> None:
        self.raw.script.options.mute = ("*",)

    async def thaw(self) -> None:
        self.raw.script.options.mute = ()

    def seen(self, word: str) -> int:
        script = self.raw.script
        return (
            script.cancelled_count
            if word == CANCELLED
            else script.calls[word] or (script.requests[word])
        )


class FaultyProcess:
    """Over stdio: the gateway starts the process while the file ``alive`` exists."""

    def __init__(self, folder: Path, options: Json) -> None:
        del options["transport"]
        self._alive, self._pid = folder / "alive", folder / "pid"
        self._journal = folder / "journal"
        entry = raw_entry(**options, journal=self._journal)
        command = shlex.join([entry["command"], *entry["args"]])
        script = f"test -e {self._alive} || exit 3; echo $$ > {self._pid}; exec {command}"
        self.entry: Json = {**entry, "command": "/bin/sh", "args": ["-c", script]}

    @property
    def pid(self) -> int:
        """The process started last."""
        return int(self._pid.read_text())

    async def start(self) -> None:
        self._alive.touch()

    async def kill(self) -> None:
        self._alive.unlink(missing_ok=True)
        self._signal(signal.SIGKILL)

    async def restart(self) -> None:
        self._signal(signal.SIGKILL)

    async def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    async def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def seen(self, word: str) -> int:
        with suppress(FileNotFoundError):
            return self._journal.read_text().splitlines().count(word)
        return 0

    def _signal(self, number: signal.Signals) -> None:
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(self.pid, number)


@dataclass(frozen=True, slots=True)
class Scene:
    """A running service with the server ``bad``, and the server ``good`` that never fails."""

    service: Service
    bad: Faulty
    good: RawServer

    async def answers(self) -> bool:
        """Return whether the faulty server answers a call."""
        return await self.call("echo") == "OK"

    async def call(self, tool: str, server: str = "bad", **arguments: object) -> str:
        return await self.service.code(f"{server}:{tool}", arguments)

    async def envelope(self, tool: str, **arguments: object) -> Envelope:
        """Call a tool of the faulty server and return its envelope."""
        return await self.service.execute(f"bad:{tool}", arguments)

    def start(self, tool: str, **arguments: object) -> "asyncio.Future[Envelope]":
        """Start a call of a tool of the faulty server."""
        return asyncio.ensure_future(self.envelope(tool, **arguments))

    async def has_seen(self, word: str, times: int = 1) -> None:
        """Wait until the faulty server has seen this many requests."""
        await eventually(_later(lambda: self.bad.seen(word) >= times))

    async def recovered(self) -> None:
        """Wait until the faulty server is back in service."""
        await eventually(self.answers)

    async def status(self) -> Json:
        """Return the faulty server's line of the servers route."""
        servers = (await self.service.get(SERVERS))["servers"]
        found: Json = next(server for server in servers if server["server_id"] == "bad")
        return found

    async def missing(self) -> set[str]:
        """Return the tools that the preset names and no server offers."""
        missing = (await self.service.get(ACTIVE))["missing"]
        return {f"{item['server_id']}:{item['name']}" for item in missing}


@asynccontextmanager
async def scene(
    kind: str,
    *,
    alive: bool = True,
    entry: Json | None = None,
    tools: Sequence[str] = tuple(BEHAVIOURS),
    **options: Any,
) -> AsyncIterator[Scene]:
    """Run both servers and the service, which shows ``tools`` of both.

    ``entry`` has further keys of the faulty server's entry.
    """
    async with AsyncExitStack() as stack:
        bad = _faulty(SERVER_KINDS[kind] | {"name": "bad"} | options)
        if isinstance(bad, FaultyWeb):
            stack.enter_context(closing(bad.raw))
        await bad.start()
        stack.push_async_callback(bad.kill)
        if not alive:
            await bad.kill()
        good = stack.enter_context(closing(RawServer(Script(Options(name="good")))))
        await good.start()
        stack.push_async_callback(good.stop)
        limits = {
            "requestTimeoutSeconds": BOUND_S,
            "connectTimeoutSeconds": BOUND_S,
        }
        config = Config(
            servers={"bad": {**bad.entry, **limits, **(entry or {})}, "good": good.entry},
            presets=[make_preset(tools=[(s, tool) for s in ("bad", "good") for tool in tools])],
        )
        service = await stack.enter_async_context(running(config=config))
        yield Scene(service, bad, good)


def _faulty(options: Json) -> Faulty:
    if options["transport"] == "stdio":
        return FaultyProcess(Path.cwd(), options)
    return FaultyWeb(options)


def _later(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def served_again() -> bool:
        return condition()

    return served_again
