"""Answers over HTTP and MCP, and log lines, for acceptance criteria: names, codes and structure."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from mcp_tools_proxy.wire.version import VERSION
from tests.connector.backend_link import begun, linked_to_one
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Json, make_agent, make_preset
from tests.support.golden_answers import check_answers, without_json_rpc
from tests.support.goldens import Golden
from tests.support.http_api import EVERYTHING, two_servers
from tests.support.mcp_endpoint import BOTH, INITIALIZE, LEGACY, TENANT
from tests.support.service import (
    ACTIVE,
    BATCH,
    EXECUTE,
    PRESETS,
    PROMPTS,
    RESOURCES,
    SERVERS,
    TOOLS,
    Service,
    request_of,
    running,
)

DOC: Json = {"doc_id": "doc_1"}
QUERY: Json = {"query": "empty password", "max_results": 1}
USER: Json = {"user_id": "u", "tenant_id": "t"}
ONLY_A = make_preset("only_a", tools=[("a", "whoami"), ("a", "alpha")])
PRESET_FILES = [
    {**preset, "createdAtEpochMillis": number} for number, preset in enumerate([EVERYTHING, ONLY_A])
]
EXCLUDED = ["tool:alpha", "prompt:alpha", "resource:raw://alpha"]
AGENTS = (
    make_agent("of_a", client_ids=["a"]),
    make_agent("of_none", client_ids=[]),
    make_agent("without_alpha", exclude=EXCLUDED),
)


class Request(NamedTuple):
    """A request to the HTTP API or to MCP."""

    path: str
    body: object = None
    headers: Mapping[str, str] = {}
    method: str = ""


def call(tool: str, arguments: Json | None = None) -> Request:
    return Request(EXECUTE, request_of(tool, arguments))


def use(path: str, body: Json, agent: str | None = None) -> Request:
    return Request(path, {**body, "user": USER, **({"agent": agent} if agent else {})})


LOCAL = {
    "T-01 an argument too many": call("verify_quote", DOC | {"quote": "a", "pages": 1}),
    "T-01 a missing argument": call("read_doc_pages", DOC),
    "T-02 a chunk window": call("read_chunk_window", DOC | {"anchor_chunk_id": "p1-c1"}),
    "T-02 a window too large": call(
        "read_chunk_window", DOC | {"anchor_chunk_id": "p1-c1", "window_before": 99}
    ),
    "T-04 an unknown document": call("read_doc_metadata", {"doc_id": "missing"}),
    "T-04 a document of another tenant": call("read_doc_metadata", {"doc_id": "foreign"}),
    "T-05 metadata": call("read_doc_metadata", DOC),
    "T-05 a section": call("read_doc_section", DOC | {"section_id": "sec_intro"}),
    "T-05 an unknown section": call("read_doc_section", DOC | {"section_id": "missing"}),
    "T-05 pages": call("read_doc_pages", DOC | {"page_start": 1, "page_end": 1}),
    "T-05 pages after the last": call("read_doc_pages", DOC | {"page_start": 90, "page_end": 90}),
    "T-05 too many pages": call("read_doc_pages", DOC | {"page_start": 1, "page_end": 90}),
    "T-05 a list of documents": call("list_documents"),
    "T-05 a search of all documents": call("search_documents", QUERY),
    "T-05 a quote": call("verify_quote", DOC | {"quote": "not in the document"}),
    "T-06 a blocked word": call("doc_local_search", DOC | {"query": "forbidden"}),
    "T-07 a search": call("doc_local_search", DOC | QUERY),
    "T-07 a search that finds nothing": call("doc_local_search", DOC | {"query": "zebra"}),
    "not JSON": Request(EXECUTE, b"{"),
    "no user": Request(EXECUTE, {"tool_name": "list_documents"}),
    "an unknown route": Request("/internal/mcp/missing"),
    "a wrong method": Request(EXECUTE, method="GET"),
}
DOWNSTREAM = {
    "P-06 tools": Request(TOOLS),
    "P-06 tools of a model's API": Request(f"{TOOLS}?format=openai&names=a:alpha"),
    "P-08 a tool that the preset does not name": use(EXECUTE, {"tool_name": "a:echo"}),
    "P-10 prompts": Request(PROMPTS),
    "P-12 resources": Request(RESOURCES),
    "P-20 presets": Request(PRESETS),
    "P-20 the active preset": Request(ACTIVE),
    "P-20 an unknown preset": Request(ACTIVE, {"preset_id": "missing"}, method="PUT"),
    "F-06 a tool": use(EXECUTE, {"tool_name": "a:alpha"}),
    "F-07 an unknown name": use(EXECUTE, {"tool_name": "alfa"}),
    "F-07 a malformed name": use(EXECUTE, {"tool_name": "a:"}),
    "F-10 an unknown server": use(EXECUTE, {"tool_name": "b:alpha"}),
    "F-13 a prompt": use(f"{PROMPTS}/get", {"name": "alpha"}),
    "F-13 a resource": use(f"{RESOURCES}/read", {"uri": "raw://alpha"}),
    "F-15 an unknown prompt": use(f"{PROMPTS}/get", {"name": "missing"}),
    "F-15 an unknown resource": use(f"{RESOURCES}/read", {"uri": "raw://missing"}),
    "F-16 a batch": use(BATCH, {"calls": [{"tool_name": "alpha"}, {"tool_name": "missing"}]}),
    "F-24 servers": Request(SERVERS),
    "A-03 tools of an agent": Request(f"{TOOLS}?agent=of_a"),
    "A-04 tools of an agent without servers": Request(f"{TOOLS}?agent=of_none"),
    "A-05 an excluded tool": use(EXECUTE, {"tool_name": "a:alpha"}, "without_alpha"),
    "A-08 a name of two servers, for an agent of one": use(
        EXECUTE, {"tool_name": "whoami"}, "of_a"
    ),
    "A-09 a tool of another server": use(EXECUTE, {"tool_name": "a-b:beta"}, "of_a"),
    "A-09 a prompt of another server": use(f"{PROMPTS}/get", {"name": "beta"}, "of_a"),
    "A-10 a name of two servers": use(EXECUTE, {"tool_name": "whoami"}),
    "A-11 an excluded prompt": use(f"{PROMPTS}/get", {"name": "alpha"}, "without_alpha"),
    "A-11 an excluded resource": use(f"{RESOURCES}/read", {"uri": "raw://alpha"}, "without_alpha"),
    "an unknown agent": use(EXECUTE, {"tool_name": "a:alpha"}, "missing"),
}
LIMITED = {
    "T-08 the first call": call("read_doc_metadata", DOC),
    "T-09 a call too many": call("read_doc_metadata", DOC),
}


def message(method: str, params: Json | None = None, number: int | None = 1) -> Json:
    body: Json = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return body if number is None else body | {"id": number}


SESSION = {
    "F-05 a notification": Request("/mcp", message("notifications/initialized", number=None)),
    "F-05 a ping": Request("/mcp", message("ping")),
    "F-05 an unknown method": Request("/mcp", message("missing/method")),
    "F-06 a tool": Request("/mcp", message("tools/call", {"name": "a:alpha"})),
    "F-07 an unknown name": Request("/mcp", message("tools/call", {"name": "alfa"})),
    "F-09 a tool outside of the view": Request("/mcp", message("tools/call", {"name": "a:echo"})),
    "F-11 tools": Request("/mcp", message("tools/list")),
    "F-11 prompts": Request("/mcp", message("prompts/list")),
    "F-11 resources": Request("/mcp", message("resources/list")),
    "F-11 templates": Request("/mcp", message("resources/templates/list")),
    "F-13 a prompt": Request("/mcp", message("prompts/get", {"name": "alpha"})),
    "F-13 a resource": Request("/mcp", message("resources/read", {"uri": "raw://alpha"})),
    "F-15 an unknown prompt": Request("/mcp", message("prompts/get", {"name": "missing"})),
    "F-15 an unknown resource": Request("/mcp", message("resources/read", {"uri": "raw://x"})),
    "F-05 the end": Request("/mcp", method="DELETE"),
    "F-05 after the end": Request("/mcp", message("ping")),
}
"""Requests of one session of an older era, in order."""

WITHOUT_SESSION = {
    "F-03 legacy HTTP+SSE without an id": Request("/mcp/sse", message("ping")),
    "F-03 legacy HTTP+SSE with an unknown id": Request("/mcp/sse?sessionId=x", message("ping")),
    "F-05 an unknown session": Request("/mcp", message("ping"), {"Mcp-Session-Id": "x"}),
}

HEADERS = (
    "allow",
    "content-type",
    "mcp-session-id",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
)
VARYING = re.compile(
    r"(?P<trace>\b[0-9a-f]{32}\b)|(?P<time>\d{4}-\d\d-\d\dT[\d:.]+Z)|(?P<sha>\b[0-9a-f]{64}\b)"
    r"|(?P<port>(?<=127\.0\.0\.1:)\d+)|(?P<rest>(?<=;t=)\d+|(?<=retry in )\d+)"
)
CODED = re.compile(r"[A-Z_]{4,}: ")
NUMBERS = frozenset({"connect_ms", "generation", "reset_s", "retry_after_s", "score", "similarity"})
LONG_TEXTS = frozenset({"snippet", "text"})
MAX_TEXT = 60


def without_varying(value: object, key: str = "") -> object:
    """Return JSON with placeholders for varying values and long content."""
    match value:
        case Mapping():
            rest = {name: without_varying(it, name) for name, it in value.items()}
            return without_json_rpc(rest | tools_of(value))
        case list():
            return [without_varying(it, key) for it in value]
        case str() if key in LONG_TEXTS and len(value) > MAX_TEXT and not CODED.match(value):
            return "TEXT"
        case str() if value == VERSION:
            return "VERSION"
        case str():
            return VARYING.sub(lambda found: str(found.lastgroup).upper(), value)
        case int() | float() if key in NUMBERS:
            return "NUMBER"
    return value


def tools_of(value: Mapping[str, Any]) -> Json:
    """Return the names in a list of tools; the other fields are in ``tools.txt``."""
    tools = value.get("tools")
    if not isinstance(tools, list):
        return {}
    return {"tools": [(it.get("function") or it)["name"] for it in tools]}


async def answer_of(service: Service, request: Request) -> Json:
    body = request.body if isinstance(request.body, bytes) else json.dumps(request.body).encode()
    method = request.method or ("GET" if request.body is None else "POST")
    content = None if request.body is None else body
    headers = {"Content-Type": "application/json", **BOTH, **request.headers}
    response = await service.http.request(method, request.path, content=content, headers=headers)
    return {"status": response.status_code, **headers_of(response), **body_of(response)}


def headers_of(response: httpx.Response) -> Json:
    found = {name: response.headers[name] for name in HEADERS if name in response.headers}
    if "mcp-session-id" in found:
        found["mcp-session-id"] = "SESSION"
    if "retry-after" in found:
        found["retry-after"] = "NUMBER"
    return {f"header {name}": without_varying(value) for name, value in found.items()}


def body_of(response: httpx.Response) -> Json:
    """Return the JSON of a body or of a stream's events; other bodies unchanged."""
    kind = response.headers.get("content-type", "")
    if kind.startswith("application/json"):
        return {"body": without_varying(response.json())}
    if kind.startswith("text/event-stream"):
        data = (it.removeprefix("data: ") for it in response.text.splitlines() if "data: " in it)
        return {"body": [without_varying(json.loads(it)) for it in data]}
    return {"body": response.text} if response.text else {}


async def answers_of(
    service: Service, requests: Mapping[str, Request], headers: Mapping[str, str] | None = None
) -> Json:
    return {
        case: await answer_of(service, it._replace(headers={**(headers or {}), **it.headers}))
        for case, it in requests.items()
    }


async def test_answers_of_local_tools_match_the_golden(golden: Golden) -> None:
    foreign = make_document(tenant_id="tenant_2", doc_id="foreign")
    async with running(
        foreign, retrieval_window_url="local", blocklist_keywords="forbidden"
    ) as service:
        answers = await answers_of(service, LOCAL)
    async with running() as service:
        name = "T-03 no Retrieval Service"
        answers |= await answers_of(service, {name: LOCAL["T-02 a chunk window"]})
    async with running(unlimited=False, rate_limit_calls=1) as service:
        answers |= await answers_of(service, LIMITED)
    check_answers(golden, "answers_local", answers)


async def test_answers_of_servers_tools_match_the_golden(golden: Golden) -> None:
    async with two_servers(*AGENTS, presets=PRESET_FILES, require_agent=False) as two:
        answers = await answers_of(two.service, DOWNSTREAM)
    check_answers(golden, "answers_downstream", answers)


async def test_answers_over_mcp_match_the_golden(golden: Golden) -> None:
    """In an older era; the newer one is in ``stateless_posts.txt``."""
    async with two_servers() as two:
        begin = Request("/mcp", message("initialize", INITIALIZE))
        answers = await answers_of(two.service, {"F-05 initialize": begin}, TENANT)
        opened = await two.service.http.post(
            "/mcp", json=begin.body, headers={**BOTH, **TENANT, "Content-Type": "application/json"}
        )
        session = {**TENANT, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
        answers |= await answers_of(two.service, SESSION, session)
        answers |= await answers_of(two.service, WITHOUT_SESSION, TENANT)
    check_answers(golden, "answers_mcp", answers)


CALLS = {
    "F-20 a call that succeeds": DOWNSTREAM["F-06 a tool"],
    "F-21 a prompt that the server does not have": DOWNSTREAM["F-15 an unknown prompt"],
    "F-22 a tool outside of the view": DOWNSTREAM["P-08 a tool that the preset does not name"],
    "F-22 a prompt that the profile excludes": DOWNSTREAM["A-11 an excluded prompt"],
    "F-22 a resource that the profile excludes": DOWNSTREAM["A-11 an excluded resource"],
    "F-16 a batch": use(BATCH, {"calls": [{"tool_name": "a:alpha"}]}),
    "a local tool": use(EXECUTE, {"tool_name": "list_documents"}),
    "a refused request": LOCAL["no user"],
    "a list": DOWNSTREAM["P-06 tools"],
}


async def test_log_lines_of_calls_match_the_golden(golden: Golden) -> None:
    """The events in order, with their fields."""
    lines: list[str] = []
    async with two_servers(*AGENTS, require_agent=False) as two:
        for case, request in CALLS.items():
            with capture_logs() as logged:
                await answer_of(two.service, request)
            lines.append(case)
            for number, line in enumerate(logged, 1):
                fields = sorted(line.keys() - {"event", "log_level"})
                lines.append(f"  {number} {line['event']}: {', '.join(fields)}")
    golden.check("log_lines.txt", lines)


FRAMES: Mapping[str, tuple[str, Json]] = {
    "W-06 tools": ("tools/list", {}),
    "W-12 a call": ("tools/call", {"name": "s1:echo", "arguments": {"text": "x"}}),
    "W-12 a call of an unknown tool": ("tools/call", {"name": "missing"}),
    "W-14 a prompt": ("prompts/get", {"name": "plain"}),
}


async def test_frames_of_the_connector_match_the_golden(golden: Golden) -> None:
    answers: Json = {}
    async with linked_to_one("echo") as (_, backend, _):
        session = await begun(backend, LEGACY)
        for case, (method, params) in FRAMES.items():
            await session.send(message(method, params))
            await session.receive()
            frame = json.loads(backend.frames[-1])
            answers[case] = without_varying({**frame, "session_identifier": "SESSION"})
    check_answers(golden, "answers_connector", answers)
