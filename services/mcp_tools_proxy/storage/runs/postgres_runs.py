"""Runs in PostgreSQL, shared by replicas; row-level security limits a transaction to its tenant.

A row is a run and, when its content is erased, its mark. All times are from the clock of the
database.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from mcp_tools_proxy.domain.caller import ANY_TENANT
from mcp_tools_proxy.domain.errors import DocumentsUnavailable, StateUnavailable
from mcp_tools_proxy.policy.runs.run_memory import RunMemory
from mcp_tools_proxy.storage.logins.postgres_logins import Rows, TenantTransactions
from mcp_tools_proxy.storage.runs.run_store import (
    AWAY,
    OPENINGS_S,
    Change,
    RunKey,
    RunLimits,
    RunStore,
    T,
    ended_run,
    no_space,
    too_many_new_runs,
)
from mcp_tools_proxy.storage.runs.shared_runs import RunCipher, UsedRuns

ERASE_S = 60.0
"""Seconds between two removals of the content of idle runs."""

RETRY_S = 3.0
"""Seconds between two attempts while the database fails."""

MAX_ATTEMPTS = 20
"""Attempts to begin a run, while other replicas begin and remove it."""

_FIND = """
SELECT version, content, ends_at > clock_timestamp() AND content IS NOT NULL AS is_open
FROM mcp_tools_proxy.runs WHERE run_key = $1 AND mark_ends_at > clock_timestamp() FOR UPDATE
"""
_UPDATE = """
UPDATE mcp_tools_proxy.runs SET version = version + 1, content = $3,
    ends_at = clock_timestamp() + $4 * interval '1 s',
    mark_ends_at = greatest(mark_ends_at, clock_timestamp() + $5 * interval '1 s')
WHERE run_key = $1 AND version = $2
"""
_LOCK_TENANT = (
    "SELECT pg_advisory_xact_lock(hashtextextended("
    "json_build_array('runs', current_setting('mcp_tools_proxy.tenant'))::text, 0))"
)
"""Serializes the new runs of a tenant, so that several replicas cannot exceed its limits."""
_REMOVE_OLD = "DELETE FROM mcp_tools_proxy.runs WHERE mark_ends_at <= clock_timestamp()"
_COUNTS = """
SELECT count(*) AS all_runs, count(*) FILTER (WHERE is_new) AS new_runs,
    extract(epoch FROM min(began_at) FILTER (WHERE is_new) - clock_timestamp()) AS first_s
FROM (
    SELECT began_at,
        owner_key = $1 AND began_at > clock_timestamp() - $2 * interval '1 s' AS is_new
    FROM mcp_tools_proxy.runs
) AS counted
"""
_INSERT = """
INSERT INTO mcp_tools_proxy.runs
    (tenant_id, run_key, owner_key, version, content, ends_at, mark_ends_at)
VALUES (current_setting('mcp_tools_proxy.tenant'), $1, $2, $3, $4,
    clock_timestamp() + $5 * interval '1 s', clock_timestamp() + $6 * interval '1 s')
ON CONFLICT DO NOTHING RETURNING true
"""
_MARK_LOST = """
INSERT INTO mcp_tools_proxy.runs
    (tenant_id, run_key, owner_key, version, ends_at, mark_ends_at)
VALUES (current_setting('mcp_tools_proxy.tenant'), $1, $2, 0, clock_timestamp(),
    clock_timestamp() + $3 * interval '1 s')
ON CONFLICT (tenant_id, run_key) DO UPDATE
    SET content = NULL, ends_at = excluded.ends_at, mark_ends_at = excluded.mark_ends_at
"""
"""Ends and marks a run that the database has lost, even if another replica began it again."""
_ERASE = "SELECT mcp_tools_proxy.erase_ended_runs()"

log = structlog.get_logger()


class PostgresRunStore(RunStore):
    """Keeps runs in the database of the documents, or in another one with its schema.

    ``run`` erases the content of idle runs; ``close`` closes the database.
    """

    def __init__(
        self,
        database: TenantTransactions,
        cipher: RunCipher,
        limits: RunLimits,
        *,
        close: Callable[[], Awaitable[object]],
        clock: Callable[[], float] = time.monotonic,
        erase_s: float = ERASE_S,
    ) -> None:
        self._database = database
        self._cipher = cipher
        self._limits = limits
        self._kept_s = limits.idle_s + limits.mark_s
        self._close = close
        self._erase_s = erase_s
        self._used = UsedRuns(self._kept_s, clock)
        self._problem: str | None = "the database has not answered yet"

    def __repr__(self) -> str:
        return f"<PostgresRunStore {self._problem or 'up'}>"

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store for readiness."""
        if self._problem is None:
            return {"status": "ok", "store": "postgresql"}
        return {"status": "degraded", "store": "postgresql", "problem": self._problem}

    async def connect(self) -> None:
        """Check that the database has the table of runs."""
        await self._erase()

    async def run(self) -> None:
        """Erase the content of idle runs, and check the database, until cancelled."""
        while True:
            await asyncio.sleep(self._erase_s if self._problem is None else RETRY_S)
            await self._erase()

    async def close(self) -> None:
        """Close the connections."""
        await self._close()

    async def _erase(self) -> None:
        problem = None
        try:
            async with self._database.transaction("") as rows:
                await rows.execute(_ERASE)
        except DocumentsUnavailable as error:
            problem = error.reason or error.message
        if problem == self._problem:
            return
        if problem is not None:
            log.warning("runs.store_down", store="postgresql", reason=problem)
        else:
            log.info("runs.store_up", store="postgresql")
        self._problem = problem

    async def update(self, key: RunKey, change: Change[T], *, may_begin: bool = True) -> T:
        """Change the memory of a run; see RunStore."""
        try:
            async with self._used.turn(key):
                return await self._update(key, change, may_begin=may_begin)
        except DocumentsUnavailable as error:
            raise StateUnavailable(AWAY, reason=error.reason) from error

    async def _update(self, key: RunKey, change: Change[T], *, may_begin: bool) -> T:
        for _ in range(MAX_ATTEMPTS):
            async with self._database.transaction(key.tenant_id or ANY_TENANT) as rows:
                found = await rows.fetchrow(_FIND, key.digest)
                memory = None if found is None else self._memory(key, found)
                version = 0 if found is None else found["version"]
                is_lost = self._used.is_lost(key, memory, version)
                changed: tuple[T, RunMemory] | None = None
                if is_lost:
                    await rows.execute(_MARK_LOST, key.digest, key.owner, self._kept_s)
                elif memory is not None:
                    changed = await self._change(rows, key, version, memory, change)
                elif may_begin:
                    changed = await self._begin(rows, key, change)
                else:
                    raise ended_run()
            if is_lost:
                log.error("runs.run_lost", store="postgresql")
                raise ended_run()
            if changed is not None:
                result, memory = changed
                self._used.add(key, memory, version + 1)
                return result
        raise StateUnavailable(AWAY, reason="other replicas changed the run all the time")

    def _memory(self, key: RunKey, found: Any) -> RunMemory:
        """Return the memory in a row. Raises RunExpired for a mark."""
        if not found["is_open"]:
            raise ended_run()
        return self._cipher.decrypt(found["content"], key, found["version"])

    async def _change(
        self, rows: Rows, key: RunKey, version: int, memory: RunMemory, change: Change[T]
    ) -> tuple[T, RunMemory]:
        """Change the run in a locked row."""
        result = change(memory)
        content = self._cipher.encrypt(memory, key, version + 1)
        seconds = self._limits.idle_s, self._kept_s
        await rows.execute(_UPDATE, key.digest, version, content, *seconds)
        return result, memory

    async def _begin(
        self, rows: Rows, key: RunKey, change: Change[T]
    ) -> tuple[T, RunMemory] | None:
        """Begin a run; return None if another replica has begun it."""
        memory = RunMemory()
        result = change(memory)
        await rows.execute(_LOCK_TENANT)
        await rows.execute(_REMOVE_OLD)
        counts = await rows.fetchrow(_COUNTS, key.owner, OPENINGS_S)
        if counts["new_runs"] >= self._limits.new_runs:
            raise too_many_new_runs(float(counts["first_s"]) + OPENINGS_S)
        if counts["all_runs"] >= self._limits.runs:
            raise no_space()
        content = self._cipher.encrypt(memory, key, 1)
        seconds = self._limits.idle_s, self._kept_s
        inserted = await rows.fetchrow(_INSERT, key.digest, key.owner, 1, content, *seconds)
        return None if inserted is None else (result, memory)
