"""Pages to list, show, create and revoke tokens."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic_core import to_json

from mcp_tools_proxy.console.api_client import NEW_TOKEN, TOKENS, ApiRefused
from mcp_tools_proxy.console.forms import Form
from mcp_tools_proxy.console.page_request import (
    Done,
    ListPage,
    PageHandler,
    PageRequest,
    PageResult,
    PageView,
    Routes,
    page_address,
)
from mcp_tools_proxy.console.page_text import sentence
from mcp_tools_proxy.console.pages.tool_calls import PLACEHOLDER_URL
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.http.api.token_routes import NewToken, TokenItem
from mcp_tools_proxy.policy.token_rights import may_name_any_user

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
    OperatorRight.APPROVE: "approve calls of other users, with a token that makes no calls",
    OperatorRight.TOKENS: "create and revoke tokens",
    OperatorRight.DEFINITIONS: "accept changed definitions of servers",
    OperatorRight.LOGINS: "see and end logins to servers",
    OperatorRight.CONFIG: "reconnect servers, change the log level",
}


def choices_of(maker: Principal) -> Mapping[str, Any]:
    """Return the choices of the form, limited to the permissions of the creator's token."""
    return {
        "expiries": EXPIRIES,
        "rights": [(right.value, RIGHTS[right]) for right in RIGHTS if right in maker.rights],
        "names_any_user": may_name_any_user(maker),
        "own_roles": maker.roles,
        "own_agents": None if maker.agents is None else sorted(maker.agents),
        "own_documents": None if maker.documents is None else sorted(maker.documents),
        "own_user": maker.user_id,
        "makes_calls": maker.executes,
    }


def problems_in(form: Form, maker: Principal) -> Mapping[str, str]:
    """Return errors for missing values, by field."""
    problems: dict[str, str] = {}
    if not (maker.tenant_id or form.text("tenant_id") or form.texts("rights")):
        problems["tenant_id"] = "Enter a tenant. Only tokens with operator rights can omit it."
    if form.text("users") == "one" and not form.text("user_id"):
        problems["user_id"] = "Enter the user, or choose another option."
    if form.text("for_documents") == "some" and not _names(form, "documents"):
        problems["documents"] = "Enter at least one document, or choose another option."
    if form.text("expires") == "other" and not form.text("expires_at"):
        problems["expires"] = "Enter a duration or time, such as 12h, 2w or 2027-01-31T12:00:00Z."
    return problems


def request_of(form: Form, maker: Principal) -> dict[str, object]:
    """Return the API request body for a form."""
    users = form.text("users")
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
    if form.text("no_calls") or not maker.executes:
        body["execute"] = False
    match form.text("for_documents"):
        case "some":
            body["documents"] = _names(form, "documents")
        case "none":
            body["documents"] = []
    return body


def _names(form: Form, field: str) -> list[str]:
    """Return the names typed and those selected from the creator's own."""
    return [*form.texts(f"own_{field}"), *form.lines(field)]


def _expiry(form: Form) -> str:
    chosen = form.text("expires")
    if chosen == "never":
        return ""
    return form.text("expires_at") if chosen == "other" else chosen or DEFAULT_EXPIRY


LIST_PATH = "/console/tokens"
NEW_PATH = f"{LIST_PATH}/new"
REVOKE_PATH = f"{LIST_PATH}/revoke"

PAGE_TOKENS = 25

_DEFAULTS = (("users", "any"), ("for_documents", "any"), ("expires", DEFAULT_EXPIRY))


def _or_elsewhere(show: PageHandler) -> PageHandler:
    """Return a handler that explains why tokens are not managed here, if so."""

    async def shown(page: PageRequest) -> PageResult:
        try:
            return await show(page)
        except ApiRefused as error:
            return _not_here(page, error)

    return shown


async def _show_form(page: PageRequest) -> PageResult:
    """Show the form; list one token to check whether tokens are managed here."""
    await page.api.read(TOKENS, {"limit": 1})
    return _form(page, Form([*_DEFAULTS, ("tenant_id", page.query("tenant_id"))]), {})


async def _create(page: PageRequest) -> PageResult:
    """Create a token and show its secret once; if invalid, show the form with errors."""
    if problems := problems_in(page.form, page.operator):
        return _form(page, page.form, problems, HTTPStatus.BAD_REQUEST)
    try:
        token = await page.api.submit(NEW_TOKEN, request_of(page.form, page.operator))
    except ApiRefused as error:
        return _form(page, page.form, {error.field: error.sentence}, error.status)
    base_url = page.site.public_url or PLACEHOLDER_URL
    context = {
        "token": token,
        "base_url": base_url.rstrip("/"),
        "is_base_known": base_url != PLACEHOLDER_URL,
        "names_users": token.user_id is None,
        "example": _example(token),
    }
    return PageView(template="token_made.html", context=context)


async def _list(page: PageRequest) -> PageResult:
    """List the tokens that the user may revoke, newest first."""
    query = {"tenant_id": page.tenant(), "cursor": page.query("cursor"), "limit": PAGE_TOKENS}

    def address(**more: object) -> str:
        return page_address(LIST_PATH, {"tenant_id": page.query("tenant_id"), **more})

    answer = await page.api.read(TOKENS, query)
    return PageView(
        template="tokens.html",
        suggests=True,
        context={
            "tokens": ListPage.after_cursor(answer.tokens, page, answer.next_cursor, address),
            "problems": (answer.problems or [])[:20],
            "tenant_id": page.tenant(),
            "state_of": _state,
            "own_id": page.operator.token_log_fields.get("token_id"),
        },
    )


async def _show(page: PageRequest) -> PageResult:
    """Show one token and the effect of revoking it."""
    wanted = page.query("token_id")
    tokens = (await page.api.read(TOKENS, {"token_id": wanted, "limit": 1})).tokens
    found = next((it for it in tokens if it.id == wanted), None)
    context = {
        "token": found,
        "state_of": _state,
        "is_own": wanted == page.operator.token_log_fields.get("token_id"),
        "revoking": page.query("revoke") == "1",
    }
    status = HTTPStatus.OK if found else HTTPStatus.NOT_FOUND
    return PageView(template="token.html", context=context, status=status)


async def _revoke(page: PageRequest) -> PageResult:
    token_id = page.form.text("token_id")
    await page.api.send("DELETE", TOKENS.path, {"token_id": token_id})
    return Done(path=LIST_PATH, message=f"Token {token_id} revoked.")


def _not_here(page: PageRequest, error: ApiRefused) -> PageView:
    """Return the page explaining why tokens are not managed here. Re-raises other refusals."""
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
        },
        status=status,
    )


def _example(token: NewToken) -> str:
    """Return an example request body for the token's holder."""
    body: dict[str, object] = {"tool_name": "list_available_tools", "arguments": {}}
    if token.user_id is None:
        body["user"] = {"user_id": "ann"}
    if token.agents and len(token.agents) > 1:
        body["agent"] = token.agents[0]
    return to_json(body).decode().replace("'", "\\u0027")


def _state(token: TokenItem) -> tuple[str, str]:
    """Return the expiry state: display kind (ok, warn, bad, idle) and label."""
    if token.expires is None:
        return "idle", "never expires"
    if token.is_expired:
        return "bad", "expired"
    return ("warn", "expires soon") if token.expires_soon else ("ok", "active")


ROUTES: Routes = {
    LIST_PATH: {"GET": _or_elsewhere(_list)},
    NEW_PATH: {"GET": _or_elsewhere(_show_form), "POST": _create},
    REVOKE_PATH: {"GET": _or_elsewhere(_show), "POST": _or_elsewhere(_revoke)},
}
