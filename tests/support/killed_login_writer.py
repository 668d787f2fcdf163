"""A program that changes a login in a folder, killed at each step of it by turns.

Started as ``python -m tests.support.killed_login_writer FOLDER CHANGE``. Each attempt is a fork
that kills itself when it does its first, second, third … thing to the folder. After each a line is
printed: whether it was killed, and what the login is then. The last attempt ends by itself.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from mcp_tools_proxy.logins.file_logins import FileLogins
from tests.support.stored_logins import ANA, BINDING

SEALED, CHANGED = b"before " * 3000, b"after " * 3000
"""What is written takes more than one page of memory."""


def main(folder: Path, change: str) -> None:
    step, status = 0, -1
    while status != 0:
        step += 1
        asyncio.run(write_before(folder))
        pid = os.fork()
        if pid == 0:
            kill_at(step, folder)
            asyncio.run(make(change, folder))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert status in (0, signal.SIGKILL), status
        print(json.dumps({"was_killed": status != 0, "found": asyncio.run(found(folder))}))  # noqa: T201


async def write_before(folder: Path) -> None:
    await FileLogins(folder).put(ANA, BINDING, SEALED)


async def make(change: str, folder: Path) -> None:
    logins = FileLogins(folder)
    if change == "put":
        await logins.put(ANA, BINDING, CHANGED)
        return
    async with logins.lease(ANA, wait_s=0) as stored:
        assert stored is not None
        if change == "remove":
            await logins.remove(stored)
        else:
            await logins.replace(stored, CHANGED, refresh_sent=True)


async def found(folder: Path) -> str:
    """Return which login is there for a renewal, which waits for no lock of a dead process."""
    async with FileLogins(folder).lease(ANA, wait_s=0) as stored:
        if stored is None:
            return "none"
        known = {(SEALED, False): "before", (CHANGED, False): "put", (CHANGED, True): "replace"}
        return known[stored.sealed, stored.refresh_sent]


def kill_at(step: int, folder: Path) -> None:
    """Kill this process when it does something to the folder for the ``step``-th time."""
    done = 0

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal done
        paths = [it for it in arguments if isinstance(it, str | os.PathLike)]
        if event == "fcntl.flock" or any(os.fspath(it).startswith(str(folder)) for it in paths):
            done += 1
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
