"""Pages of servers: list, and details with state, tools, changed definitions and logins."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote

from mcp_tools_proxy.console.api_client import DEFINITIONS, LOGINS, OVERVIEW, SERVERS, ApiRefused
from mcp_tools_proxy.console.page_request import (
    Done,
    ListPage,
    PageRequest,
    PageResult,
    PageView,
    Routes,
    page_address,
)
from mcp_tools_proxy.console.page_text import sentence
from mcp_tools_proxy.console.pages.definition_changes import (
    PAGE_CHANGES,
    PART_COST,
    definitions_of,
    facts,
    parts_of,
    shown_changes,
)
from mcp_tools_proxy.console.pages.offered_items import show_item, show_offers
from mcp_tools_proxy.domain.definitions import DefinitionsMode
from mcp_tools_proxy.domain.errors import InvalidRequest, RouteNotFound
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.http.api.overview_routes import ServerCallsAnswer
from mcp_tools_proxy.http.api.server_routes import ServerAnswer
from mcp_tools_proxy.policy.definitions.comparison import DefinitionStatus

MAX_POLLS = 5
"""Automatic refreshes, every 2 s, while a server is connecting."""

PAGE_SERVERS = 50
"""400 servers on one page took 171 kB; each can have an error and a problem."""

SORTED_BY = ("total", "errors", "not_sent", "p99_ms")
"""Sort columns of the list, in descending order."""

LIST_PATH = "/console/servers"

_TO_REVIEW = (DefinitionStatus.CHANGED, DefinitionStatus.NEW, DefinitionStatus.UNLOCKED)

PAGE_LOGINS = 40

_OF_STATES: Mapping[str, str] = {
    "connecting": "First connection attempt in progress.",
    "unreachable": "Never connected; retrying at least every 30 seconds. Its tools are unknown "
    "until the first connection. Check that the server runs at the “url” of its entry, or that its "
    "“command” can be started.",
    "reconnecting": "Connection lost; retrying at least every 30 seconds. Its tools stay listed.",
    "failed": "The server is reachable but does not work with its entry in mcp.json. The gateway "
    "retries every few minutes, and when the entry changes.",
    "login_required": "Sign-in required before the gateway can use this server.",
    "disabled": "Disabled by “enabled”: false in its entry in mcp.json. Remove it to enable the "
    "server.",
    "invalid": "Its entry in mcp.json is invalid. Changes to the file are applied within a second. "
    "Restart the gateway after changing a variable or a setting.",
}


def server_path(server_id: str, **query: object) -> str:
    """Return the address of a server's page."""
    return page_address(f"{LIST_PATH}/{quote(server_id, safe='')}", query)


def _list_path(**query: object) -> str:
    return page_address(LIST_PATH, query)


async def list_servers(page: PageRequest) -> PageResult:
    """List the servers with their state and recent calls."""
    servers = (await page.api.read(SERVERS)).servers
    calls = await calls_of_servers(page)
    sort = page.query("sort")
    rows = [(server, (calls or {}).get(server.server_id)) for server in servers]
    sort = sort if sort in SORTED_BY else ""
    if sort:
        rows.sort(key=lambda row: getattr(row[1], sort, None) or 0, reverse=True)
    slowest = max((it.p99_ms or 0 for _, it in rows if it is not None), default=0)
    context = {
        "servers": ListPage.part(rows, page, PAGE_SERVERS, partial(_list_path, sort=sort)),
        "shows_calls": calls is not None,
        "slowest_ms": slowest,
        "sort": sort,
        "changed": await _changed(page),
    }
    return PageView(template="servers.html", context=context)


async def _changed(page: PageRequest) -> Mapping[str, int]:
    """Return the number of unaccepted definitions by server, for operators with that right."""
    if not is_for_all(page, OperatorRight.DEFINITIONS):
        return {}
    answer = await page.api.read(DEFINITIONS)
    if answer.mode is DefinitionsMode.OPEN:
        return {}
    return Counter(it.server_id for it in answer.items if it.status in _TO_REVIEW)


async def _show(page: PageRequest) -> PageResult:
    """Show a server with the selected tab, or one item or change of it."""
    server = await _server_of(page)
    if page.query("part") == "state":
        return PageView(template="server.html", context=_state_of(page, server))
    if page.query("kind") and is_for_all(page, OperatorRight.AUDIT):
        return await show_item(page, server)
    if page.query("change") and is_for_all(page, OperatorRight.DEFINITIONS):
        return await _show_change(page, server)
    return await _show_tab(page, server)


async def _act(page: PageRequest) -> PageResult:
    """Run the action of a button on a server's page."""
    server = await _server_of(page)
    action = page.form.text("action")
    if action == "reconnect":
        return await _reconnect(page, server)
    if action == "accept":
        return await _accept(page, server)
    if action == "end_login":
        message = await end_login(page, server.server_id)
        return Done(path=server_path(server.server_id, tab="logins"), message=message)
    raise InvalidRequest("action: unknown action of a server page; reload the page")


async def _reconnect(page: PageRequest, server: ServerAnswer) -> PageResult:
    server_id = server.server_id
    await page.api.send("POST", f"/internal/mcp/servers/{server_id}/reconnect")
    return Done(
        path=server_path(server_id, polls=MAX_POLLS),
        message=f"Reconnecting {server_id}. Press “Refresh” to see the result.",
    )


async def _accept(page: PageRequest, server: ServerAnswer) -> PageResult:
    """Accept the definition that was shown; if it has changed since, show the new difference."""
    form, server_id = page.form, server.server_id
    kind, name = form.text("kind"), unquote(form.text("name"))
    body = {"server_id": server_id, "kind": kind, "name": name, "sha256": form.text("sha256")}
    try:
        await page.api.send("PUT", DEFINITIONS.path, body=body)
    except ApiRefused as error:
        if error.code not in ("VERSION_MISMATCH", "CONFIG_READ_ONLY", "INVALID_REQUEST"):
            raise
        problem = (
            "Not accepted: the definition has changed since you opened it. Review the new "
            "difference below."
            if error.code == "VERSION_MISMATCH"
            else sentence(f"Not accepted: {error.message}")
        )
        return await _show_tab(page, server, "changes", problem, error.status)
    what = "instructions" if kind == "instructions" else f"{kind} {name[:80]}"
    return Done(
        path=server_path(server_id, tab="changes"),
        message=sentence(f"{what} accepted. Callers now get the new definition."),
    )


async def _server_of(page: PageRequest) -> ServerAnswer:
    """Return the server in the path. Raises RouteNotFound."""
    wanted: str = page.request.path_params["server_id"]
    for server in (await page.api.read(SERVERS)).servers:
        if server.server_id == wanted:
            return server
    raise RouteNotFound("mcp.json has no server with this ID; choose one from the list of servers")


async def _show_tab(
    page: PageRequest,
    server: ServerAnswer,
    tab: str = "",
    problem: str = "",
    status: int = HTTPStatus.OK,
) -> PageView:
    tabs = _tabs(page)
    wanted = tab or page.query("tab")
    current = wanted if wanted in dict(tabs) else next(iter(dict(tabs)), "")
    calls = await calls_of_servers(page)
    context: dict[str, Any] = {
        **_state_of(page, server),
        "calls": None if calls is None else calls.get(server.server_id, {"total": 0}),
        "tabs": tabs,
        "tab": current,
        "problem": problem,
    }
    match current:
        case "offers":
            context |= await show_offers(
                page, server.server_id, partial(server_path, server.server_id, tab="offers")
            )
        case "changes":
            context |= await _changes(page, server)
        case "logins":
            context |= await show_logins(page, server.server_id)
    return PageView(template="server.html", suggests=True, context=context, status=status)


def _state_of(page: PageRequest, server: ServerAnswer) -> dict[str, Any]:
    """Return the template context of a server's state; refreshing it is not recorded."""
    state = server.state
    is_on = state not in ("disabled", "invalid")
    is_polled = "polls" in page.request.query_params
    polls = MAX_POLLS if state in ("connecting", "reconnecting") else 0
    if is_polled and state != "ready":
        polls = min(page.number("polls"), MAX_POLLS)
    return {
        "server": server,
        "calls": None,
        "advice": advice_on(server),
        "command": server.sign_in_command,
        "may_reconnect": is_on and is_for_all(page, OperatorRight.CONFIG),
        "polls": polls if is_on and (is_polled or state != "ready") else None,
    }


def _tabs(page: PageRequest) -> list[tuple[str, str]]:
    tabs = []
    if is_for_all(page, OperatorRight.AUDIT):
        tabs.append(("offers", "Tools and resources"))
    if is_for_all(page, OperatorRight.DEFINITIONS):
        tabs.append(("changes", "Changed definitions"))
    if page.may(OperatorRight.LOGINS):
        tabs.append(("logins", "Logins"))
    return tabs


async def _changes(page: PageRequest, server: ServerAnswer) -> Mapping[str, Any]:
    definitions = await definitions_of(page, server.server_id)
    address = partial(server_path, server.server_id, tab="changes")
    return {
        "mode": definitions.mode,
        "lock": definitions.lock,
        "listing": (listing := ListPage.part(definitions.items, page, PAGE_CHANGES, address)),
        "changes": shown_changes(listing.rows),
    }


async def _show_change(page: PageRequest, server: ServerAnswer) -> PageView:
    """Show one change in parts; the last part has the button that accepts it.

    If the definition has changed since, the first part is shown again.
    """
    definitions = await definitions_of(page, server.server_id)
    kind, name = page.query("change"), page.request.query_params.get("name", "")
    found = [it for it in definitions.items if (it.kind, it.name) == (kind, name)]
    parts = parts_of(found[0], PART_COST) if found else []
    change = facts(found[0]) if found else None
    is_another = change is not None and page.query("sha256") not in ("", change["sha256"])
    part = 1 if is_another or not page.query("sha256") else page.number("part")
    part = min(max(part, 1), max(len(parts), 1))
    context = {
        "server": server,
        "mode": definitions.mode,
        "change": change,
        "is_another": is_another,
        "fields": parts[part - 1] if parts else [],
        "part": part,
        "part_count": len(parts),
    }
    status = HTTPStatus.OK if found else HTTPStatus.NOT_FOUND
    return PageView(template="definition_change.html", context=context, status=status)


def advice_on(server: ServerAnswer) -> list[str]:
    """Return the meaning of the server's state and advice; empty if it works."""
    advice = [_OF_STATES[server.state]] if server.state in _OF_STATES else []
    if server.stale:
        advice.append("Its lists could not be refreshed and may be out of date.")
    return advice


async def show_logins(page: PageRequest, server_id: str) -> Mapping[str, Any]:
    """Return the template context of the logins tab: logins, or why they cannot be shown."""
    shown = {"tenant_id": page.tenant(), "user_id": page.query("user_id")}
    try:
        logins = (await page.api.read(LOGINS, {"server_id": server_id, **shown})).logins
    except ApiRefused as error:
        if error.status == HTTPStatus.FORBIDDEN and page.may(OperatorRight.LOGINS):
            return {**shown, "logins_elsewhere": error.message}
        if error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
            return {
                **shown,
                "logins": [],
                "login_problem": sentence(error.message),
                "logins_left_out": 0,
            }
        raise
    return {
        **shown,
        "logins": logins[:PAGE_LOGINS],
        "logins_left_out": max(len(logins) - PAGE_LOGINS, 0),
    }


async def end_login(page: PageRequest, server_id: str) -> str:
    """End one login, and return a message for the user."""
    form = page.form
    query = {
        "server_id": server_id,
        "for": form.text("for"),
        "tenant_id": page.tenant_id or unquote(form.text("tenant_id")),
        "user_id": unquote(form.text("user_id")),
    }
    answer = await page.api.send("DELETE", LOGINS.path, query)
    if answer.json["removed"]:
        return "Login ended: revoked at its issuer and deleted here."
    return "The login had already ended."


def is_for_all(page: PageRequest, right: OperatorRight) -> bool:
    """Return whether the user has a right for all tenants, required for server-wide actions."""
    return page.may(right) and page.tenant_id is None


async def calls_of_servers(page: PageRequest) -> Mapping[str, ServerCallsAnswer] | None:
    """Return the calls of the last hour by server; None without the right to see them."""
    if not page.may(OperatorRight.AUDIT):
        return None
    calls = (await page.api.read(OVERVIEW, {"tenant_id": page.tenant_id})).calls
    by_server = () if calls is None else calls.by_server
    return {it.server_id: it for it in by_server if it.server_id is not None}


ROUTES: Routes = {
    LIST_PATH: {"GET": list_servers},
    f"{LIST_PATH}/{{server_id:path}}": {"GET": _show, "POST": _act},
}
