"""Records changes of documents and logins: by whom, and as a replica notices them."""

import asyncio
from collections.abc import Mapping

from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.logins import LoginOwner
from mcp_tools_proxy.telemetry.recorder import Recorder

LOGIN_ENDED = "login.ended"
SIGNED_IN = "login.signed_in"
LOGIN_CHANGED = "login.changed"

MAX_OWNERS = 10_000
"""Owners whose last login is remembered; the one that was noticed first is forgotten first."""


def login_fields(owner: LoginOwner) -> Mapping[str, object]:
    """Return the fields of a record that say which login it is of."""
    return without_none(
        {
            "server_id": owner.server_id,
            "login_for": owner.login_for.value,
            "tenant_id": owner.tenant_id or None,
            "user_id": owner.user_id or None,
        }
    )


class LoginChanges:
    """Records that there is another login than before, or none any more, whoever did that.

    What users and operators do over HTTP has a record of its own, which says who it was; that of
    the command line is known by its effect only.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._noticed: dict[LoginOwner, float | None] = {}

    def noticed(self, owner: LoginOwner, signed_in_at: float | None) -> None:
        """Compare a login, None for none, with what was noticed before; the first is no change."""
        if owner not in self._noticed:
            if len(self._noticed) >= MAX_OWNERS:
                del self._noticed[next(iter(self._noticed))]
            self._noticed[owner] = signed_in_at
        elif self._noticed[owner] != signed_in_at:
            self._noticed[owner] = signed_in_at
            change = "ended" if signed_in_at is None else "signed_in"
            fields = {"code": "OK", "change": change, **login_fields(owner)}
            self._recorder.record("info", LOGIN_CHANGED, None, fields)


GATHER_S = 1.0
"""Seconds for which changes are gathered in one record: an import may change thousands."""

KEYS_RECORDED = 20
"""Documents that one record names; it counts them all."""


class DocumentChanges:
    """Records changes from ``begin`` on: what is there at the start has not changed.

    An operator's change over HTTP has a record of its own, which says who made it; that of the
    command line, or of another program, is known by its effect only.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._gathered: dict[tuple[str, str], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Record changes from now on."""
        self._gathered = {}

    def changed(self, key: tuple[str, str]) -> None:
        """Add a document, by tenant and id, to the next record."""
        if self._gathered is None:
            return
        self._gathered[key] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self.flush)

    def flush(self) -> None:
        """Write the record of what was gathered, if anything was."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._gathered:
            named = [
                {"tenant_id": tenant_id, "doc_id": doc_id}
                for tenant_id, doc_id in list(self._gathered)[:KEYS_RECORDED]
            ]
            fields = {"code": "OK", "count": len(self._gathered), "documents": named}
            self._gathered = {}
            self._recorder.record("info", "documents.changed", None, fields)
