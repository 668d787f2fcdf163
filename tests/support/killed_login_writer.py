"""A program that changes a login in a folder and is killed at each step in turn.

Started as ``python -m tests.support.killed_login_writer FOLDER CHANGE…``; each change has its own
folder. Each attempt is a fork that kills itself at the first, second, third … operation on the
folder. After each attempt a line is printed: whether it was killed, and the login's state. The last
attempt of a change completes.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator
from pathlib import Path

from mcp_tools_proxy.storage.logins.file_logins import FileLogins
from tests.support.stored_logins import ANA, BINDING

SEALED, CHANGED = b"before " * 3000, b"after " * 3000


Step = Callable[[], Coroutine[object, object, object]]


def main(folder: Path, change: str) -> None:
    def before() -> Coroutine[object, object, object]:
        return write_before(folder)

    def changed() -> Coroutine[object, object, object]:
        return make(change, folder)

    for was_killed in attempts(folder, before, changed):
        result = {
            "change": change,
            "was_killed": was_killed,
            "found": asyncio.run(found(folder)),
        }
        print(json.dumps(result))  # noqa: T201


def attempts(
    folder: Path, before: Step, change: Step, *, events: Collection[str] = ()
) -> Iterator[bool]:
    """Yield whether each attempt of ``change`` was killed; ``before`` runs before each.

    ``events`` are audit events at which it is killed as well.
    """
    step, status = 0, -1
    while status != 0:
        step += 1
        asyncio.run(before())
        pid = os.fork()
        if pid == 0:
            kill_at(step, folder, events)
            asyncio.run(change())
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert status in (0, signal.SIGKILL), status
        yield status != 0


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
    """Return the login found for a renewal, which waits for no lock of a dead process."""
    async with FileLogins(folder).lease(ANA, wait_s=0) as stored:
        if stored is None:
            return "none"
        known = {(SEALED, False): "before", (CHANGED, False): "put", (CHANGED, True): "replace"}
        return known[stored.sealed, stored.refresh_sent]


def kill_at(step: int, folder: Path, events: Collection[str]) -> None:
    """Kill this process at the ``step``-th event or operation on the folder."""
    done = 0

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal done
        paths = [it for it in arguments if isinstance(it, str | os.PathLike)]
        is_meant = event == "fcntl.flock" or event in events
        if is_meant or any(os.fspath(it).startswith(str(folder)) for it in paths):
            done += 1
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


if __name__ == "__main__":
    for argument in sys.argv[2:]:
        main(Path(sys.argv[1], argument), argument)
