"""Callers as a program for a container; its input is lines of JSON, see ``Command``.

At the end of the input the callers finish their calls, and it prints the outcomes."""

import asyncio
import json
import sys
from typing import TypedDict

import aiohttp

from tests.roll_out.callers import Callers, Work

CALLERS = 12

WORK = (
    Work("notes:search_notes", {"query": "vpn"}, "UDP"),
    Work("read_doc_pages", {"doc_id": "doc_1", "page_start": 1, "page_end": 2}, "LDAP"),
    Work("list_available_tools", {}, "notes:search_notes"),
)


class Command(TypedDict, total=False):
    """Fields of a line: a replica to call after it is ready, or one to stop calling."""

    add: str
    ready_path: str
    remove: str


async def main() -> None:
    """Call until the end of the input; print a line after each command and at the end."""
    callers = Callers(WORK, "tenant_1")
    async with asyncio.TaskGroup() as group:
        calling = False
        while line := await asyncio.to_thread(sys.stdin.readline):
            command: Command = json.loads(line)
            if "add" in command:
                await wait_until_ready(command["add"] + command["ready_path"])
                callers.replicas.append(command["add"])
            else:
                callers.replicas.remove(command["remove"])
            if not calling and callers.replicas:
                group.create_task(callers.run(CALLERS))
                calling = True
            report(calls=callers.calls)
        callers.stop()
    report(calls=callers.calls, ends=callers.ends, unexpected=callers.unexpected)


async def wait_until_ready(url: str) -> None:
    """Wait until a readiness probe succeeds without degraded dependencies.

    On a busy machine the first connection to the server may fail although the probe succeeds."""
    async with aiohttp.ClientSession() as http:
        while True:
            if await is_ready(http, url):
                return
            await asyncio.sleep(0.1)


async def is_ready(http: aiohttp.ClientSession, url: str) -> bool:
    """Return whether a readiness route reports ready and not degraded."""
    try:
        async with http.get(url) as response:
            return bool((await response.json())["status"] == "ready")
    except aiohttp.ClientError:
        return False


def report(**fields: object) -> None:
    """Print a line of JSON immediately."""
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
