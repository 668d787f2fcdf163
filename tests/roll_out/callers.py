"""Callers of several replicas that keep connections open and count how requests end.

This module needs only aiohttp, so it also runs in the gateway's image."""

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
"""Permitted outcomes of a request while replicas are replaced."""

PAUSE_S = 0.05
"""Maximum seconds that a caller pauses between two calls on an open connection."""


class Work(NamedTuple):
    """A tool call, its arguments, and text that the result must contain."""

    tool: str
    arguments: dict[str, object]
    expected: str


class Callers:
    """Calls the replicas until stopped; a call that was not accepted is sent again."""

    def __init__(self, work: Sequence[Work], tenant_id: str) -> None:
        self.replicas: list[str] = []
        """Base URLs for new requests."""
        self.ends: Counter[str] = Counter()
        """Number of requests per outcome."""
        self.calls = 0
        """Calls that have their result."""
        self._work = work
        self._user = {"user_id": "u", "tenant_id": tenant_id}
        self._stopped = False

    @property
    def unexpected(self) -> dict[str, int]:
        """Outcomes that no request may have."""
        return {end: number for end, number in self.ends.items() if end not in EXPECTED}

    def stop(self) -> None:
        """Stop the callers after their current calls."""
        self._stopped = True

    async def run(self, number: int) -> None:
        """Run this number of callers until they are stopped, over one connection pool."""
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
        """Send a request once; return its outcome."""
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
