"""The page of a run: documents, tools, refusals, approvals, and its calls."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from pydantic_core import to_json
from starlette.responses import Response

from mcp_tools_proxy.console.api_client import ApiPath, ApiRefused
from mcp_tools_proxy.console.page_request import (
    PAGE_HEADERS,
    ListPage,
    PageRequest,
    PageResult,
    PageView,
    Routes,
    page_address,
)
from mcp_tools_proxy.console.pages.call_record import RUN_PATH, ShownRecord, run_path
from mcp_tools_proxy.http.api.run_report import ReportedCall, RunOwner, RunReport
from mcp_tools_proxy.http.api.run_routes import PATH

ROWS = 40
"""Calls per page."""

MOST = 20
"""Documents, tools and approvals that the page shows of each list; the export has all."""

_OWNER = ("tenant_id", "user_id", "token_id", "issuer", "subject", "stand_in")

KINDS: Mapping[str, str] = {
    "ok": "ok",
    "refused": "warn",
    "failed": "bad",
    "pending": "idle",
    "cancelled": "idle",
}
"""Display kinds of outcomes."""


async def _show(page: PageRequest) -> PageResult:
    """Show a run, or a form that finds one; export it as JSON."""
    run_id = page.query("run_id")
    wanted = {name: page.query(name) for name in _OWNER} | {"tenant_id": page.tenant()}
    if not run_id:
        return _form(run_id, wanted)
    path = ApiPath(f"{PATH}/{run_id}", RunReport)
    try:
        report = await page.api.read(path, wanted)
    except ApiRefused as error:
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY):
            raise
        return _form(run_id, wanted, error)
    if page.query("format") == "json":
        headers = {**PAGE_HEADERS, "Content-Disposition": 'attachment; filename="run.json"'}
        content = to_json(report, exclude_none=True, indent=1)
        return Response(content, headers=headers, media_type="application/json")
    owner = {name: value for name, value in wanted.items() if value}

    def address(**more: object) -> str:
        return page_address(RUN_PATH, {"run_id": run_id, **owner, **more})

    context = {
        "run": report,
        "calls": ListPage.part(report.calls, page, ROWS, address),
        "kinds": KINDS,
        "most": MOST,
        "done": _done(report),
        "record_path": _record_path,
        "export": address(format="json"),
        "records": page_address(
            "/console/calls",
            {
                "run_id": run_id,
                "tenant_id": report.tenant_id,
                "user_id": report.user_id,
                "event": "all",
            },
        ),
    }
    return PageView(template="run.html", context=context)


def _form(run_id: str, wanted: Mapping[str, str], error: ApiRefused | None = None) -> PageView:
    owners = [] if error is None else _owners(error.details.get("owners"))
    context = {
        "run_id": run_id,
        "wanted": wanted,
        "error": error,
        "owners": [(it, run_path(run_id, it)) for it in owners],
    }
    status = 200 if error is None or owners else error.status
    return PageView(template="run_missing.html", context=context, suggests=True, status=status)


def _owners(listed: object) -> list[RunOwner]:
    """Return the callers in the refusal of an id that several of them use.

    Queries of proved users name no token.
    """
    found = listed if isinstance(listed, list) else []
    return [
        RunOwner.of(it | {"stand_in": it.get("stand_in") == "true", "user_unproved": True})
        for it in found
        if isinstance(it, dict)
    ]


def _done(report: RunReport) -> Sequence[tuple[str, str, Sequence[object]]]:
    """Return the lists of tools, each with its id and title."""
    lists = (
        ("read", "Read", report.read),
        ("written", "Written", report.written),
        ("sent", "Sent", report.sent),
    )
    return [it for it in lists if it[2]]


def _record_path(call: ReportedCall) -> str | None:
    """Return the address of the record of a call."""
    record = {
        "seq": call.seq,
        "timestamp": call.recorded_at,
        "trace_id": call.trace_id,
        "worker": "" if call.worker is None else call.worker,
    }
    return ShownRecord(record).path


ROUTES: Routes = {RUN_PATH: {"GET": _show}}
