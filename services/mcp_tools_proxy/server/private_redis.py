"""The Redis that ``serve --workers`` starts for its own workers if none is configured.

It listens on a Unix socket in a folder that only this user can open, and stores nothing on disk.
Servers from mcp.json run as the same user, so it also requires a password, which it reads from its
stdin. ``process_guard`` ends it with the supervisor, even if that is killed.
"""

import asyncio
import fcntl
import os
import re
import secrets
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import structlog

from mcp_tools_proxy.app.workers import redis_program
from mcp_tools_proxy.downstream.mcp_client import process_guard as guard
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable
from mcp_tools_proxy.storage.cache_folder import default_folder, make_private
from mcp_tools_proxy.storage.redis_pool import NEVER_EVICTS

log = structlog.get_logger()

START_S = 10.0
"""Seconds until it listens."""

END_S = 5.0
"""Seconds until it has ended after it was killed."""

MAX_PATH_BYTES = 100
"""Bytes of the socket's path: macOS allows 103, Linux 107."""

MIN_MEMORY_BYTES = 256 * 1024**2
MEMORY_TENANTS = 8
"""Tenants whose outcomes of idempotency keys fit into the memory. The budgets, sessions and
sign-ins of a tenant are small, at most about 2 MB."""

_FOLDER = re.compile("redis-[0-9a-f]{8}")
_SOCKET = "socket"
_POLL_S = 0.02
_OUTPUT_BYTES = 1000


class PrivateRedis:
    """A Redis or Valkey server as a child process.

    Raises ValueError without a program or a folder for it.
    """

    def __init__(self, settings: Settings) -> None:
        self._program = redis_program()
        self._folder = _base_folder(settings) / f"redis-{secrets.token_hex(4)}"
        self._password = secrets.token_hex(32)
        self._memory_bytes = max(MIN_MEMORY_BYTES, MEMORY_TENANTS * settings.idempotency_bytes)
        self._lock: int | None = None
        self._process: Process | None = None
        self._ended: asyncio.Task[int] | None = None
        self._output = b""
        """The end of its output."""

    @property
    def url(self) -> str:
        """The URL for the workers, with the password."""
        return f"unix://:{self._password}@{quote(str(self._folder / _SOCKET))}?db=0"

    async def start(self, tasks: asyncio.TaskGroup) -> str | None:
        """Create its folder and start it; return why that failed. ``tasks`` reads its output."""
        try:
            self._lock = _create_locked(self._folder)
        except OSError as error:
            return f"the private Redis: {self._folder}: {error.strerror}"
        problem = await self.restart(tasks)
        if problem is None:
            log.info("redis.started", program=self._program, memory_bytes=self._memory_bytes)
        return problem

    async def restart(self, tasks: asyncio.TaskGroup) -> str | None:
        """Start it on the same socket and wait until it listens; return why that failed."""
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-S", guard.__file__, str(os.getpid()), "", self._program, "-"),
                stdin=PIPE,
                stdout=PIPE,
                stderr=STDOUT,
                cwd=self._folder,
                env={},  # the gateway's environment contains secrets
                start_new_session=True,
            )
        except OSError as error:
            return f"the private Redis did not start: {error.strerror}"
        self._process = process
        if process.stdin is not None:
            process.stdin.write(self._options())
            process.stdin.close()
        ended = self._ended = tasks.create_task(self._read_output(process))
        try:
            async with asyncio.timeout(START_S):
                while not ended.done():
                    if await self._listens():
                        return None
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            await self._kill()
        lines = self._output.decode(errors="replace").split("\n")
        reason = next((it.strip() for it in reversed(lines) if it.strip()), "it does not listen")
        return f"the private Redis did not start ({self._program}): {reason}"

    async def wait(self) -> int:
        """Wait for its end; return its exit code, or the negative number of a signal."""
        if self._ended is None:
            raise RuntimeError("it was not started")
        return await self._ended

    async def end(self) -> None:
        """Kill it, and remove its folder."""
        await self._kill()
        if self._lock is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._lock)
            self._lock = None

    async def _read_output(self, process: Process) -> int:
        self._output = b""
        while process.stdout is not None and (more := await process.stdout.read(_OUTPUT_BYTES)):
            self._output = (self._output + more)[-_OUTPUT_BYTES:]
        return await process.wait()

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_unix_connection(self._folder / _SOCKET)
        except OSError:
            return False
        writer.close()
        return True

    async def _kill(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            if guard.STAYS:
                self._process.send_signal(guard.END_ALL)
            else:
                os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await self._process.wait()

    def _options(self) -> bytes:
        options = {
            "port": 0,
            "unixsocket": _SOCKET,  # in its working folder
            "unixsocketperm": 700,
            "requirepass": self._password,
            "save": '""',
            "appendonly": "no",
            "databases": 1,
            "maxmemory": self._memory_bytes,
            "maxmemory-policy": NEVER_EVICTS,
            "loglevel": "warning",
        }
        return "".join(f"{name} {value}\n" for name, value in options.items()).encode()


def _base_folder(settings: Settings) -> Path:
    """Return an absolute folder for the folders of private Redis servers. Raises ValueError.

    The system's temporary folder is preferred: the cache may be on a network drive.
    """
    problems = []
    for folder in _base_folders(settings):
        path = folder / "redis-00000000" / _SOCKET
        try:
            if len(os.fsencode(path)) > MAX_PATH_BYTES:
                raise PermissionError(f"{folder}: the path of a socket would be too long")
            make_private(folder)
            if not os.access(folder, os.W_OK):
                raise PermissionError(f"{folder}: is not writable")
        except OSError as error:
            problems.append(str(error))
        else:
            return folder
    raise ValueError(
        f"{variable('cache_dir')}: no folder for the socket of the private Redis: "
        f"{'; '.join(problems) or 'there is no temporary folder'}; set TMPDIR or "
        f"{variable('cache_dir')} to a writable folder with a short path"
    )


def _base_folders(settings: Settings) -> Iterator[Path]:
    with suppress(FileNotFoundError):  # no temporary folder is writable
        yield default_folder().absolute()
    if settings.cache_dir is not None:
        yield settings.cache_dir.absolute()


def _create_locked(folder: Path) -> int:
    """Create a folder and lock it; remove unlocked ones, whose supervisors were killed.

    Returns the descriptor of the lock. Raises OSError.
    """
    of_all = _lock(folder.parent)  # otherwise another start could remove it before it is locked
    try:
        for other in folder.parent.iterdir():
            if _FOLDER.fullmatch(other.name):
                with suppress(OSError):  # its supervisor runs
                    unused = _lock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(other, ignore_errors=True)
                    os.close(unused)
        folder.mkdir(mode=0o700)
        return _lock(folder)
    finally:
        os.close(of_all)


def _lock(folder: Path, how: int = fcntl.LOCK_EX) -> int:
    """Lock a folder until the returned descriptor is closed. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, how)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
