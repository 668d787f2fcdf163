"""For whom a tool is run, as forms and addresses name the caller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_tools_proxy.console.forms import Form
from mcp_tools_proxy.console.navigation import TRY_PATH
from mcp_tools_proxy.console.page_request import PageRequest, page_address
from mcp_tools_proxy.domain.identity import OperatorRight


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCaller:
    """The caller; "" and () are what is not named."""

    tenant_id: str = ""
    user_id: str = ""
    agent: str = ""
    roles: Sequence[str] = ()
    documents: Sequence[str] = ()

    @property
    def context(self) -> dict[str, Any]:
        """What the body of a request names of the caller."""
        user: dict[str, Any] = {"user_id": self.user_id, "tenant_id": self.tenant_id}
        if self.roles:
            user["roles"] = [*self.roles]
        context: dict[str, Any] = {"user": {key: it for key, it in user.items() if it}}
        if self.agent:
            context["agent"] = self.agent
        if self.documents:
            context["documents"] = [*self.documents]
        return context

    @property
    def query(self) -> dict[str, object]:
        """What the query of a list names of the caller."""
        return {
            "tenant_id": self.tenant_id,
            "user_id": self.user_id,
            "agent": self.agent,
            "roles": self.roles,
            "documents": self.documents,
        }

    @property
    def problems(self) -> dict[str, str]:
        """What is missing for a call, by field."""
        needed = {"tenant_id": "Enter a tenant.", "user_id": "Enter a user."}
        return {key: text for key, text in needed.items() if not getattr(self, key)}

    def path(self, **more: object) -> str:
        """Return the address of the page for this caller."""
        lists = {"roles": ",".join(self.roles), "documents": ",".join(self.documents)}
        return page_address(TRY_PATH, {**self.query, **lists, **more})


def caller_of(page: PageRequest, form: Form) -> ToolCaller:
    """Return the caller that a form names; who may run nothing for others is the caller himself."""
    own_tenant, own_user = page.operator.own_name or ("", "")
    tenant_id = page.tenant_id or form.text("tenant_id") or ""
    user_id = form.text("user_id")
    if not page.may(OperatorRight.RUN):
        tenant_id, user_id = own_tenant, own_user
    elif own_user and "user_id" not in form.names():
        user_id = own_user
    return ToolCaller(
        tenant_id=tenant_id,
        user_id=user_id,
        agent=page.agents.chosen(form.text("agent")),
        roles=form.lines("roles"),
        documents=form.lines("documents"),
    )


def is_own(page: PageRequest, caller: ToolCaller) -> bool:
    """Return whether the API takes a call of this caller as one in the person's own name."""
    named = (caller.tenant_id, caller.user_id)
    return page.operator.own_name == named and set(caller.roles) <= set(page.operator.roles)


def form_of(values: Mapping[str, Any]) -> Form:
    """Return a kept try as the form that it was made by."""
    fields = [(key, it) for key, it in values.items() if isinstance(it, str)]
    lists = [
        (key, "\n".join(map(str, it)))
        for key, it in values.items()
        if isinstance(it, list) and key in ("roles", "documents")
    ]
    return Form([*fields, *lists])
