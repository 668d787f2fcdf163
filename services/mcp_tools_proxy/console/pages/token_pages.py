"""Lists tokens, shows one, makes one, and revokes one."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic_core import to_json
from starlette.routing import Route

from mcp_tools_proxy.console.api_client import ApiRefused
from mcp_tools_proxy.console.forms import Form
from mcp_tools_proxy.console.page_endpoint import PageEndpoint, Pages
from mcp_tools_proxy.console.page_request import (
    Done,
    PageRequest,
    PageResult,
    PageView,
    page_address,
)
from mcp_tools_proxy.console.page_text import sentence
from mcp_tools_proxy.console.pages.tool_calls import PLACEHOLDER_URL
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.policy.token_limits import may_name_any_user

EXPIRIES: Sequence[tuple[str, str]] = (
    ("1d", "In 1 day"),
    ("7d", "In 7 days"),
    ("30d", "In 30 days"),
    ("90d", "In 90 days"),
    ("365d", "In 365 days"),
    ("other", "Custom"),
    ("never", "Never"),
)
DEFAULT_EXPIRY = "90d"

RIGHTS: Mapping[OperatorRight, str] = {
    OperatorRight.PRESETS: "switch presets, see server errors",
    OperatorRight.AUDIT: "see calls, access, and the tools of servers",
    OperatorRight.DOCUMENTS: "read, add and remove documents",
    OperatorRight.RUN: "try tools as another user",
    OperatorRight.TOKENS: "create and revoke tokens",
    OperatorRight.DEFINITIONS: "accept changed definitions of servers",
    OperatorRight.LOGINS: "see and end logins to servers",
    OperatorRight.CONFIG: "reconnect servers, change the log level",
}

_PLACE = re.compile(r"[.\[]")


class FieldProblems(Exception):
    """What is wrong with a form, by the name of the field; "" is the form as a whole."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = problems


def choices_of(maker: Principal) -> Mapping[str, Any]:
    """Return what the form offers: nobody gives away more than the own token may."""
    return {
        "expiries": EXPIRIES,
        "rights": [(right.value, RIGHTS[right]) for right in RIGHTS if right in maker.rights],
        "names_any_user": may_name_any_user(maker),
        "own_roles": maker.roles,
        "own_agents": None if maker.agents is None else sorted(maker.agents),
        "own_documents": None if maker.documents is None else sorted(maker.documents),
        "own_user": maker.user_id,
    }


def request_of(form: Form, maker: Principal) -> dict[str, object]:
    """Return the body of the request that a form means. Raises FieldProblems."""
    users = form.text("users")
    problems: dict[str, str] = {}
    if not (maker.tenant_id or form.text("tenant_id") or form.texts("rights")):
        problems["tenant_id"] = "Enter a tenant. Only tokens with operator rights can omit it."
    if users == "one" and not form.text("user_id"):
        problems["user_id"] = "Enter the user, or choose another option."
    if form.text("for_documents") == "some" and not _names(form, "documents"):
        problems["documents"] = "Enter at least one document, or choose another option."
    if form.text("expires") == "other" and not form.text("expires_at"):
        problems["expires"] = "Enter a duration or time, such as 12h, 2w or 2027-01-31T12:00:00Z."
    if problems:
        raise FieldProblems(problems)
    wanted = {
        "tenant_id": maker.tenant_id or form.text("tenant_id"),
        "user_id": maker.user_id or (form.text("user_id") if users == "one" else ""),
        "roles": [] if users == "asserted" else _names(form, "roles"),
        "asserts_users": users == "asserted",
        "agents": _names(form, "agents"),
        "rights": form.texts("rights"),
        "expires": _expiry(form),
        "note": form.text("note"),
    }
    body: dict[str, object] = {name: value for name, value in wanted.items() if value}
    match form.text("for_documents"):
        case "some":
            body["documents"] = _names(form, "documents")
        case "none":
            body["documents"] = []
    return body


def problem_by_field(message: str, details: Mapping[str, Any]) -> Mapping[str, str]:
    """Return what the API has against a request, by the field of the form that it is about."""
    place = details.get("field")
    if not isinstance(place, str):
        return {"": sentence(message)}
    field = _PLACE.split(place)[0]
    return {field: sentence(message.removeprefix(f"{place}: "))}


def _names(form: Form, field: str) -> list[str]:
    """Return the names of a text, and those chosen of the maker's own."""
    return [*form.texts(f"own_{field}"), *form.lines(field)]


def _expiry(form: Form) -> str:
    chosen = form.text("expires")
    if chosen == "never":
        return ""
    return form.text("expires_at") if chosen == "other" else chosen or DEFAULT_EXPIRY


API_PATH = "/internal/mcp/tokens"
LIST_PATH = "/console/tokens"
NEW_PATH = f"{LIST_PATH}/new"
REVOKE_PATH = f"{LIST_PATH}/revoke"

PAGE_TOKENS = 25

_DEFAULTS = (("users", "any"), ("for_documents", "any"), ("expires", DEFAULT_EXPIRY))


def token_page_routes(pages: Pages) -> Sequence[Route]:
    """Return the routes of this part."""
    made = _TokenMaker(pages.origin.public_url)
    return (
        Route(LIST_PATH, PageEndpoint(pages, GET=_list)),
        Route(NEW_PATH, PageEndpoint(pages, GET=made.show, POST=made.make)),
        Route(REVOKE_PATH, PageEndpoint(pages, GET=_show, POST=_revoke)),
    )


class _TokenMaker:
    """Makes tokens; examples of their use are to ``public_url``, if it is known."""

    def __init__(self, public_url: str | None) -> None:
        self._base = (public_url or PLACEHOLDER_URL).rstrip("/")

    async def show(self, page: PageRequest) -> PageResult:
        """Show the form; asks for one token, to find out whether any can be made here."""
        try:
            await page.api.get(API_PATH, {"limit": 1})
        except ApiRefused as error:
            return _not_here(page, error)
        form = Form([*_DEFAULTS, ("tenant_id", page.query("tenant_id"))])
        return _form(page, form, {})

    async def make(self, page: PageRequest) -> PageResult:
        """Create a token and show it, this once; or show the form again, with what is wrong."""
        try:
            body = request_of(page.form, page.operator)
        except FieldProblems as error:
            return _form(page, page.form, error.problems, HTTPStatus.BAD_REQUEST)
        try:
            token = await page.api.post(API_PATH, body)
        except ApiRefused as error:
            problems = problem_by_field(error.message, error.details)
            return _form(page, page.form, problems, error.status)
        context = {
            "token": _shown(token),
            "secret": token["token"],
            "base_url": self._base,
            "is_base_known": self._base != PLACEHOLDER_URL,
            "names_users": "user_id" not in token,
            "example": _example(token),
        }
        return PageView(template="token_made.html", context=context)


async def _list(page: PageRequest) -> PageResult:
    """List the tokens that the person may revoke, the newest first."""
    try:
        answer = await _page_of(page)
    except ApiRefused as error:
        return _not_here(page, error)
    return PageView(
        template="tokens.html",
        suggests=True,
        context={
            "tokens": [_shown(it) for it in answer["tokens"]],
            "problems": answer.get("problems", [])[:20],
            "tenant_id": page.tenant(),
            "cursor": page.query("cursor"),
            "next": _address(LIST_PATH, page, cursor=answer.get("next_cursor")),
            "own_id": page.operator.token_log_fields.get("token_id"),
        },
    )


async def _show(page: PageRequest) -> PageResult:
    """Show one token, and what its revocation ends."""
    try:
        wanted = page.query("token_id")
        answer = await page.api.get(API_PATH, {"token_id": wanted, "limit": 1})
    except ApiRefused as error:
        return _not_here(page, error)
    found = [it for it in answer["tokens"] if it["id"] == wanted]
    context = {
        "token": _shown(found[0]) if found else None,
        "is_own": wanted == page.operator.token_log_fields.get("token_id"),
        "revoking": page.query("revoke") == "1",
        "may_see_calls": page.may(OperatorRight.AUDIT),
    }
    status = HTTPStatus.OK if found else HTTPStatus.NOT_FOUND
    return PageView(template="token.html", context=context, status=status)


async def _revoke(page: PageRequest) -> PageResult:
    """Revoke one token."""
    token_id = page.form.text("token_id")
    try:
        await page.api.send("DELETE", API_PATH, {"token_id": token_id})
    except ApiRefused as error:
        return _not_here(page, error)
    return Done(path=LIST_PATH, message=f"Token {token_id} revoked.")


async def _page_of(page: PageRequest) -> Mapping[str, Any]:
    """Return the page of the list that the address names. Raises ApiRefused."""
    query = {"tenant_id": page.tenant(), "cursor": page.query("cursor"), "limit": PAGE_TOKENS}
    answer: Mapping[str, Any] = await page.api.get(API_PATH, query)
    return answer


def _not_here(page: PageRequest, error: ApiRefused) -> PageView:
    """Return a page that says why tokens are not looked after here. Raises any other refusal."""
    is_read_only = error.code == "CONFIG_READ_ONLY"
    if not is_read_only and not (error.code == "FORBIDDEN" and page.may(OperatorRight.TOKENS)):
        raise error
    context = {"reason": sentence(error.message), "is_read_only": is_read_only}
    return PageView(
        template="tokens_elsewhere.html",
        context=context,
        status=error.status if is_read_only else HTTPStatus.OK,
    )


def _form(
    page: PageRequest, form: Form, problems: Mapping[str, str], status: int = HTTPStatus.OK
) -> PageView:
    choices = choices_of(page.operator)
    shown = {"users", "tenant_id", "user_id", "roles", "agents", "documents", "rights", "expires"}
    return PageView(
        template="token_new.html",
        suggests=True,
        context={
            **choices,
            "form": form,
            "problems": problems,
            "others": [text for field, text in problems.items() if field not in shown],
            "own_tenant": page.tenant_id,
        },
        status=status,
    )


def _example(token: Mapping[str, Any]) -> str:
    """Return the body of a call as the holder of a token sends it."""
    body: dict[str, object] = {"tool_name": "list_available_tools", "arguments": {}}
    if "user_id" not in token:
        body["user"] = {"user_id": "ann"}
    if len(token.get("agents") or ()) > 1:
        body["agent"] = token["agents"][0]
    return to_json(body).decode().replace("'", "\\u0027")


def _shown(token: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a token with how near its end is: ok, warn, bad, or idle for none."""
    if token.get("expires") is None:
        kind, label = "idle", "never expires"
    elif token["is_expired"]:
        kind, label = "bad", "expired"
    elif token["expires_soon"]:
        kind, label = "warn", "expires soon"
    else:
        kind, label = "ok", "active"
    return {**token, "kind": kind, "label": label}


def _address(path: str, page: PageRequest, *, cursor: str | None) -> str | None:
    """Return a page of the list for the tenant of this one; None without a cursor for another."""
    if cursor is None:
        return None
    return page_address(path, {"tenant_id": page.query("tenant_id"), "cursor": cursor})
