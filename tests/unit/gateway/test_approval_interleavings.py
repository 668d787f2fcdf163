"""Replicas that ask for, decide on and use approvals in any order of their requests."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.audit import Entry, Origin
from mcp_tools_proxy.domain.errors import ApprovalPending, InvalidRequest, PolicyDenied
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.gateway.approval_desk import ApprovalDesk, Approver
from mcp_tools_proxy.gateway.approval_records import ApprovalRecords
from mcp_tools_proxy.gateway.approvals import Approvals, ApprovalTimes, WantedApproval
from mcp_tools_proxy.gateway.asked_calls import Decision
from mcp_tools_proxy.policy.cedar.written_policy import read_policies
from mcp_tools_proxy.storage.logins.sign_in_store import MemorySignIns, RecordKind
from mcp_tools_proxy.telemetry.audit.audit_trail import AuditTrail
from tests.support.approvals import PAY
from tests.support.builders import make_call
from tests.support.fakes import FakeTool

T = TypeVar("T")

REPLICAS, CALLS, STEPS = 3, 2, 6
BOSS = Approver(
    Principal(
        tenant_id="tenant_1",
        user_id="boss",
        rights=frozenset({OperatorRight.APPROVE}),
        executes=False,
    ),
    Origin(Entry.CONSOLE, ""),
)
POLICIES = tuple(read_policies("a.cedar", PAY))


class ShuffledStore(MemorySignIns):
    """Lets other tasks run before and after each request, a random number of times."""

    def __init__(self, order: random.Random) -> None:
        super().__init__()
        self._order = order

    async def _shuffled(self, request: Awaitable[T]) -> T:
        for _ in range(self._order.randrange(6)):
            await asyncio.sleep(0)
        found = await request
        for _ in range(self._order.randrange(6)):
            await asyncio.sleep(0)
        return found

    async def add(
        self, kind: RecordKind, name: str, content: bytes, ttl_s: float, *, share: str = ""
    ) -> bytes | None:
        return await self._shuffled(super().add(kind, name, content, ttl_s, share=share))

    async def replace(self, kind: RecordKind, name: str, content: bytes) -> None:
        await self._shuffled(super().replace(kind, name, content))

    async def find(self, kind: RecordKind, name: str) -> bytes | None:
        return await self._shuffled(super().find(kind, name))

    async def take(self, kind: RecordKind, name: str) -> bytes | None:
        return await self._shuffled(super().take(kind, name))

    async def approvals(self, share: str, most: int) -> Sequence[bytes]:
        return await self._shuffled(super().approvals(share, most))


class World:
    """Replicas over one store, and what happened."""

    def __init__(self, seed: int) -> None:
        self.order = random.Random(seed)  # noqa: S311 - not a secret
        self.records = ApprovalRecords(ShuffledStore(self.order), [b"k" * 32])
        times, recorder = ApprovalTimes(), AuditTrail()
        self.replicas = [
            Approvals(
                self.records,
                times,
                server_entry=lambda _: None,
                recorder=recorder,
                notify=lambda *_: None,
                now=lambda: datetime.now(UTC),
            )
            for _ in range(REPLICAS)
        ]
        self.desk = ApprovalDesk(
            self.records,
            times,
            recorder=recorder,
            check_audit=lambda: None,
            notify=lambda *_: None,
            now=lambda: datetime.now(UTC),
        )
        self.sent: Counter[tuple[int, str]] = Counter()
        self.refused: set[int] = set()
        self.asked: set[str] = set()

    def wanted(self, number: int) -> WantedApproval:
        call = make_call("pay", {"number": number})
        spec = FakeTool(name="pay").spec
        return self.replicas[0].wanted(call, spec, "shop:pay", POLICIES, b"set")

    async def call(self, replica: Approvals, number: int) -> None:
        wanted, was_refused = self.wanted(number), number in self.refused
        try:
            usable = await replica.granted(wanted)
            assert not was_refused
            await replica.use(usable, wanted)
        except ApprovalPending as pending:
            self.asked.add(str((pending.details or {})["approval_id"]))
            return
        except PolicyDenied:
            return
        self.sent[number, usable.facts.approval_id] += 1
        decision = await self.records.find(Decision, usable.facts.approval_id)
        assert decision is not None
        assert decision.approved
        await replica.end(usable, "OK")

    async def caller(self) -> None:
        for _ in range(STEPS):
            await self.call(self.order.choice(self.replicas), self.order.randrange(CALLS))

    async def person(self, *, refuses: bool) -> None:
        for _ in range(STEPS):
            for facts in await self.desk.waiting(BOSS.person):
                approved = not (refuses and self.order.random() < 0.1)
                try:
                    decision = await self.desk.decide(BOSS, facts.approval_id, approved=approved)
                except InvalidRequest:
                    continue
                assert decision.approved == approved
            await asyncio.sleep(0)


@given(seed=st.integers(0, 2**32), refuses=st.booleans())
async def test_in_any_order_an_approval_is_used_at_most_once(seed: int, refuses: bool) -> None:
    world = World(seed)
    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(world.caller())
        for _ in range(2):
            group.create_task(world.person(refuses=refuses))
    assert set(world.sent.values()) <= {1}
    assert {approval_id for _, approval_id in world.sent} <= world.asked


async def test_the_orders_include_calls_that_are_made() -> None:
    sent = 0
    for seed in range(20):
        world = World(seed)
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(world.caller())
            group.create_task(world.person(refuses=False))
        sent += world.sent.total()
    assert sent > 20
