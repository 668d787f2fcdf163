"""Decisions on waiting calls while their store fails."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from mcp_tools_proxy.domain.audit import Entry, Origin
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
from mcp_tools_proxy.gateway.approvals import Approvals, ApprovalTimes
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
    """A store that cannot remove records while it ``fails``."""

    fails = False

    async def take(self, kind: RecordKind, name: str) -> bytes | None:
        if self.fails:
            raise LoginsUnavailable("no")
        return await super().take(kind, name)


@pytest.mark.parametrize("approved", [True, False])
async def test_a_decision_is_recorded_and_finished_although_the_store_fails(
    approved: bool,
) -> None:
    store, notified = FailingStore(), list[str]()
    records, times = ApprovalRecords(store, [b"k" * 32]), ApprovalTimes()
    common: dict[str, Any] = {"recorder": AuditTrail(), "now": lambda: datetime.now(UTC)}

    def notify(event: str, _facts: object, _more: Mapping[str, object]) -> None:
        notified.append(event)

    calls = Approvals(records, times, server_entry=lambda _: None, notify=notify, **common)
    desk = ApprovalDesk(records, times, check_audit=lambda: None, notify=notify, **common)
    call = replace(make_call("pay", {"to": "bob"}), run=RunRequest(run_id="r"))
    wanted = partial(calls.wanted, call, FakeTool(name="pay").spec, "shop:pay", POLICIES)
    with pytest.raises(ApprovalPending):
        await calls.granted(wanted(b"set"))
    (waiting,) = await desk.waiting(BOSS.person)
    approval_id = waiting.approval_id
    store.fails = True
    with capture_logs() as lines, pytest.raises(StateUnavailable):
        await desk.decide(BOSS, approval_id, approved=approved)
    assert "approval.decided" in [it["event"] for it in lines]
    assert notified == ["approval.asked", "approval.decided"]
    assert await desk.arguments(BOSS, approval_id) is None
    store.fails = False
    await desk.find(BOSS.person, approval_id)
    assert await desk.waiting(BOSS.person) == []
    with pytest.raises(ApprovalPending if approved else PolicyDenied):
        await calls.granted(wanted(b"another set"))
