"""The logins to one server: those of the deployment, or of a tenant; and how one is ended."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from mcp_tools_proxy.console.api_client import ApiRefused
from mcp_tools_proxy.console.page_request import PageRequest
from mcp_tools_proxy.console.sentences import sentence
from mcp_tools_proxy.domain.identity import OperatorRight

API_PATH = "/internal/mcp/logins"
PAGE_LOGINS = 40


async def show_logins(page: PageRequest, server_id: str) -> Mapping[str, Any]:
    """Return what the tab shows: the logins, or why there are none to be shown here."""
    shown = {"tenant_id": page.tenant(), "user_id": page.query("user_id")}
    try:
        answer = await page.api.get(API_PATH, {"server_id": server_id, **shown})
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
    logins = answer["logins"]
    return {
        **shown,
        "logins": logins[:PAGE_LOGINS],
        "logins_left_out": max(len(logins) - PAGE_LOGINS, 0),
    }


async def end_login(page: PageRequest, server_id: str) -> str:
    """End one login, and return what to say of it."""
    form = page.form
    query = {
        "server_id": server_id,
        "for": form.text("for"),
        "tenant_id": page.tenant_id or unquote(form.text("tenant_id")),
        "user_id": unquote(form.text("user_id")),
    }
    answer = await page.api.send("DELETE", API_PATH, query)
    if answer.json["removed"]:
        return "Login ended: revoked at its issuer and deleted here."
    return "The login had already ended."
