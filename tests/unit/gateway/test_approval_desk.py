"""Decisions on waiting calls while their store fails."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from mcp_tools_proxy.domain.audit import Entry, Origin
from mcp_tools_proxy.domain.caller import InputResponses
from mcp_tools_proxy.domain.errors import (
    ApprovalPending,
    LoginsUnavailable,
    PolicyDenied,
    StateUnavailable,
)
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.domain.run import RunRequest
from mcp_tools_proxy.gateway.approval_desk import ApprovalDesk, Approver
from mcp_tools_proxy.gateway.approval_records import ApprovalRecords
from mcp_tools_proxy.gateway.approvals import Approvals, ApprovalTimes, WantedApproval
from mcp_tools_proxy.gateway.asked_calls import AskedArguments, AskedCall
from mcp_tools_proxy.policy.cedar.written_policy import read_policies
from mcp_tools_proxy.storage.logins.sign_in_store import MemorySignIns, RecordKind
from mcp_tools_proxy.telemetry.audit.audit_trail import AuditTrail
from tests.support.approvals import PAY
from tests.support.builders import make_call
from tests.support.captured_logs import capture_logs
from tests.support.fakes import FakeTool

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


class FailingStore(MemorySignIns):
    """A store that cannot remove records while it ``fails``, and whose answers can be lost."""

    fails = loses_answers = False
    adds = lost_add = 0

    async def add(
        self, kind: RecordKind, name: str, content: bytes, ttl_s: float, *, share: str = ""
    ) -> bytes | None:
        found = await super().add(kind, name, content, ttl_s, share=share)
        self.adds += 1
        if self.loses_answers or self.adds == self.lost_add:
            raise LoginsUnavailable("no")
        return found

    async def take(self, kind: RecordKind, name: str) -> bytes | None:
        if self.fails:
            raise LoginsUnavailable("no")
        return await super().take(kind, name)


class World:
    """Calls and a desk over one store."""

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.store, self.notified = FailingStore(), list[str]()
        self.records, times = ApprovalRecords(self.store, [b"k" * 32]), ApprovalTimes()
        common: dict[str, Any] = {
            "recorder": AuditTrail(),
            "notify": lambda event, _facts, _more: self.notified.append(event),
            "now": lambda: datetime.now(UTC),
        }
        self.calls = Approvals(self.records, times, server_entry=lambda _: None, **common)
        self.desk = ApprovalDesk(self.records, times, check_audit=lambda: None, **common)
        self.call = replace(make_call("pay", arguments), run=RunRequest(run_id="r"))

    def wanted(self, policy_set: bytes, **more: Any) -> WantedApproval:
        call, spec = replace(self.call, **more), FakeTool(name="pay").spec
        return self.calls.wanted(call, spec, "shop:pay", POLICIES, policy_set)

    async def asked(self) -> str:
        with pytest.raises(ApprovalPending):
            await self.calls.granted(self.wanted(b"set"))
        (waiting,) = await self.desk.waiting(BOSS.person)
        return waiting.approval_id


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_a_call_that_cannot_be_asked_for_whole_does_not_wait(lost: int) -> None:
    world = World({})
    world.store.lost_add = lost
    with pytest.raises(StateUnavailable):
        await world.calls.granted(world.wanted(b"set"))
    assert await world.desk.waiting(BOSS.person) == []
    assert await world.records.of_tenant(AskedArguments, "tenant_1") == []
    assert world.notified == []
    approval_id = await world.asked()
    await world.desk.decide(BOSS, approval_id, approved=True)
    granted = await world.calls.granted(world.wanted(b"set"))
    assert granted.facts.approval_id == approval_id


@pytest.mark.parametrize("approved", [True, False])
async def test_a_decision_is_recorded_and_finished_although_the_store_fails(
    approved: bool,
) -> None:
    world = World({"to": "bob"})
    approval_id, desk = await world.asked(), world.desk
    world.store.fails = True
    with capture_logs() as lines, pytest.raises(StateUnavailable):
        await desk.decide(BOSS, approval_id, approved=approved)
    assert "approval.decided" in [it["event"] for it in lines]
    assert world.notified == ["approval.asked", "approval.decided"]
    assert await desk.arguments(BOSS, approval_id) is None
    world.store.fails = False
    await desk.find(BOSS.person, approval_id)
    assert await desk.waiting(BOSS.person) == []
    assert await world.records.find(AskedArguments, approval_id) is None
    with pytest.raises(ApprovalPending if approved else PolicyDenied):
        await world.calls.granted(world.wanted(b"another set"))


async def test_a_person_without_an_answer_repeats_the_decision() -> None:
    world = World({"to": "bob"})
    approval_id = await world.asked()
    world.store.loses_answers = True
    with pytest.raises(StateUnavailable):
        await world.desk.decide(BOSS, approval_id, approved=True)
    world.store.loses_answers = False
    with capture_logs() as lines:
        await world.desk.decide(BOSS, approval_id, approved=True)
    assert "approval.decided" in [it["event"] for it in lines]
    assert await world.desk.waiting(BOSS.person) == []
    await world.calls.granted(world.wanted(b"set"))


async def test_input_for_a_refused_call_is_refused() -> None:
    world = World({"to": "bob"})
    await world.desk.decide(BOSS, await world.asked(), approved=False)
    more = InputResponses(responses={}, state="x")
    with pytest.raises(PolicyDenied):
        await world.calls.granted(world.wanted(b"set", input_responses=more))
    with pytest.raises(ApprovalPending):
        await world.calls.granted(world.wanted(b"set", arguments={}, input_responses=more))


async def test_the_list_of_waiting_calls_has_no_arguments() -> None:
    world = World({"to": "b" * 60_000})
    await world.asked()
    (asked,) = await world.records.of_tenant(AskedCall, "tenant_1")
    assert len(asked.model_dump_json()) < 2_000
