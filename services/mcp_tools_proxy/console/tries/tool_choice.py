"""Which tools a caller sees, and the one that was chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_tools_proxy.console.api_client import TOOLS_PATH, ApiRefused
from mcp_tools_proxy.console.page_request import PageRequest
from mcp_tools_proxy.console.tries.tool_caller import ToolCaller, is_own
from mcp_tools_proxy.domain.identity import OperatorRight

PAGE_ITEMS = 50
MAX_SUMMARY_CHARS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    """One tool of a list."""

    name: str
    summary: str
    is_read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPage:
    """A page of the tools that fit a filter; ``problem`` says why there is no list."""

    rows: Sequence[ToolRow] = ()
    found: int = 0
    total: int = 0
    number: int = 1
    pending: Sequence[str] = ()
    problem: str = ""

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, -(-self.found // PAGE_ITEMS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTool:
    """The tool to try; ``definition`` is None where the caller does not see it."""

    name: str
    definition: Mapping[str, Any] | None = None
    problem: str = ""

    @property
    def schema(self) -> object:
        """The schema of its arguments."""
        return (self.definition or {}).get("inputSchema", {})

    @property
    def description(self) -> str:
        """What it is for."""
        return str((self.definition or {}).get("description") or "")

    @property
    def is_read_only(self) -> bool:
        """Whether its server says that it changes nothing."""
        return _is_read_only(self.definition or {})


async def page_of_tools(page: PageRequest, caller: ToolCaller) -> ToolPage:
    """Return the page of the list that the address names."""
    try:
        listed = await _list(page, caller, {})
    except ApiRefused as error:
        return ToolPage(problem=_problem_of(error))
    tools = listed["tools"]
    fitting = [it for it in tools if _fits(it, page.query("q").lower())]
    pages = max(1, -(-len(fitting) // PAGE_ITEMS))
    number = min(max(1, page.number("page")), pages)
    return ToolPage(
        rows=[_row(it) for it in fitting[(number - 1) * PAGE_ITEMS : number * PAGE_ITEMS]],
        found=len(fitting),
        total=len(tools),
        number=number,
        pending=listed.get("pending") or (),
    )


async def find_tool(page: PageRequest, caller: ToolCaller, name: str) -> ChosenTool:
    """Return the tool of a name, with its definition if the caller sees it."""
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
    """List tools as the caller sees them. Raises ApiRefused.

    Who has no right to look for others is shown what the own token may use.
    """
    query = {**caller.query, **more}
    if page.may(OperatorRight.AUDIT) and not is_own(page, caller):
        active = await page.api.get("/internal/mcp/presets/active")
        query["preset_id"] = active["preset"]["id"]
    return await page.api.get(TOOLS_PATH, query)


def _fits(tool: Mapping[str, Any], words: str) -> bool:
    text = f"{tool.get('name')} {tool.get('title') or ''} {tool.get('description') or ''}".lower()
    return all(word in text for word in words.split())


def _row(tool: Mapping[str, Any]) -> ToolRow:
    lines = str(tool.get("description") or "").strip().splitlines() or [""]
    summary = lines[0] if len(lines[0]) <= MAX_SUMMARY_CHARS else f"{lines[0][:MAX_SUMMARY_CHARS]}…"
    name = str(tool.get("name"))
    return ToolRow(name=name, summary=summary, is_read_only=_is_read_only(tool))


def _is_read_only(tool: Mapping[str, Any]) -> bool:
    annotations = tool.get("annotations")
    return isinstance(annotations, Mapping) and annotations.get("readOnlyHint") is True
