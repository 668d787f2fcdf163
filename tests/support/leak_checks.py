"""Counts the tasks, open files and processes of a gateway in this process, to detect leaks."""

import asyncio
import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Self


@dataclass(frozen=True, slots=True)
class ResourcesInUse:
    tasks: int
    open_files: int
    processes: int

    @classmethod
    def now(cls) -> Self:
        return cls(tasks=tasks(), open_files=open_files(), processes=len(children()))

    async def is_not_exceeded(self) -> bool:
        now = self.now()
        return (
            now.tasks <= self.tasks
            and now.open_files <= self.open_files
            and now.processes <= self.processes
        )


def tasks() -> int:
    return sum("RequestHandler" not in repr(task) for task in asyncio.all_tasks())


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def children() -> set[int]:
    return {pid for pid in _pids() if _parent_of(pid) == os.getpid()}


def runs(pid: int) -> bool:
    """Return whether a process runs; zombies do not count."""
    return _parent_of(pid) is not None


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent_of(pid: int) -> int | None:
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else int(parent)


def texts_reachable_from(root: object, *, without: tuple[type, ...] = ()) -> Iterator[str]:
    """Yield every text that an object keeps in memory, except those held by ``without``."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        it = waiting.pop()
        if id(it) in seen or isinstance(it, (ModuleType, type, *without)):
            continue
        seen.add(id(it))
        if isinstance(it, str):
            yield it
        elif isinstance(it, FunctionType):  # not the globals of its module
            waiting += [it.__closure__, it.__defaults__, it.__kwdefaults__]
        else:
            waiting += gc.get_referents(it)
            if isinstance(it, dict):
                waiting += it  # the collector does not visit keys that are texts
