"""Callers that know several replicas, keep connections open, and count how requests end.

It needs aiohttp and nothing else of ours, so it runs in the image of the gateway as well.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import aiohttp

EXECUTE = "/internal/mcp/execute"
SHUTTING_DOWN = "SHUTTING_DOWN"
REFUSED = "connection refused"
OK = "ok"
EXPECTED = frozenset({OK, SHUTTING_DOWN, REFUSED})
"""How a request may end while replicas are replaced."""

PAUSE_S = 0.05
"""Seconds that a caller pauses at most between two calls, over an open connection."""


class Work(NamedTuple):
    """What a caller calls: a tool, its arguments, and what the result has to hold."""

    tool: str
    arguments: dict[str, object]
    expected: str


class Callers:
    """Call one replica or another until stopped; a call that was not taken is sent again."""

    def __init__(self, work: Sequence[Work], tenant_id: str) -> None:
        self.replicas: list[str] = []
        """Base URLs that a new request may be sent to."""
        self.ends: Counter[str] = Counter()
        """How often a request ended in what."""
        self.calls = 0
        """Calls that have their result."""
        self._work = work
        self._user = {"user_id": "u", "tenant_id": tenant_id}
        self._stopped = False

    @property
    def unexpected(self) -> dict[str, int]:
        """Ends that no request may have."""
        return {end: number for end, number in self.ends.items() if end not in EXPECTED}

    def stop(self) -> None:
        """End the callers after the call that each one makes."""
        self._stopped = True

    async def run(self, number: int) -> None:
        """Run so many callers until they are stopped, over one pool of connections."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as http, asyncio.TaskGroup() as group:
            for _ in range(number):
                group.create_task(self._call_until_stopped(http))

    async def _call_until_stopped(self, http: aiohttp.ClientSession) -> None:
        while not self._stopped:
            work = random.choice(self._work)  # noqa: S311 - no secret
            while (end := await self._send(http, work)) != OK:
                self.ends[end] += 1
                if end not in EXPECTED:
                    break
                await asyncio.sleep(0.01)
            else:
                self.ends[end] += 1
                self.calls += 1
            await asyncio.sleep(random.uniform(0, PAUSE_S))  # noqa: S311 - no secret

    async def _send(self, http: aiohttp.ClientSession, work: Work) -> str:
        """Send a request once, and return how it ended."""
        url = random.choice(self.replicas) + EXECUTE  # noqa: S311 - no secret
        body = {"tool_name": work.tool, "arguments": work.arguments, "user": self._user}
        try:
            async with http.post(url, json=body) as response:
                envelope: dict[str, Any] = await response.json()
        except aiohttp.ClientConnectorError:
            return REFUSED
        except aiohttp.ClientError as error:
            return repr(error)
        if envelope["status"] == OK:
            return (
                OK if work.expected in str(envelope["result"]) else f"wrong result of {work.tool}"
            )
        return str(envelope["error"]["code"])
