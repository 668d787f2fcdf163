"""Pages of calls: search, details, live view and export."""

import csv
import json
from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from io import StringIO
from typing import Any
from urllib.parse import quote

import anyio
from pydantic_core import from_json
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from mcp_tools_proxy.console.api_client import ApiClient, ApiRefused, problems_of
from mcp_tools_proxy.console.page_request import (
    PAGE_HEADERS,
    SECURITY_HEADERS,
    PageRequest,
    PageResult,
    PageView,
    Routes,
    page_address,
)
from mcp_tools_proxy.console.pages.call_record import LABELS, ShownRecord
from mcp_tools_proxy.console.pages.call_search import (
    ALL_EVENTS,
    DEEDS,
    FAILED_CODES,
    UNAUTHENTICATED,
    CallFilter,
    FoundRecords,
    find_record,
    find_records,
    find_trace,
)
from mcp_tools_proxy.console.pages.server_pages import server_path
from mcp_tools_proxy.console.pages.token_pages import REVOKE_PATH
from mcp_tools_proxy.domain.audit import CHECK_OF_CODE, Check
from mcp_tools_proxy.domain.errors import (
    InvalidRequest,
    LoginsUnavailable,
    MethodNotAllowed,
    ToolFailed,
    Unauthenticated,
)
from mcp_tools_proxy.telemetry.call_events import UNKNOWN_SERVER
from mcp_tools_proxy.wire.text import printable

MAX_RECORDS = 10_000
"""Records per export, newest first."""

PAGE_RECORDS = 1_000

MAX_PAGES = 50
"""API pages per export; filters with few matches make pages short."""

_FORMULA_STARTS = tuple("=+-@＝＋－＠")
"""Spreadsheets execute cells with these prefixes as formulas."""

_PAYLOAD_COLUMNS = (
    "code",
    "check",
    "tenant_id",
    "user_id",
    "agent",
    "doc_id",
    "duration_ms",
    "tokens",
    "token_id",
    "run_id",
    "subject",
    "peer",
    "entry",
    "route",
    "reason",
)

COLUMNS = ("time", "event", "name", "server", *_PAYLOAD_COLUMNS, "trace_id", "seq")

STREAM = "/internal/mcp/calls/stream"

CHECK_S = 0.4
"""Seconds between session checks; an ended session ends its streams within a second."""

_HEADERS = [
    (name.lower().encode(), value.encode())
    for name, value in {
        **SECURITY_HEADERS,
        "Content-Type": "text/event-stream",
        "Cache-Control": "no-store, no-transform",
        "X-Accel-Buffering": "no",
    }.items()
]

_FRAME_END = b"\r\n\r\n"

RenderEvent = Callable[..., str]
"""Renders one event: ``call``, ``lost``, ``began``, or ``end`` with a code and message."""

PATH = "/console/calls"

TRACE = "trace"

MAX_SEQ_DIGITS = 18

_ALL_CODES = frozenset(CHECK_OF_CODE)

ANY_CODES = (("", "Any"), (FAILED_CODES, "All errors"), ("OK", "OK"))

_GROUPS: Mapping[str, Container[Check]] = {
    "Request refused": (
        Check.AUTHENTICATION,
        Check.REQUEST,
        Check.AUTHORIZATION,
        Check.AUDIT,
        Check.LIFECYCLE,
    ),
    "No access": (Check.AGENT, Check.VISIBILITY),
    "Arguments refused": (Check.ARGUMENTS, Check.BLOCKLIST, Check.GUARDS, Check.IDEMPOTENCY),
    "Budget used up": (Check.BUDGET,),
    "Run or policy": (Check.RUN, Check.POLICY),
    "Documents and retrieval": (Check.DOCUMENT, Check.RETRIEVAL),
    "Server and result": (Check.SERVER, Check.RESULT),
    "Operations": (Check.OPERATION,),
    "Caller and gateway": (Check.CALLER, Check.GATEWAY),
}

CODE_GROUPS: Sequence[tuple[str, Sequence[str]]] = tuple(
    (title, tuple(sorted(code for code, check in CHECK_OF_CODE.items() if check in checks)))
    for title, checks in _GROUPS.items()
)
"""Result codes by group title."""

EVENTS = (
    ("", "Calls"),
    (DEEDS, "All events except console views"),
    (UNAUTHENTICATED, "Requests without a valid token"),
    (ALL_EVENTS, "All events"),
    *LABELS.items(),
)

CHECKS: Mapping[str, str] = {
    Check.AUTHENTICATION: "whether the request carries valid credentials",
    Check.REQUEST: "whether the request is valid and its path exists",
    Check.AUTHORIZATION: "whether the sender has the right, and access to the tenant",
    Check.AUDIT: "whether the call can be recorded",
    Check.LIFECYCLE: "whether this replica accepts calls",
    Check.AGENT: "whether the requested agent has a profile",
    Check.VISIBILITY: "whether the caller has access to the tool, prompt or resource",
    Check.ARGUMENTS: "whether the arguments match the schema and the size limits",
    Check.BLOCKLIST: "whether an argument contains a blocked word",
    Check.DOCUMENT: "whether the document exists and the caller has access to it",
    Check.IDEMPOTENCY: "whether the idempotency key belongs to another call",
    Check.BUDGET: "whether all budgets have calls or tokens left",
    Check.RUN: "whether the run is open and within its limits",
    Check.POLICY: "whether the policies, and a person if they require one, permit the call",
    Check.RETRIEVAL: "whether the retrieval service responds",
    Check.SERVER: "whether the server responds without an error",
    Check.RESULT: "whether the result is within the size limit",
}
"""Checks of a call in order, with descriptions."""

OTHER_CHECKS: Mapping[str, str] = {
    Check.OPERATION: "whether the operator’s request can be carried out",
    Check.CALLER: "whether the caller is still waiting for the result",
    Check.GATEWAY: "an internal error of the gateway; see its log",
}
"""Other checks that can decide."""


async def _list(page: PageRequest) -> PageResult:
    """List past calls, or show the page of live calls."""
    wanted = CallFilter.of(page)
    problems = dict(wanted.problems)
    is_live, found = bool(page.query("live")), FoundRecords([])
    if not is_live and not problems:
        try:
            found = await find_records(page.api, wanted, page.query("cursor"))
        except ApiRefused as error:
            problems = dict(problems_of(error, wanted.values))
    context = {
        "wanted": wanted,
        "found": found,
        "is_live": is_live,
        "is_later_page": bool(page.query("cursor")),
        "problems": problems,
        "any_codes": _with_value(ANY_CODES, wanted.values["code"], _ALL_CODES),
        "code_groups": CODE_GROUPS,
        "max_exported": MAX_RECORDS,
        "notes": page.names.token_notes(page.operator),
        "events": _with_value(EVENTS, wanted.values["event"]),
    }
    return PageView(
        template="calls.html", suggests=True, context=context, status=422 if problems else 200
    )


def _with_value(
    options: Sequence[tuple[str, str]], value: str, others: Container[str] = ()
) -> list[tuple[str, str]]:
    """Return the options, adding a value from a link if it is not among them."""
    is_known = value in others or any(value == option for option, _ in options)
    return [*options] if is_known else [*options, (value, value)]


async def _export(page: PageRequest) -> PageResult:
    """Send the matching records as a file."""
    wanted = CallFilter.of(page)
    export = EXPORTS.get(page.query("format"))
    if export is None or wanted.problems:
        field_name, problem = next(
            iter(wanted.problems.items()), ("format", f"Choose one of: {', '.join(EXPORTS)}.")
        )
        raise InvalidRequest(f"{field_name}: {problem}", details={"field": field_name})
    write, media_type = export
    first = await find_records(page.api, wanted, None, PAGE_RECORDS)
    name = f"calls.{page.query('format')}"
    headers = {**PAGE_HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(write(page.api, wanted, first), 200, headers, media_type)


async def _stream(page: PageRequest) -> PageResult:
    """Stream live calls. HEAD is refused, because the stream would stay open unread."""
    if page.request.method == "HEAD":
        raise MethodNotAllowed("the live view is a stream; use GET")
    notes = page.names.token_notes(page.operator)
    titles = page.names.server_titles()
    render = partial(page.site.render, "call_event.html", notes=notes, titles=titles)
    return LiveCalls(page, CallFilter.of(page), render)


async def _show_one(page: PageRequest) -> PageResult:
    """Show one record by number and time, or the records of a trace."""
    key: str = page.request.path_params["key"]
    at = page.query("at")
    trace_id = page.query("trace_id") if at or key == TRACE else key
    record: ShownRecord | None = None
    if at and key.isascii() and key.isdecimal() and len(key) <= MAX_SEQ_DIGITS:
        record = await find_record(page.api, page.tenant(), int(key), at, page.query("worker"))
    if record is not None:
        trace_id = record.trace_id or ""
    trace = await find_trace(page.api, page.tenant(), trace_id) if trace_id else []
    is_other = bool(at) and record is None
    if record is None and trace:
        record = next((it for it in trace if it.is_call), trace[0])
    if record is None:
        missing = {"at": at, "trace_id": trace_id, "viewer": _viewer_address(page, trace_id)}
        return PageView(template="call_missing.html", context=missing, status=404)
    context = {
        "call": record,
        "is_other": is_other,
        "trace": trace,
        "viewer": _viewer_address(page, record.viewer_trace_id),
        "checks": _check_states(record),
        "asks": {**CHECKS, **OTHER_CHECKS}.get(record.check or ""),
        "has_words": record.code == ToolFailed.code,
        "calls_of": partial(page_address, PATH),
        "server_path": _server_path(record),
        "token_path": _token_path(page, record),
        "notes": page.names.token_notes(page.operator),
    }
    return PageView(template="call.html", context=context)


def _viewer_address(page: PageRequest, trace_id: str | None) -> str | None:
    trace_url = page.site.trace_url
    if trace_url is None or not trace_id:
        return None
    return trace_url.replace("{trace_id}", quote(trace_id, safe=""))


def _server_path(record: ShownRecord) -> str | None:
    is_known = record.server not in (None, UNKNOWN_SERVER)
    return server_path(str(record.server)) if is_known else None


def _token_path(page: PageRequest, record: ShownRecord) -> str | None:
    """Return the page of a call's token if the operator may see it and it exists."""
    token_id = str(record.payload.get("token_id"))
    if not page.names.manages(page.operator, token_id):
        return None
    return page_address(REVOKE_PATH, {"token_id": token_id})


def _check_states(record: ShownRecord) -> list[tuple[str, str]]:
    """Return each check of a call with passed, decided or not reached.

    Empty for records that are not calls, and for results of other checks.
    """
    names = [*CHECKS]
    if not record.is_call or (record.code != "OK" and record.check not in names):
        return []
    decided = names.index(record.check) if record.check in names else len(names)
    states = [*["passed"] * decided, "decided", *["not reached"] * len(names)]
    return list(zip(names, states, strict=False))


class LiveCalls(Response):
    """The live stream; it ends with the browser's connection, the session, or the API's stream."""

    def __init__(self, page: PageRequest, wanted: CallFilter, render: RenderEvent) -> None:
        super().__init__()
        self._page = page
        self._wanted = wanted
        self._render = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream until it ends."""
        events = _Events(send, self._wanted, self._render)
        async with anyio.create_task_group() as group:

            async def end_with_session() -> None:
                code = await self._session_over()
                group.cancel_scope.cancel()
                events.end_code = code

            group.start_soon(end_with_session)
            await self._page.api.stream(STREAM, self._wanted.stream_query, receive, events)
            group.cancel_scope.cancel()
        await events.finish()

    async def _session_over(self) -> str:
        """Wait until the session ends or cannot be checked; return the error code."""
        while True:
            await anyio.sleep(CHECK_S)
            try:
                if await self._page.sessions.find(self._page.session.cookie) is None:
                    return Unauthenticated.code
            except LoginsUnavailable as error:
                return error.code


class _Events:
    """ASGI ``send`` that converts the API's stream to page events.

    A refusal becomes the last event, because EventSource hides other statuses from the page.
    """

    def __init__(self, send: Send, wanted: CallFilter, render: RenderEvent) -> None:
        self.end_code: str | None = None
        self._send = send
        self._wanted = wanted
        self._render = render
        self._started = False
        self._refused = False
        self._ended = False
        self._rest = b""

    async def __call__(self, message: Message) -> None:
        """Process a message of the API's response."""
        if message["type"] == "http.response.start":
            self._refused = message["status"] != 200
            await self._start()
            if not self._refused:
                await self._emit("began", began=True)
            return
        self._rest += message.get("body", b"")
        if self._refused:
            return
        *frames, self._rest = self._rest.split(_FRAME_END)
        for frame in frames:
            await self._pass_on(frame.decode())

    async def finish(self) -> None:
        """Send the end event if it was not sent yet."""
        await self._start()
        if self._refused:
            error = from_json(self._rest)["error"]
            await self._emit("end", end=error["code"], text=error["message"])
        elif self.end_code is not None and not self._ended:
            await self._emit("end", end=self.end_code)
        await self._send({"type": "http.response.body", "body": b""})

    async def _start(self) -> None:
        if not self._started:
            self._started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})

    async def _pass_on(self, frame: str) -> None:
        fields = dict(line.partition(": ")[::2] for line in frame.split("\r\n"))
        event = fields.get("event")
        if event is None:
            await self._write(": ping\n\n")
            return
        data: dict[str, Any] = from_json(fields["data"])
        if event == "record":
            record = ShownRecord(data)
            if self._wanted.wants(record):
                await self._emit("record", call=record)
        elif event == "lost":
            await self._emit("record", lost=data["records"], is_of_page=self._wanted.is_of_page)
        elif event == "end":
            self._ended = True
            await self._emit("end", end=data["reason"])

    async def _emit(self, event: str, **context: object) -> None:
        """Send an event; carriage returns would end its lines, and markup needs none."""
        lines = self._render(**context).replace("\r", "").split("\n")
        data = "\n".join(f"data: {line}" for line in lines if line)
        await self._write(f"event: {event}\n{data}\n\n")

    async def _write(self, text: str) -> None:
        await self._send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def as_csv(api: ApiClient, wanted: CallFilter, first: FoundRecords) -> AsyncIterator[str]:
    """Yield the records as CSV with a header line."""
    yield _lines([COLUMNS])
    async for found in _pages(api, wanted, first):
        yield _lines([[cell(it) for it in _row(record)] for record in found])


async def as_json(api: ApiClient, wanted: CallFilter, first: FoundRecords) -> AsyncIterator[str]:
    """Yield the records as a JSON array, as in the audit."""
    before = "[\n"
    async for found in _pages(api, wanted, first):
        for record in found:
            yield before + json.dumps(record.record)  # ensure_ascii makes hidden characters visible
            before = ",\n"
    yield "\n]\n" if before == ",\n" else "[]\n"


def cell(value: object) -> object:
    """Return a CSV cell with hidden characters escaped, and never a formula."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = printable(text)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _row(record: ShownRecord) -> list[object]:
    payload: Mapping[str, object] = record.payload
    return [
        record.at,
        record.event,
        record.name or record.subject,
        record.server,
        *(payload.get(key) for key in _PAYLOAD_COLUMNS),
        record.trace_id,
        record.seq,
    ]


def _lines(rows: Iterable[Iterable[object]]) -> str:
    written = StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue()


async def _pages(
    api: ApiClient, wanted: CallFilter, found: FoundRecords
) -> AsyncIterator[list[ShownRecord]]:
    """Yield the records page by page, starting with ``found``. Raises ApiRefused."""
    left = MAX_RECORDS
    for _ in range(MAX_PAGES):
        yield found.records[:left]
        left -= len(found.records)
        if found.older is None or left <= 0:
            return
        found = await find_records(api, wanted, found.older, PAGE_RECORDS)


EXPORTS: Mapping[str, tuple[Callable[..., AsyncIterator[str]], str]] = {
    "csv": (as_csv, "text/csv; charset=utf-8"),
    "json": (as_json, "application/json"),
}
"""Export formats: writer and media type."""


ROUTES: Routes = {
    PATH: {"GET": _list},
    f"{PATH}/export": {"GET": _export},
    f"{PATH}/stream": {"GET": _stream},
    f"{PATH}/{{key:path}}": {"GET": _show_one},
}
