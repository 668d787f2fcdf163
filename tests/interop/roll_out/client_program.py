import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.bounds import BOUND_S

Json = dict[str, Any]


class ClientProgram:
    def __init__(self, process: Process) -> None:
        self.tools: dict[str, set[str]] = {}
        """By client, the tools of the last list that it received."""
        self.ends: list[Json] = []
        """The number of calls of each client, and the failed ones."""
        self._process = process

    async def read(self) -> None:
        """Read its lines until it ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            report = json.loads(line)
            if "tools" in report:
                self.tools[report["client"]] = {
                    name.removeprefix("s1:") for name in report["tools"] if ":" in name
                }
            else:
                self.ends.append(report)

    async def stop(self) -> int:
        """End the clients after their call, and return the program's exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return await asyncio.wait_for(self._process.wait(), BOUND_S)


@asynccontextmanager
async def running_clients(
    command: Sequence[str | Path], url: str, number: int, kind: str
) -> AsyncIterator[ClientProgram]:
    """Run a program with this many clients, until the test ends or stops it."""
    process = await asyncio.create_subprocess_exec(
        *command, url, str(number), kind, stdin=PIPE, stdout=PIPE
    )
    program = ClientProgram(process)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(program.read())
            yield program
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
