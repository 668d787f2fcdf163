"""The form that a token is made by: what it offers, and the request that it becomes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_tools_proxy.console.forms import Form
from mcp_tools_proxy.console.sentences import sentence
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
