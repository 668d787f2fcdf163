"""Try a tool: for which caller, a form of its arguments, and how the call ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from starlette.routing import Route

from mcp_tools_proxy.console.api_client import EXPLAIN_PATH, TRIES_PATH, ApiRefused
from mcp_tools_proxy.console.forms import Form
from mcp_tools_proxy.console.navigation import TRY_PATH, may_run
from mcp_tools_proxy.console.page_endpoint import PageEndpoint, Pages
from mcp_tools_proxy.console.page_request import PageRequest, PageResult, PageView
from mcp_tools_proxy.console.schema_forms.draft_reader import read_draft, read_json
from mcp_tools_proxy.console.schema_forms.drafts import (
    ABSENT,
    Path,
    Unread,
    add_row,
    problems_of,
    remove_row,
    value_of,
)
from mcp_tools_proxy.console.schema_forms.field_names import path_of
from mcp_tools_proxy.console.schema_forms.form_builder import build_form
from mcp_tools_proxy.console.schema_forms.visible_json import visible_json
from mcp_tools_proxy.console.tries.call_samples import samples_of
from mcp_tools_proxy.console.tries.outcomes import TryOutcome, outcome_of, refusal_of
from mcp_tools_proxy.console.tries.tool_caller import ToolCaller, caller_of, form_of, is_own
from mcp_tools_proxy.console.tries.tool_choice import ChosenTool, find_tool, page_of_tools
from mcp_tools_proxy.domain.errors import Forbidden, LoginsUnavailable
from mcp_tools_proxy.domain.identity import OperatorRight

MAX_KEPT_CHARS = 16_000
"""Arguments that a try is remembered with; longer ones are not."""


def try_routes(pages: Pages) -> Sequence[Route]:
    """Return the routes of this part."""
    page = _TryPage(pages.origin.public_url)
    return (Route(TRY_PATH, PageEndpoint(pages, GET=page.show, POST=page.act)),)


@dataclass(slots=True, kw_only=True)
class _Typed:
    """What is in the form of the arguments; ``raw`` is their JSON text, None for fields."""

    draft: object = ABSENT
    raw: str | None = None
    raw_problem: str = ""
    focus: Path | None = None
    needs_values: bool = False
    """Whether a required field that is empty is a problem: a call is to be made of it."""

    @property
    def is_readable(self) -> bool:
        """Whether there are arguments to send."""
        return not self.raw_problem and not any(problems_of(self.draft))

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments to send."""
        value = value_of(self.draft)
        return value if isinstance(value, dict) else {}

    def lacks_values(self, schema: object) -> bool:
        """Return whether a required field is empty."""
        if not self.needs_values or self.raw is not None:
            return False
        return build_form(schema, self.draft, needs_values=True).has_problem


class _TryPage:
    """The page; ``public_url`` is the address of the gateway, None where it is not known."""

    def __init__(self, public_url: str | None) -> None:
        self._public_url = public_url

    async def show(self, page: PageRequest) -> PageResult:
        """Show the tools to choose from, or the form of the one that the address names."""
        _check_may_try(page)
        form, typed = Form(page.request.query_params.multi_items()), _Typed()
        if again := page.query("again"):
            kept = await _kept_try(page, again)
            form = form_of(kept)
            if isinstance(kept.get("arguments"), dict):
                typed.draft = kept["arguments"]
        caller = caller_of(page, form)
        if name := form.raw("tool"):
            return await self._form(page, caller, await find_tool(page, caller, name), typed)
        context = {"tools": await page_of_tools(page, caller), "q": page.query("q")}
        return await self._view(page, caller, context)

    async def act(self, page: PageRequest) -> PageResult:
        """Run or explain the call, or change the form; what was typed stays in any case."""
        _check_may_try(page)
        form = page.form
        caller = caller_of(page, form)
        tool = await find_tool(page, caller, form.raw("tool"))
        typed = _typed_in(form)
        action, _, key = (form.raw("do") or "check").partition(".")
        _change(typed, action, path_of(key))
        if action not in ("run", "explain"):
            return await self._form(page, caller, tool, typed)
        typed.needs_values = action == "run"
        if caller.problems or not typed.is_readable or typed.lacks_values(tool.schema):
            return await self._form(page, caller, tool, typed, {"is_refused_here": True})
        body = {"tool_name": tool.name, "arguments": typed.arguments, **caller.context}
        if action == "explain":
            result = await _explained(page, body)
        else:
            result = await _tried(page, caller, body)
        return await self._form(page, caller, tool, typed, result)

    async def _form(
        self,
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
            context["samples"] = samples_of(self._public_url, caller, tool.name, typed.arguments)
            context["has_samples"] = True
        return await self._view(page, caller, context)

    async def _view(
        self, page: PageRequest, caller: ToolCaller, context: dict[str, Any]
    ) -> PageView:
        is_blank = not page.form.names()
        return PageView(
            template="try.html",
            suggests=True,
            context={
                "who": caller,
                "agents": page.agents,
                "is_own": is_own(page, caller),
                "problems": {} if is_blank else caller.problems,
                "tries": await _kept_tries(page),
                "may_run_as": page.may(OperatorRight.RUN),
                "may_explain": page.may(OperatorRight.AUDIT),
                "tenant_is_fixed": page.tenant_id is not None,
                **context,
            },
        )


def _check_may_try(page: PageRequest) -> None:
    """Raise Forbidden for who can run nothing, neither for others nor in the own name."""
    if not may_run(page.operator):
        raise Forbidden(
            'the token has neither the operator right "run" nor a user; sign in with another token'
        )


def _typed_in(form: Form) -> _Typed:
    """Return what a form holds: fields, or all arguments as one JSON text."""
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
    """Change the form: a row more or less, or the other way to type the arguments."""
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
        return {"explanation": await page.api.post(EXPLAIN_PATH, body)}
    except ApiRefused as refused:
        return {"outcome": refusal_of(refused, 0.0)}


async def _tried(page: PageRequest, caller: ToolCaller, body: Mapping[str, Any]) -> dict[str, Any]:
    """Run the call, and remember it."""
    started = perf_counter()
    try:
        answer = await page.api.send("POST", TRIES_PATH, body=body)
        outcome = outcome_of(answer.body, (perf_counter() - started) * 1000)
    except ApiRefused as refused:
        outcome = refusal_of(refused, (perf_counter() - started) * 1000)
    try:
        await _remember(page, caller, body, outcome)
    except LoginsUnavailable:  # it ran: who was told of an error instead would run it again
        return {"outcome": outcome, "is_forgotten": True}
    return {"outcome": outcome}


async def _remember(
    page: PageRequest, caller: ToolCaller, body: Mapping[str, Any], outcome: TryOutcome
) -> None:
    """Keep a try for its browser. Raises LoginsUnavailable."""
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
    """Return the last tries of this browser; None while they cannot be read."""
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
    """Return what the gateway found wrong with single arguments, to show it beside them."""
    if outcome is None:
        return {}
    return dict.fromkeys(outcome.argument_names, outcome.message)
