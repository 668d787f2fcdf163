"""Every page of the console, with its address in the demo."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from tests.system.console.demo_gateway import (
    HANDBOOK,
    HOSTILE_DOC,
    OTHER_PRESET,
    OTHER_TENANT,
    PLANTED_NOTE,
    POLICY,
    PRESET,
    REFUSED_TRACE,
    RUN,
    TENANT,
    Demo,
)
from tests.system.console.demo_servers import HOSTILE_TOOL
from tests.system.console.planted import PLANTED, SHORT


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolePage:
    """A page, its parameters and status.

    ``token_note`` is the note of the token whose id the address requires."""

    name: str
    path: str
    query: Mapping[str, str]
    status: int = 200
    token_note: str = ""

    def address(self, demo: Demo) -> str:
        more = {"token_id": demo.token_ids[self.token_note]} if self.token_note else {}
        query = urlencode({**self.query, **more})
        return f"{self.path}?{query}" if query else self.path


def _page(
    name: str,
    path: str = "",
    query: Mapping[str, str] | None = None,
    *,
    status: int = 200,
    token_note: str = "",
) -> ConsolePage:
    path = f"/console{path}"
    return ConsolePage(
        name=name, path=path, query=query or {}, status=status, token_note=token_note
    )


_CALLER = {"tenant_id": TENANT, "user_id": "ann"}
_HANDBOOK = {"tenant_id": TENANT, "doc_id": HANDBOOK}
_MARKUP = {"tenant_id": TENANT, "doc_id": HOSTILE_DOC}
_COMPARED = {"compare": "yes", "other_preset_id": PRESET, "other_agent": "helpdesk"}
HOSTILE_TOOL_NAME = f"hostile:{HOSTILE_TOOL}"

PAGES = [
    _page("overview"),
    _page("overview-of-a-tenant", "", {"tenant_id": OTHER_TENANT}),
    _page("no-page", "/nothing", status=404),
    _page("visibility-of-nobody", "/visibility", {"agent": "nobody"}, status=422),
    _page("servers", "/servers"),
    _page("server", "/servers/weather"),
    _page("server-away", "/servers/tickets"),
    _page("server-changes", "/servers/notes", {"tab": "changes"}),
    _page("server-logins", "/servers/weather", {"tab": "logins"}),
    _page("server-item", "/servers/weather", {"kind": "tool", "name": "forecast"}),
    _page("server-of-markup", "/servers/hostile"),
    _page("server-item-of-markup", "/servers/hostile", {"kind": "tool", "name": HOSTILE_TOOL}),
    _page("server-changes-none", "/servers/hostile", {"tab": "changes"}),
    _page("server-unknown", "/servers/none", status=404),
    _page("visibility", "/visibility"),
    _page("visibility-compared", "/visibility", {"preset_id": OTHER_PRESET} | _CALLER | _COMPARED),
    _page(
        "visible-tool-of-markup",
        "/visibility/tool",
        {"name": HOSTILE_TOOL_NAME, "preset_id": PRESET},
    ),
    _page("why-not-seen", "/visibility/why", {"tool": "notes:search", "tenant_id": TENANT}),
    _page("why-seen", "/visibility/why", {"tool": "weather:forecast", "tenant_id": TENANT}),
    _page("why-markup", "/visibility/why", {"tool": PLANTED, "tenant_id": SHORT, "user_id": SHORT}),
    _page("try", "/try", _CALLER),
    _page("try-for-nobody", "/try"),
    _page("try-a-tool", "/try", {"tool": "weather:forecast"} | _CALLER),
    _page("try-markup", "/try", {"tool": HOSTILE_TOOL_NAME} | _CALLER),
    _page("approvals-for-people-only", "/approvals", status=403),
    _page("approval-for-people-only", "/approvals/none", status=403),
    _page("calls", "/calls"),
    _page("calls-of-anything", "/calls", {"event": "all"}),
    _page(
        "calls-filtered", "/calls", {"tenant_id": TENANT, "tool": "weather:forecast", "code": "OK"}
    ),
    _page("calls-none", "/calls", {"user_id": SHORT, "tool": PLANTED[:100]}),
    _page("calls-refused", "/calls", {"cursor": "none"}, status=422),
    _page("calls-live", "/calls", {"live": "1"}),
    _page("call", "/calls/trace", {"trace_id": REFUSED_TRACE}),
    _page("run", "/calls/run", {"run_id": RUN, "tenant_id": TENANT}),
    _page("run-of-markup", "/calls/run", {"run_id": PLANTED[:200], "tenant_id": TENANT}),
    _page("run-of-nobody", "/calls/run", {"run_id": SHORT, "user_id": SHORT}, status=404),
    _page("run-to-find", "/calls/run"),
    _page("call-missing", "/calls/999999", status=404),
    _page("limits", "/limits"),
    _page("limits-of-a-tenant", "/limits", {"tenant_id": OTHER_TENANT}),
    _page("limits-of-anybody", "/limits", {"tenant_id": SHORT, "user_id": SHORT}),
    _page("documents", "/documents"),
    _page("documents-of-a-tenant", "/documents", {"tenant_id": TENANT}),
    _page("documents-none", "/documents", {"tenant_id": SHORT}),
    _page("document", "/documents/read", _HANDBOOK),
    _page(
        "document-section",
        "/documents/read",
        {"tenant_id": TENANT, "doc_id": POLICY, "section": "s3"},
    ),
    _page("document-picture", "/documents/read", {"view": "picture"} | _HANDBOOK),
    _page("document-of-markup", "/documents/read", _MARKUP),
    _page(
        "document-missing", "/documents/read", {"tenant_id": TENANT, "doc_id": SHORT}, status=404
    ),
    _page("document-facts", "/documents/manage", _HANDBOOK),
    _page("document-facts-of-markup", "/documents/manage", _MARKUP),
    _page("documents-search", "/documents/search", {"query": "trips"} | _CALLER),
    _page("document-search", "/documents/search", {"query": "markup"} | _MARKUP),
    _page("documents-verify", "/documents/verify", {"tenant_id": TENANT}),
    _page("document-verify", "/documents/verify", _HANDBOOK),
    _page("documents-upload", "/documents/upload"),
    _page("documents-uploads", "/documents/uploads"),
    _page("tokens", "/tokens"),
    _page("tokens-of-a-tenant", "/tokens", {"tenant_id": TENANT}),
    _page("tokens-none", "/tokens", {"tenant_id": SHORT}),
    _page("token-new", "/tokens/new"),
    _page("token", "/tokens/revoke", {"revoke": "1"}, token_note="trial"),
    _page("token-of-markup", "/tokens/revoke", token_note=PLANTED_NOTE),
    _page("help", "/help/tokens-and-limits"),
    _page("help-of-approvals", "/help/approvals"),
    _page("help-missing", "/help/none", status=404),
    _page("token-missing", "/tokens/revoke", {"token_id": "none"}, status=404),
]
"""Every page, as shown with the admin token."""

SIGNED_OUT_PAGES = [
    _page("sign-in", "/sign-in"),
    _page("ended", "/sign-in", {"ended": "1"}),
    _page("help-of-the-console", "/help/console"),
]

NO_PAGES: Mapping[str, str] = {
    "/console/begin": "the page of a one-time link, which is not there with an admin token",
    "/console/callback": "the way back from an issuer, which is not there",
    "/console/assets/{name}": "files of the pages",
    "/console/calls/export": "a file with the records of the page of calls",
    "/console/calls/stream": "events of the page of live calls",
    "/console/documents/picture": "a picture of the page that shows one",
}
"""Console addresses that are not listed pages, with the reason."""
