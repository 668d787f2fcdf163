"""A program that uses an approval and is killed before and after each request to its store.

Started as ``python -m tests.support.killed_approval REDIS_URL FOLDER``. Each attempt is a process
that asks for a call, has it approved, and makes it: the call writes a line to a file. After the
kill, two processes repeat the call. For each attempt a line is printed: whether it was killed, the
calls that were made, and what the last process got.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcp_tools_proxy.domain.audit import Entry, Origin
from mcp_tools_proxy.domain.errors import ApprovalPending
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.gateway.approval_desk import ApprovalDesk, Approver
from mcp_tools_proxy.gateway.approval_records import ApprovalRecords
from mcp_tools_proxy.gateway.approvals import Approvals, ApprovalTimes, WantedApproval
from mcp_tools_proxy.policy.cedar.written_policy import read_policies
from mcp_tools_proxy.storage.logins.redis_sign_ins import MAX_CONNECTIONS, RedisSignIns
from mcp_tools_proxy.storage.logins.sign_in_store import RecordKind, SignInStore
from mcp_tools_proxy.storage.redis_pool import open_pool
from mcp_tools_proxy.telemetry.audit.audit_trail import AuditTrail
from tests.support.approvals import ARGUMENTS, PAY
from tests.support.builders import make_call
from tests.support.fakes import FakeTool

BOSS = Principal(
    tenant_id="tenant_1",
    user_id="boss",
    rights=frozenset({OperatorRight.APPROVE}),
    executes=False,
)


class KilledStore:
    """A store whose process ends before or after one of its requests."""

    is_shared = True

    def __init__(self, inner: SignInStore, step: int) -> None:
        self._inner = inner
        self._left = step

    async def _do(self, request: Awaitable[Any]) -> Any:
        self._pass()
        found = await request
        self._pass()
        return found

    def _pass(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async def add(
        self, kind: RecordKind, name: str, content: bytes, ttl_s: float, *, share: str = ""
    ) -> bytes | None:
        found: bytes | None = await self._do(
            self._inner.add(kind, name, content, ttl_s, share=share)
        )
        return found

    async def replace(self, kind: RecordKind, name: str, content: bytes) -> None:
        await self._do(self._inner.replace(kind, name, content))

    async def find(self, kind: RecordKind, name: str) -> bytes | None:
        found: bytes | None = await self._do(self._inner.find(kind, name))
        return found

    async def take(self, kind: RecordKind, name: str) -> bytes | None:
        found: bytes | None = await self._do(self._inner.take(kind, name))
        return found

    async def approvals(self, share: str, most: int) -> Sequence[bytes]:
        found: Sequence[bytes] = await self._do(self._inner.approvals(share, most))
        return found

    async def aclose(self) -> None:
        await self._inner.aclose()


class Replica:
    """A process's own objects over the shared Redis."""

    def __init__(self, url: str, folder: Path, step: int = 0) -> None:
        store = RedisSignIns(open_pool(url, max_connections=MAX_CONNECTIONS))
        self.records = ApprovalRecords(KilledStore(store, step), [b"k" * 32])
        self.made = folder / "made"
        times, recorder = ApprovalTimes(), AuditTrail()
        self.approvals = Approvals(
            self.records,
            times,
            server_entry=lambda _: None,
            recorder=recorder,
            notify=lambda *_: None,
            now=lambda: datetime.now(UTC),
        )
        self.desk = ApprovalDesk(
            self.records,
            times,
            recorder=recorder,
            check_audit=lambda: None,
            notify=lambda *_: None,
            now=lambda: datetime.now(UTC),
        )

    def wanted(self, number: int) -> WantedApproval:
        arguments = {**ARGUMENTS, "number": number}
        policies = tuple(read_policies("a.cedar", PAY))
        call = make_call("pay", arguments)
        call = replace(call, caller=replace(call.caller, user_id=f"user_{number}"))
        spec = FakeTool(name="pay").spec
        return self.approvals.wanted(call, spec, "shop:pay", policies, b"set")

    async def approve(self, number: int) -> None:
        """Have the call approved, unless it is."""
        try:
            await self.approvals.granted(self.wanted(number))
        except ApprovalPending as pending:
            approval_id = str((pending.details or {})["approval_id"])
            approver = Approver(BOSS, Origin(Entry.CONSOLE, ""))
            await self.desk.decide(approver, approval_id, approved=True)

    async def call(self, number: int) -> None:
        """Make the call, if it is approved: write its number to the file."""
        wanted = self.wanted(number)
        usable = await self.approvals.granted(wanted)
        await self.approvals.use(usable, wanted)
        with self.made.open("a") as file:
            file.write(f"{number}\n")
        await self.approvals.end(usable, "OK")


async def attempt(url: str, folder: Path, number: int, step: int) -> None:
    replica = Replica(url, folder, step)
    await replica.call(number)
    await replica.records.aclose()


async def prepared(url: str, folder: Path, number: int) -> None:
    replica = Replica(url, folder)
    await replica.approve(number)
    await replica.records.aclose()


async def repeated(url: str, folder: Path, number: int) -> str:
    replica = Replica(url, folder)
    try:
        await replica.call(number)
    except ApprovalPending:
        return "pending"
    finally:
        await replica.records.aclose()
    return "made"


def main(url: str, folder: Path) -> None:
    status, step = -1, 0
    while status != 0:
        step += 1
        asyncio.run(prepared(url, folder, step))
        pid = os.fork()
        if pid == 0:
            asyncio.run(attempt(url, folder, step, step))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        again = [asyncio.run(repeated(url, folder, step)) for _ in range(2)]
        lines = (folder / "made").read_text().split() if (folder / "made").exists() else []
        found = {"was_killed": status != 0, "made": lines.count(str(step)), "again": again}
        print(json.dumps(found))  # noqa: T201 - read by the parent process


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
