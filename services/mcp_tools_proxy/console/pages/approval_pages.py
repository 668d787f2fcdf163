"""Pages of calls that wait for the approval of a second person.

They are not built on the API: nothing with a bearer token reads or decides on a waiting call.
"""

import json
from collections.abc import Mapping
from typing import Any

from mcp_tools_proxy.console.navigation import APPROVALS_PATH
from mcp_tools_proxy.console.page_request import (
    Done,
    ListPage,
    PageRequest,
    PageResult,
    PageView,
    Routes,
    page_address,
)
from mcp_tools_proxy.console.page_text import exact_json
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.gateway.approval_desk import (
    MAX_NOTE_CHARS,
    ApprovalDesk,
    Approver,
    DecidedCall,
    may_decide,
)
from mcp_tools_proxy.gateway.asked_calls import AskedFacts

PAGE_CALLS = 25

STATES: Mapping[str, tuple[str, str]] = {
    "waiting": ("warn", "waiting"),
    "approved": ("ok", "approved, not used"),
    "expired": ("idle", "approved, expired"),
    "refused": ("bad", "refused"),
    "done": ("ok", "used, succeeded"),
    "failed": ("warn", "used, failed"),
    "unknown": ("warn", "used, outcome unknown"),
}
"""Display kinds and labels of an approval's state."""


async def _list(page: PageRequest) -> PageResult:
    """List waiting calls of the tenant, and the latest decisions."""
    desk, person = await page.site.open_approvals(), page.operator
    waiting = [(it, may_decide(person, it)) for it in await desk.waiting(person)]

    def address(**more: object) -> str:
        return page_address(APPROVALS_PATH, more)

    decided = ListPage.part(await desk.decisions(person), page, PAGE_CALLS, address)
    context = {
        "waiting": waiting,
        "decided": decided,
        "calls": [await desk.with_use(it) for it in decided.rows],
        "state_of": _state,
    }
    return PageView(template="approvals.html", context=context)


async def _show(page: PageRequest) -> PageResult:
    """Show one call; its arguments only while it waits, and only to people who may decide."""
    desk, approval_id = await page.site.open_approvals(), _approval_id(page)
    found = await desk.find(page.operator, approval_id)
    arguments: str | None = None
    if isinstance(found, AskedFacts) and may_decide(page.operator, found):
        arguments = await _arguments(page, desk, approval_id)
        if arguments is None:  # decided or expired meanwhile
            decided = await desk.find(page.operator, approval_id)
            found = decided if isinstance(decided, DecidedCall) else None
    if found is None:
        return PageView(template="approval.html", context={"call": None}, status=404)
    if isinstance(found, DecidedCall):
        return _view(found)
    earlier_id = await desk.earlier(page.operator, approval_id)
    earlier = None if earlier_id is None else await desk.find(page.operator, earlier_id)
    context: dict[str, Any] = {
        "call": found,
        "decided": None,
        "shown_state": STATES["waiting"],
        "may_decide": arguments is not None,
        "arguments": arguments,
        "max_note": MAX_NOTE_CHARS,
        "is_repeated": earlier_id is not None,
        "earlier": earlier if isinstance(earlier, DecidedCall) else None,
    }
    return PageView(template="approval.html", context=context)


async def _arguments(page: PageRequest, desk: ApprovalDesk, approval_id: str) -> str | None:
    """Return the arguments of a waiting call with invisible characters escaped."""
    found = await desk.arguments(Approver(page.operator, page.origin), approval_id)
    return None if found is None else exact_json(json.loads(found))


async def _decide(page: PageRequest) -> PageResult:
    """Approve or refuse a waiting call."""
    desk, approval_id = await page.site.open_approvals(), _approval_id(page)
    wanted = page.form.text("decision")
    if wanted not in ("approve", "refuse"):
        raise InvalidRequest("decision: should be approve or refuse")
    decision = await desk.decide(
        Approver(page.operator, page.origin),
        approval_id,
        approved=wanted == "approve",
        note=page.form.text("note"),
    )
    message = "Approved. The call can be made once." if decision.approved else "Refused."
    return Done(path=f"{APPROVALS_PATH}/{approval_id}", message=message)


def _view(decided: DecidedCall) -> PageView:
    context = {
        "call": decided.decision.facts,
        "decided": decided,
        "shown_state": _state(decided),
        "may_decide": False,
        "arguments": None,
    }
    return PageView(template="approval.html", context=context)


def _state(decided: DecidedCall) -> tuple[str, str]:
    """Return the display kind and label of a decision and its use."""
    decision, use = decided.decision, decided.use
    if not decision.approved:
        return STATES["refused"]
    if use is None:
        return STATES["expired" if decided.has_expired else "approved"]
    if use.code is None:
        return STATES["unknown"]
    return STATES["done" if use.code == "OK" else "failed"]


def _approval_id(page: PageRequest) -> str:
    return str(page.request.path_params["approval_id"])


ROUTES: Routes = {
    APPROVALS_PATH: {"GET": _list},
    f"{APPROVALS_PATH}/{{approval_id}}": {"GET": _show, "POST": _decide},
}
