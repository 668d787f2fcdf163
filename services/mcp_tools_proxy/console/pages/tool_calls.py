"""Tool calls by pages: callers, code samples, and advice on errors."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from mcp_tools_proxy.console.api_client import EXECUTE_PATH, TRIES_PATH, ApiRefused
from mcp_tools_proxy.console.forms import Form
from mcp_tools_proxy.console.navigation import TRY_PATH
from mcp_tools_proxy.console.page_request import PageRequest, page_address
from mcp_tools_proxy.console.page_text import is_plain, visible_json
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.http.api.document_models import DocumentReaders
from mcp_tools_proxy.wire.mcp_protocol import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META_KEY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCaller:
    """The caller of a tool; unset values are "" or ()."""

    tenant_id: str = ""
    user_id: str = ""
    agent: str = ""
    roles: Sequence[str] = ()
    documents: Sequence[str] = ()

    @property
    def context(self) -> dict[str, Any]:
        """The caller's fields in a request body."""
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
        """The caller's parameters in the query of a list."""
        return {
            "tenant_id": self.tenant_id,
            "user_id": self.user_id,
            "agent": self.agent,
            "roles": self.roles,
            "documents": self.documents,
        }

    @property
    def problems(self) -> dict[str, str]:
        """Missing values by field."""
        needed = {"tenant_id": "Enter a tenant.", "user_id": "Enter a user."}
        return {key: text for key, text in needed.items() if not getattr(self, key)}

    def path(self, **more: object) -> str:
        """Return the address of the try page for this caller."""
        lists = {"roles": ",".join(self.roles), "documents": ",".join(self.documents)}
        return page_address(TRY_PATH, {**self.query, **lists, **more})


def caller_of(page: PageRequest, form: Form) -> ToolCaller:
    """Return the caller in a form; without the right to run for others, the users themselves."""
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
    """Return whether the API treats the call as made by the signed-in user."""
    named = (caller.tenant_id, caller.user_id)
    return page.operator.own_name == named and set(caller.roles) <= set(page.operator.roles)


def form_of(values: Mapping[str, Any]) -> Form:
    """Return the form of a saved try."""
    fields = [(key, it) for key, it in values.items() if isinstance(it, str)]
    lists = [
        (key, "\n".join(map(str, it)))
        for key, it in values.items()
        if isinstance(it, list) and key in ("roles", "documents")
    ]
    return Form([*fields, *lists])


_VISIBILITY = (
    'See "Access" for the tools of this caller. "Explain without running" shows the rule and its '
    "file."
)
_ARGUMENTS = "Correct the arguments named in the message and run the tool again."
_DOCUMENT = 'See "Documents" for the documents of this tenant.'
_LATER = "Try again later."
_SERVER = 'See "Servers" for the server’s state and last error.'
_LOGIN = (
    'See "Servers" for its logins. When you run a tool as another user, the logins and secrets of '
    "that user and tenant are never used, so the call may still work for the actual user."
)
_CHECK_FIRST = "The server may have completed the call. Check there before you run it again."

ADVICE: Mapping[str, str] = {
    "INVALID_REQUEST": _ARGUMENTS,
    "PAYLOAD_TOO_LARGE": "Send less, or raise MCP_PROXY_MAX_REQUEST_BYTES.",
    "NO_ROOM": _LATER,
    "UNAUTHENTICATED": "Sign in again.",
    "FORBIDDEN": "The message names the missing right or the allowed caller.",
    "AUDIT_UNAVAILABLE": "Nothing ran because the call could not be recorded. Check the audit log.",
    "SHUTTING_DOWN": "This replica is stopping. Run the tool again on another replica.",
    "AGENT_NOT_FOUND": "Choose an agent defined in agents.json.",
    "AGENT_REQUIRED": "Choose an agent. The gateway or the token has more than one.",
    "TOOL_NOT_FOUND": "Choose a tool from the list. The server may have renamed the tool.",
    "TOOL_NOT_ALLOWED": _VISIBILITY,
    "AMBIGUOUS_NAME": "Several servers offer a tool with this name. Choose one from the list.",
    "INVALID_ARGUMENTS": _ARGUMENTS,
    "PAGE_SPAN_TOO_LARGE": "Read fewer pages per call.",
    "WINDOW_TOO_LARGE": "Request a smaller window.",
    "IDENTITY_REQUIRED": "The server requires the caller’s identity. Enter the missing part.",
    "CONTENT_BLOCKED": "An argument contains a blocked word. Rephrase it.",
    "GUARD_REFUSED": "The message names the guard. Guards are set in mcp.json or the preset.",
    "POLICY_DENIED": "A policy, the run's own limits, or a person forbids the call.",
    "POLICY_UNAVAILABLE": "Fix the files in policies, or wait until their servers are connected.",
    "RUN_REQUIRED": "A policy needs a run. Send run.id with the call.",
    "RUN_EXPIRED": "The run has ended. Use a new id.",
    "LOOP_STOPPED": "The run repeated a failing call, or has reached a limit. See its page.",
    "APPROVAL_PENDING": 'A second person decides under "Approvals". Then run the same call again.',
    "IDEMPOTENCY_CONFLICT": "Use a new idempotency key for each call.",
    "OUTCOME_UNKNOWN": _CHECK_FIRST,
    "STATE_UNAVAILABLE": _LATER,
    "RATE_LIMIT_EXCEEDED": 'A budget of the tenant is used up. See "Limits" for its reset time.',
    "LIMITS_UNAVAILABLE": 'Fix limits.json. "Overview" shows its errors.',
    "ACCESS_DENIED": "The document belongs to another tenant, or this caller is not among its "
    'readers. "Explain without running" shows the reason.',
    "DOCUMENT_NOT_FOUND": _DOCUMENT,
    "DOCUMENTS_UNAVAILABLE": _LATER,
    "VERSION_GONE": "Omit the version: the document has been replaced since.",
    "SECTION_NOT_FOUND": "Use read_doc_metadata to list the sections of the document.",
    "PAGES_NOT_FOUND": "Use read_doc_metadata to get the number of pages.",
    "PAGE_IMAGE_UNAVAILABLE": "No image of this page is stored. Read its text with read_doc_pages.",
    "CHUNK_NOT_FOUND": "Use a chunk_id from a search result.",
    "RETRIEVAL_UNAVAILABLE": _LATER,
    "RETRIEVAL_NOT_CONFIGURED": "Set MCP_PROXY_RETRIEVAL_WINDOW_URL, for example to local.",
    "CREDENTIALS_MISSING": _LOGIN,
    "CREDENTIALS_INSUFFICIENT": _LOGIN,
    "LOGIN_REQUIRED": _LOGIN,
    "SERVER_UNAVAILABLE": _SERVER,
    "SERVER_BUSY": _LATER,
    "TOOL_TIMEOUT": _CHECK_FIRST,
    "TOOL_FAILED": "The tool reported an error. Read its message and correct the call.",
    "RESULT_TOO_LARGE": "Request less data per call, or raise MCP_PROXY_MAX_RESULT_BYTES.",
    "INTERNAL_ERROR": "Internal error of the gateway. Search its log for the trace ID.",
}


def advice_on(code: object) -> str:
    """Return advice on an error code, or ""."""
    return ADVICE.get(str(code), "")


PLACEHOLDER_URL = "http://HOST:PORT"
"""Replaces the gateway's address in examples if it is unknown."""

DOCUMENTS_META_KEY = "io.github.mcp-tools-proxy/documents"
MAX_SAMPLE_CHARS = 8_000
"""Longer arguments are not repeated in samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSamples:
    """Samples of one call in three formats."""

    curl: str
    python: str
    mcp: str


def samples_of(
    public_url: str | None, caller: ToolCaller, tool_name: str, arguments: object
) -> CallSamples | None:
    """Return the samples of a call to the public address, if known; None if they are too long."""
    base = (public_url or PLACEHOLDER_URL).rstrip("/")
    body = {"tool_name": tool_name, "arguments": arguments, **caller.context}
    if len(json.dumps(body)) > MAX_SAMPLE_CHARS:
        return None
    return CallSamples(
        curl=_curl(f"{base}{EXECUTE_PATH}", body),
        python=_python(f"{base}{EXECUTE_PATH}", body),
        mcp=_mcp(base, caller, tool_name, arguments),
    )


def _curl(url: str, body: Mapping[str, Any]) -> str:
    return (
        f"curl -sS {_shell(url)} \\\n"
        '  -H "Authorization: Bearer $TOKEN" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  --data-binary {_shell(visible_json(body))}"
    )


def _shell(text: str) -> str:
    """Quote a text for a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _python(url: str, body: Mapping[str, Any]) -> str:
    return (
        "import os\n\nimport httpx\n\n"
        "answer = httpx.post(\n"
        f"    {_literal(url, '    ')},\n"
        '    headers={"Authorization": f"Bearer {os.environ[\'TOKEN\']}"},\n'
        f"    json={_literal(body, '    ')},\n"
        "    timeout=60,\n"
        ")\n"
        "print(answer.json())"
    )


def _literal(value: object, indent: str) -> str:
    """Return a JSON value as a Python expression; following lines begin with ``indent``."""
    inner = f"{indent}    "
    match value:
        case str():
            return _python_text(value)
        case dict() if value:
            pairs = (f"{_python_text(key)}: {_literal(it, inner)}" for key, it in value.items())
            return "{\n" + "".join(f"{inner}{pair},\n" for pair in pairs) + indent + "}"
        case list() if value:
            items = (_literal(it, inner) for it in value)
            return "[\n" + "".join(f"{inner}{item},\n" for item in items) + indent + "]"
    return repr(value)


def _python_text(text: str) -> str:
    """Quote a text for Python; JSON would write characters above U+FFFF as two escapes."""
    return "".join(['"', *(_python_character(it) for it in text), '"'])


def _python_character(char: str) -> str:
    if char in '"\\\n\t' or (char != "\r" and is_plain(char)):
        return json.dumps(char, ensure_ascii=False)[1:-1]
    return f"\\U{ord(char):08x}" if ord(char) > 0xFFFF else f"\\u{ord(char):04x}"


def _mcp(base: str, caller: ToolCaller, tool_name: str, arguments: object) -> str:
    version = MODERN_VERSIONS[-1]
    meta: dict[str, object] = {
        PROTOCOL_VERSION_META_KEY: version,
        CLIENT_INFO_META_KEY: {"name": "my-agent", "version": "1"},
        CLIENT_CAPABILITIES_META_KEY: {},
    }
    if caller.documents:
        meta[DOCUMENTS_META_KEY] = [*caller.documents]
    content = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool_name, "arguments": arguments, "_meta": meta},
    }
    agent = f"/agents/{quote(caller.agent, safe='')}" if caller.agent else ""
    headers = [
        "Authorization: Bearer TOKEN",
        f"X-Tenant-Id: {caller.tenant_id}",
        f"X-User-Id: {caller.user_id}",
        *([f"X-User-Roles: {','.join(quote(it) for it in caller.roles)}"] if caller.roles else ()),
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"MCP-Protocol-Version: {version}",
        "Mcp-Method: tools/call",
        f"Mcp-Name: {_header(tool_name)}",
    ]
    return "\n".join([f"POST {base}/mcp{agent}", *headers, "", visible_json(content)])


def _header(text: str) -> str:
    """Return a text as a header value, in Base64 unless it is printable ASCII."""
    is_simple = text.isascii() and text.isprintable() and text == text.strip()
    if is_simple and not text.startswith("=?"):
        return text
    return f"=?base64?{b64encode(text.encode()).decode()}?="


ANYBODY = "console"
"""User for reading documents that all users of a tenant may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """The result of a tool and its duration in milliseconds."""

    result: Mapping[str, Any]
    elapsed_ms: float


def user_of_tenant(
    page: PageRequest, tenant_id: str, user_id: str = "", roles: Sequence[str] = ()
) -> ToolCaller:
    """Return the caller to run tools as: the named user, otherwise a default user of the tenant.

    Users without the right to run for others always run as themselves.
    """
    if not page.may(OperatorRight.RUN):
        tenant_id, user_id = page.operator.own_name or (tenant_id, user_id)
        roles = ()
    return ToolCaller(
        tenant_id=tenant_id, user_id=user_id or ANYBODY, roles=roles, agent=page.agent()
    )


def reader_of(page: PageRequest, tenant_id: str, readers: DocumentReaders | None) -> ToolCaller:
    """Return a caller among a document's readers, if possible."""
    users, roles = ([], []) if readers is None else (readers.users, readers.roles)
    return user_of_tenant(page, tenant_id, users[0] if users else "", roles[:1])


async def run_tool(
    page: PageRequest, tool_name: str, arguments: Mapping[str, object], caller: ToolCaller
) -> ToolRun:
    """Run a tool. Raises ApiRefused, also for errors of the tool."""
    body = {"tool_name": tool_name, "arguments": arguments, **caller.context}
    envelope = await page.api.post(TRIES_PATH, body)
    if envelope["status"] != "ok":
        raise ApiRefused(422, envelope["error"])
    return ToolRun(result=envelope["result"], elapsed_ms=envelope["elapsed_ms"])
