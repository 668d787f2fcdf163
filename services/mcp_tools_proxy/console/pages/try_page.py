"""Page to try a tool: caller, tool, form for arguments, and result of the call."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from time import perf_counter
from typing import Any

from pydantic_core import from_json

from mcp_tools_proxy.console.api_client import (
    ACTIVE_PRESET,
    EXPLAIN,
    TOOLS_PATH,
    TRIES_PATH,
    ApiRefused,
)
from mcp_tools_proxy.console.forms import Form
from mcp_tools_proxy.console.navigation import TRY_PATH, may_run
from mcp_tools_proxy.console.page_request import PageRequest, PageResult, PageView, Routes
from mcp_tools_proxy.console.page_text import visible, visible_json
from mcp_tools_proxy.console.pages.tool_calls import (
    ToolCaller,
    advice_on,
    caller_of,
    form_of,
    is_own,
    samples_of,
)
from mcp_tools_proxy.console.schema_forms.drafts import (
    ABSENT,
    Path,
    Unread,
    add_row,
    path_of,
    problems_of,
    read_draft,
    read_json,
    remove_row,
    value_of,
)
from mcp_tools_proxy.console.schema_forms.form_builder import build_form
from mcp_tools_proxy.domain.errors import Forbidden, LoginsUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import OperatorRight

PAGE_ITEMS = 50

MAX_SUMMARY_CHARS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPage:
    """A page of matching tools; ``problem`` is set if the list is unavailable."""

    rows: "Sequence[ChosenTool]" = ()
    found: int = 0
    total: int = 0
    number: int = 1
    pending: Sequence[str] = ()
    problem: str = ""

    @property
    def pages(self) -> int:
        """The number of pages."""
        return max(1, -(-self.found // PAGE_ITEMS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTool:
    """The tool to try; without ``definition`` if the caller cannot see it."""

    name: str
    definition: Mapping[str, Any] | None = None
    problem: str = ""

    @property
    def schema(self) -> object:
        """The JSON Schema of its arguments."""
        return (self.definition or {}).get("inputSchema", {})

    @property
    def description(self) -> str:
        """Its full description."""
        return str((self.definition or {}).get("description") or "")

    @property
    def is_read_only(self) -> bool:
        """Whether its server declares it as read-only."""
        annotations = (self.definition or {}).get("annotations")
        return isinstance(annotations, Mapping) and annotations.get("readOnlyHint") is True

    @property
    def summary(self) -> str:
        """The first line of its description, truncated."""
        line = (self.description.strip().splitlines() or [""])[0]
        return line if len(line) <= MAX_SUMMARY_CHARS else f"{line[:MAX_SUMMARY_CHARS]}…"


MAX_KEPT_CHARS = 16_000
"""Longer arguments are not kept with a try."""

MAX_SHOWN_CHARS = 12_000
"""Characters shown of a text or envelope; programs receive all."""

MAX_TEXT_CHARS = 2_000
"""Characters shown of one text within an envelope, such as an image."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, indent=2)

_SHOWN_APART = ("text", "elapsed_ms", "budgets")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """A text, possibly truncated; ``length`` is the original length."""

    text: str
    length: int

    @property
    def is_cut(self) -> bool:
        """Whether the text is truncated."""
        return self.length > len(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TryOutcome:
    """The result of a call; ``code`` is "OK" or an error code."""

    code: str
    elapsed_ms: float
    envelope: Extract
    message: str = ""
    advice: str = ""
    retryable: bool = False
    retry_after_s: float | None = None
    text: Extract | None = None
    budgets: Sequence[Mapping[str, Any]] = ()
    argument_names: Sequence[str] = ()
    """The arguments that caused the error."""
    trace_id: str = ""


@dataclass(slots=True, kw_only=True)
class _Typed:
    """The typed arguments; ``raw`` is their JSON text, None if fields are used."""

    draft: object = ABSENT
    raw: str | None = None
    raw_problem: str = ""
    focus: Path | None = None
    needs_values: bool = False
    """Whether empty required fields are errors, as before a call."""

    @property
    def is_readable(self) -> bool:
        """Whether all texts are valid values."""
        return not self.raw_problem and not any(problems_of(self.draft))

    @property
    def arguments(self) -> dict[str, Any]:
        value = value_of(self.draft)
        return value if isinstance(value, dict) else {}

    def lacks_values(self, schema: object) -> bool:
        """Return whether a required field is empty."""
        if not self.needs_values or self.raw is not None:
            return False
        return build_form(schema, self.draft, needs_values=True).has_problem


async def _show(page: PageRequest) -> PageResult:
    """Show the list of tools, or the form of the selected tool."""
    _check_may_try(page)
    form, typed = Form(page.request.query_params.multi_items()), _Typed()
    if again := page.query("again"):
        kept = await _kept_try(page, again)
        form = form_of(kept)
        if isinstance(kept.get("arguments"), dict):
            typed.draft = kept["arguments"]
    caller = caller_of(page, form)
    if name := form.raw("tool"):
        return await _form(page, caller, await find_tool(page, caller, name), typed)
    context = {"tools": await page_of_tools(page, caller), "q": page.query("q")}
    return await _view(page, caller, context)


async def _act(page: PageRequest) -> PageResult:
    """Run or explain the call, or change the form; typed values are kept."""
    _check_may_try(page)
    form = page.form
    caller = caller_of(page, form)
    tool = await find_tool(page, caller, form.raw("tool"))
    typed = _typed_in(form)
    action, _, key = (form.raw("do") or "check").partition(".")
    _change(typed, action, path_of(key))
    if action not in ("run", "explain"):
        return await _form(page, caller, tool, typed)
    typed.needs_values = action == "run"
    if caller.problems or not typed.is_readable or typed.lacks_values(tool.schema):
        return await _form(page, caller, tool, typed, {"is_refused_here": True})
    body = {"tool_name": tool.name, "arguments": typed.arguments, **caller.context}
    if action == "explain":
        result = await _explained(page, body)
    else:
        result = await _tried(page, caller, body)
    return await _form(page, caller, tool, typed, result)


async def _form(
    page: PageRequest,
    caller: ToolCaller,
    tool: ChosenTool,
    typed: _Typed,
    result: Mapping[str, Any] | None = None,
) -> PageView:
    outcome = (result or {}).get("outcome")
    context: dict[str, Any] = {"tool": tool, "typed": typed, **(result or {})}
    if typed.raw is None and tool.definition is None and typed.draft is ABSENT:
        typed.raw = "{}"
    if typed.raw is None:
        problems = _argument_problems(outcome)
        context["fields"] = build_form(
            tool.schema,
            typed.draft,
            focus=typed.focus,
            problems=problems,
            needs_values=typed.needs_values,
        )
    if result is not None and "is_refused_here" not in result:
        context["samples"] = samples_of(page.site.public_url, caller, tool.name, typed.arguments)
        context["has_samples"] = True
    return await _view(page, caller, context)


async def _view(page: PageRequest, caller: ToolCaller, context: dict[str, Any]) -> PageView:
    is_blank = not page.form.names()
    return PageView(
        template="try.html",
        suggests=True,
        context={
            "who": caller,
            "is_own": is_own(page, caller),
            "problems": {} if is_blank else caller.problems,
            "tries": await _kept_tries(page),
            **context,
        },
    )


def _check_may_try(page: PageRequest) -> None:
    """Raise Forbidden for users without the right to run tools."""
    if not may_run(page.operator):
        raise Forbidden(
            'the token has neither the operator right "run" nor a user; sign in with another token'
        )


def _typed_in(form: Form) -> _Typed:
    """Return the arguments of a form, typed in fields or as one JSON text."""
    if form.raw("mode") != "raw":
        return _Typed(draft=read_draft(form.items()))
    text = form.raw("raw").replace("\r\n", "\n")
    value = read_json(text)
    if isinstance(value, Unread):
        return _Typed(raw=text, raw_problem=value.problem)
    if value is not ABSENT and not isinstance(value, dict):
        return _Typed(raw=text, raw_problem="Arguments are one JSON object: { … }.")
    return _Typed(draft={} if value is ABSENT else value, raw=text)


def _change(typed: _Typed, action: str, path: Path | None) -> None:
    """Change the form: add or remove a row, or switch between fields and JSON."""
    if action == "add" and path is not None:
        typed.focus = add_row(typed.draft, path)
    elif action == "remove" and path is not None:
        remove_row(typed.draft, path)
    elif action == "raw" and typed.raw is None:
        value = value_of(typed.draft, keep_texts=True)
        if isinstance(typed.draft, Unread):
            typed.raw, typed.raw_problem = typed.draft.text, typed.draft.problem
        else:
            typed.raw = visible_json({} if value is ABSENT else value)
    elif action == "form" and not typed.raw_problem:
        typed.raw = None


async def _explained(page: PageRequest, body: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"explanation": await page.api.submit(EXPLAIN, body)}
    except ApiRefused as refused:
        return {"outcome": refusal_of(refused, 0.0)}


async def _tried(page: PageRequest, caller: ToolCaller, body: Mapping[str, Any]) -> dict[str, Any]:
    """Run the call and save it as a try."""
    started = perf_counter()
    try:
        answer = await page.api.send("POST", TRIES_PATH, body=body)
        outcome = outcome_of(answer.body, (perf_counter() - started) * 1000)
    except ApiRefused as refused:
        outcome = refusal_of(refused, (perf_counter() - started) * 1000)
    try:
        await _remember(page, caller, body, outcome)
    except LoginsUnavailable:  # the call ran; an error would invite a repetition
        return {"outcome": outcome, "is_forgotten": True}
    return {"outcome": outcome}


async def _remember(
    page: PageRequest, caller: ToolCaller, body: Mapping[str, Any], outcome: TryOutcome
) -> None:
    """Save a try in the session. Raises LoginsUnavailable."""
    arguments = body["arguments"]
    kept = {
        "at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "tool": body["tool_name"],
        "tenant_id": caller.tenant_id,
        "user_id": caller.user_id,
        "agent": caller.agent,
        "roles": [*caller.roles],
        "documents": [*caller.documents],
        "code": outcome.code,
        "ms": outcome.elapsed_ms,
    }
    if len(visible_json(arguments)) <= MAX_KEPT_CHARS:
        kept["arguments"] = arguments
    await page.sessions.add_try(page.session, kept)


async def _kept_tries(page: PageRequest) -> Sequence[Mapping[str, Any]] | None:
    """Return the session's tries; None if they cannot be read."""
    try:
        return await page.sessions.tries(page.session)
    except LoginsUnavailable:
        return None


async def _kept_try(page: PageRequest, number: str) -> Mapping[str, Any]:
    for kept in await _kept_tries(page) or ():
        if str(kept["number"]) == number:
            return kept
    return {}


def _argument_problems(outcome: TryOutcome | None) -> dict[str, str]:
    """Return the gateway's errors of single arguments."""
    if outcome is None:
        return {}
    return dict.fromkeys(outcome.argument_names, outcome.message)


async def page_of_tools(page: PageRequest, caller: ToolCaller) -> ToolPage:
    """Return the requested page of the tool list."""
    try:
        listed = await _list(page, caller, {})
    except ApiRefused as error:
        return ToolPage(problem=_problem_of(error))
    tools = listed["tools"]
    fitting = [it for it in tools if _fits(it, page.query("q").lower())]
    pages = max(1, -(-len(fitting) // PAGE_ITEMS))
    number = min(max(1, page.number("page")), pages)
    return ToolPage(
        rows=[
            ChosenTool(name=str(it.get("name")), definition=it)
            for it in fitting[(number - 1) * PAGE_ITEMS : number * PAGE_ITEMS]
        ],
        found=len(fitting),
        total=len(tools),
        number=number,
        pending=listed.get("pending") or (),
    )


async def find_tool(page: PageRequest, caller: ToolCaller, name: str) -> ChosenTool:
    """Return the tool, with its definition if the caller can see it."""
    try:
        listed = await _list(page, caller, {"names": name})
    except ApiRefused as error:
        return ChosenTool(name=name, problem=_problem_of(error))
    tools = listed["tools"]
    found = [it for it in tools if it.get("name") == name] or tools
    if len(found) != 1:
        return ChosenTool(
            name=name,
            problem="this caller has no access to the tool; a call shows why it is refused",
        )
    return ChosenTool(name=name, definition=found[0])


def _problem_of(error: ApiRefused) -> str:
    is_without_agent = error.code == "AGENT_REQUIRED"
    return "choose an agent" if is_without_agent else error.message


async def _list(page: PageRequest, caller: ToolCaller, more: Mapping[str, object]) -> Any:
    """List the tools that the caller sees. Raises ApiRefused.

    Users without the right to list tools for others get the tools of their token.
    """
    query = {**caller.query, **more}
    if page.may(OperatorRight.AUDIT) and not is_own(page, caller):
        query["preset_id"] = (await page.api.read(ACTIVE_PRESET)).preset.id
    return await page.api.get(TOOLS_PATH, query)


def _fits(tool: Mapping[str, Any], words: str) -> bool:
    text = f"{tool.get('name')} {tool.get('title') or ''} {tool.get('description') or ''}".lower()
    return all(word in text for word in words.split())


def outcome_of(body: bytes, elapsed_ms: float) -> TryOutcome:
    """Return the outcome of a response; ``elapsed_ms`` is the default duration."""
    answer = from_json(body)
    error = answer.get("error") or {}
    details = error.get("details") or {}
    names = details.get("arguments") or [details.get("argument")]
    text = answer.get("text")
    return TryOutcome(
        code="OK" if answer["status"] == "ok" else str(error.get("code")),
        elapsed_ms=answer.get("elapsed_ms", elapsed_ms),
        envelope=_envelope(answer, len(body)),
        message=str(error.get("message") or ""),
        advice=advice_on(error.get("code")),
        retryable=error.get("retryable") is True,
        retry_after_s=error.get("retry_after_s"),
        text=None if text is None else _extract(str(text)),
        budgets=answer.get("budgets") or (),
        argument_names=[it for it in names if isinstance(it, str)],
        trace_id=str(answer.get("trace_id") or ""),
    )


def refusal_of(refused: ApiRefused, elapsed_ms: float) -> TryOutcome:
    """Return the outcome of a request refused by the API."""
    error = {"code": refused.code, "message": refused.message, "details": {**refused.details}}
    return TryOutcome(
        code=refused.code,
        elapsed_ms=elapsed_ms,
        envelope=_extract(visible_json({"status": "error", "error": error})),
        message=refused.message,
        advice=advice_on(refused.code),
        retryable=refused.retryable,
    )


def _envelope(answer: Mapping[str, Any], size: int) -> Extract:
    """Return the envelope as programs receive it, with long texts truncated.

    Only the part that is shown is serialized: 4 MB delayed all calls of the gateway by 2 s.
    """
    kept = {key: it for key, it in answer.items() if key not in _SHOWN_APART}
    pieces: list[str] = []
    chars = 0
    for piece in _ENCODER.iterencode(_Beginning().of(kept)):
        pieces.append(piece)
        chars += len(piece)
        if chars > MAX_SHOWN_CHARS:
            break
    text = visible("".join(pieces))[:MAX_SHOWN_CHARS]
    return Extract(text=text, length=max(chars, size) if chars > MAX_SHOWN_CHARS else len(text))


class _Beginning:
    """Copies the part of a value that can be shown, with long texts truncated."""

    def __init__(self) -> None:
        self._left = MAX_SHOWN_CHARS + 1
        """Values left to copy; each takes at least one character."""

    def of(self, value: object) -> object:
        self._left -= 1
        match value:
            case str() if len(value) > MAX_TEXT_CHARS:
                return f"{value[:MAX_TEXT_CHARS]}… ({len(value):,} characters)"
            case list():
                return [self.of(it) for it in takewhile(self._is_wanted, value)]
            case dict():
                items = takewhile(self._is_wanted, value.items())
                return {key: self.of(it) for key, it in items}
        return value

    def _is_wanted(self, _: object) -> bool:
        return self._left > 0


def _extract(text: str) -> Extract:
    return Extract(text=text[:MAX_SHOWN_CHARS], length=len(text))


ROUTES: Routes = {TRY_PATH: {"GET": _show, "POST": _act}}
