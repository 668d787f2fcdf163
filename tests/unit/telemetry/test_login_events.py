from collections.abc import Mapping

from mcp_tools_proxy.domain.logins import LoginOwner
from mcp_tools_proxy.domain.server import LoginFor
from mcp_tools_proxy.telemetry.recorder import Bound
from mcp_tools_proxy.telemetry.request_events import MAX_OWNERS, LoginChanges

OWNER = LoginOwner(server_id="wiki", login_for=LoginFor.TENANT, tenant_id="acme")


class Records:
    def __init__(self) -> None:
        self.changes: list[object] = []

    def record(
        self,
        level: str,
        event: str,
        trace_id: str | None,
        payload: Mapping[str, object],
        *,
        reserved: bool = False,
        bound: Bound | None = None,
    ) -> None:
        assert (level, event, trace_id, reserved) == ("info", "login.changed", None, False)
        self.changes.append(payload["change"])


def test_the_initial_state_is_not_a_change_and_every_later_difference_is() -> None:
    records = Records()
    changes = LoginChanges(records)
    for signed_in_at in (1.0, 1.0, None, None, 2.0, 3.0):
        changes.noticed(OWNER, signed_in_at)
    assert records.changes == ["ended", "signed_in", "signed_in"]


def test_the_number_of_remembered_owners_is_bounded() -> None:
    records = Records()
    changes = LoginChanges(records)
    for number in range(MAX_OWNERS + 1):
        owner = LoginOwner(server_id=str(number), login_for=LoginFor.DEPLOYMENT)
        changes.noticed(owner, None)
    changes.noticed(LoginOwner(server_id="0", login_for=LoginFor.DEPLOYMENT), 1.0)
    assert records.changes == []
    last = LoginOwner(server_id=str(MAX_OWNERS), login_for=LoginFor.DEPLOYMENT)
    changes.noticed(last, 1.0)
    assert records.changes == ["signed_in"]
