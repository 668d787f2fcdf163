"""Parts of the stores of runs that several processes share: encryption, and detection of losses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from mcp_tools_proxy.domain.errors import StateUnavailable
from mcp_tools_proxy.policy.runs.run_memory import RunMemory
from mcp_tools_proxy.storage.record_cipher import RecordCipher
from mcp_tools_proxy.storage.runs.run_store import AWAY, RunKey

log = structlog.get_logger()


class RunCipher:
    """Encrypts the memory of runs, bound to key and version.

    A stored memory cannot be moved to another run or given another version.
    """

    def __init__(self, cipher: RecordCipher) -> None:
        self._cipher = cipher

    def encrypt(self, memory: RunMemory, key: RunKey, version: int) -> bytes:
        """Return an encrypted memory."""
        return self._cipher.encrypt(memory.encode(), _bound_to(key, version))

    def decrypt(self, content: bytes, key: RunKey, version: int) -> RunMemory:
        """Return the memory of a run. Raises StateUnavailable if it is unreadable."""
        decrypted = self._cipher.decrypt(content, _bound_to(key, version))
        problem = "no key of MCP_PROXY_STATE_KEY decrypts it"
        if decrypted is not None:
            try:
                return RunMemory.decode(decrypted)
            except ValueError as error:
                problem = str(error)
        log.error("runs.run_unreadable", reason=problem)
        raise StateUnavailable(AWAY, reason=f"the run is unreadable: {problem}")


def _bound_to(key: RunKey, version: int) -> bytes:
    return b"run:%b:%d" % (key.digest, version)


MAX_USED_RUNS = 50_000


class UsedRuns:
    """Runs that this process has used, of a store that several processes share.

    Their updates wait for each other here: the calls of a batch would conflict in the store. A run
    that the store has lost is noticed, even if another replica began it again, and so is an older
    version, as of a Redis that restarts from a copy. ``kept_s`` are the seconds of a run with its
    mark; the longest unused of more than ``MAX_USED_RUNS`` are forgotten.
    """

    def __init__(self, kept_s: float, clock: Callable[[], float]) -> None:
        self._kept_s = kept_s
        self._clock = clock
        self._known: dict[bytes, tuple[float, bytes, int]] = {}
        """By digest: the end of the mark, the key of the memory, and its version."""
        self._turns: dict[bytes, tuple[asyncio.Lock, list[None]]] = {}

    @asynccontextmanager
    async def turn(self, key: RunKey) -> AsyncIterator[None]:
        """Wait for the earlier updates of a run."""
        lock, waiting = self._turns.setdefault(key.digest, (asyncio.Lock(), []))
        waiting.append(None)
        try:
            async with lock:
                yield
        finally:
            waiting.pop()
            if not waiting:
                del self._turns[key.digest]

    def add(self, key: RunKey, memory: RunMemory, version: int) -> None:
        """Remember a version of a run until its mark ends."""
        self._known.pop(key.digest, None)
        self._known[key.digest] = (self._clock() + self._kept_s, memory.key, version)
        if len(self._known) > MAX_USED_RUNS:
            del self._known[next(iter(self._known))]

    def is_lost(self, key: RunKey, found: RunMemory | None, version: int = 0) -> bool:
        """Return whether the store has lost a run or its last changes.

        It found none without a mark, another one, or an older version.
        """
        ends_at, memory_key, known = self._known.get(key.digest, (0.0, b"", 0))
        return ends_at > self._clock() and (
            found is None or found.key != memory_key or version < known
        )
