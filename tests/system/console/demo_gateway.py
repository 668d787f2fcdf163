"""The gateway for tests of the console, with servers, callers and documents of all kinds."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from mcp_tools_proxy.auth.token_format import TokenEntry
from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.domain.document import Document, Readers, Section
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.support.builders import make_document
from tests.support.configuration import Config, make_agent, make_preset, make_rule
from tests.support.program import Program, started, wait_until
from tests.support.program_launch import ROOT, run
from tests.support.service import EXECUTE, SERVERS, TOOLS, request_of
from tests.system.console.demo_servers import CHANGED_FLAG, HOSTILE_TOOL
from tests.system.console.planted import PLANTED, SHORT

ADMIN = "correct-horse-battery"
TENANT, OTHER_TENANT = "acme", "initech"
AWAY = "tickets"
HANDBOOK, POLICY, HOSTILE_DOC, TERMS = "handbook", "travel-policy", "markup", "terms"
PRESET, OTHER_PRESET = "support", "all"
REFUSED_TRACE = "refused-search"
RUN = "trip-to-berlin"
CONTENT = "/internal/documents/content"
PLANTED_NOTE = PLANTED[:200]

_SETTINGS = {
    "MCP_PROXY_CONSOLE": "true",
    "MCP_PROXY_ADMIN_TOKEN": ADMIN,
    "MCP_PROXY_AUTH_MODE": "token",
    "MCP_PROXY_TOKENS_FILE": "tokens.jsonl",
    "MCP_PROXY_REQUIRE_AGENT": "false",
    "MCP_PROXY_DEFINITIONS": "pin",
    "MCP_PROXY_DOCUMENTS_PATH": "documents",
    "MCP_PROXY_DOCUMENTS_KEEP_ORIGINALS": "true",
    "MCP_PROXY_RETRIEVAL_WINDOW_URL": "local",
    "MCP_PROXY_RATE_LIMIT_CALLS": "0",
    "MCP_PROXY_RATE_LIMIT_TOKENS": "0",
    "MCP_PROXY_RATE_LIMIT_TENANT_CALLS": "2000",
    "MCP_PROXY_CONSOLE_TRACE_URL": "https://traces.example/trace/{trace_id}",
    "MCP_PROXY_CONSOLE_DASHBOARD_URL": "https://dashboards.example/d/gateway",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """A running gateway; ``tokens`` and their ids are by note."""

    program: Program
    folder: Path
    tokens: Mapping[str, str]
    token_ids: Mapping[str, str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.program.port}"

    def call(
        self, tool: str, arguments: Mapping[str, object] | None = None, **more: object
    ) -> httpx.Response:
        user = {"user_id": more.pop("user_id", "ann"), "tenant_id": TENANT}
        token = self.tokens[str(more.pop("token", "chat service"))]
        body = {**request_of(tool, arguments), "user": user, **more}
        return self.program.http.post(EXECUTE, json=body, headers=_bearer(token))

    @property
    def lock_file(self) -> Path:
        return self.folder / "config/definitions.lock.json"

    def quarantined(self) -> list[str]:
        """Return the names of items that are hidden because their definitions changed."""
        path = "/internal/mcp/definitions"
        answer = self.program.http.get(path, headers=_bearer(ADMIN)).json()
        return [it["name"] for it in answer["items"] if it["quarantined"]]

    def status_with(self, token: str) -> int:
        return self.program.http.get(TOOLS, headers=_bearer(token)).status_code

    def put_document(self, doc_id: str, text: str) -> None:
        _put(self.program, doc_id, "text/markdown", text.encode())

    def remove_document(self, doc_id: str) -> None:
        params = {"tenant_id": TENANT, "doc_id": doc_id}
        headers = {**_bearer(ADMIN), "If-Match": "*"}
        self.program.http.delete(CONTENT, params=params, headers=headers)


@contextmanager
def running_demo(folder: Path, *, has_markup: bool = True) -> Iterator[Demo]:
    """Start the demo in an empty folder with past calls.

    ``has_markup`` adds a hostile server, document, token and callers."""
    _config(has_markup=has_markup).write(folder / "config")
    documents = [*_documents(), *([_hostile_document()] if has_markup else [])]
    for document in documents:
        write_document(folder / "documents", document, replace=False)
    entries = _tokens(folder / "tokens.jsonl", has_markup=has_markup)
    run(folder, "check", "--lock", fresh=False, **_SETTINGS)
    assert (folder / "config/definitions.lock.json").exists()
    (folder / CHANGED_FLAG).touch()
    with started(folder, _SETTINGS) as program:
        demo = Demo(
            program=program,
            folder=folder,
            tokens={note: token for note, (token, _) in entries.items()},
            token_ids={note: entry.id for note, (_, entry) in entries.items()},
        )
        handbook = (ROOT / "examples/handbook.pdf").read_bytes()
        _put(program, HANDBOOK, "application/pdf", handbook, title="Handbook", tag="vpn")
        wait_until(lambda: all(it == "ready" for it in _states(program)))
        _make_calls(demo)
        if has_markup:
            _make_hostile_calls(demo)
        yield demo


def _states(program: Program) -> list[str]:
    answer = program.http.get(SERVERS, headers=_bearer(ADMIN)).json()
    return [it["state"] for it in answer["servers"] if it["server_id"] != AWAY]


def _server(name: str) -> dict[str, object]:
    args = ["-m", "tests.system.console.demo_servers", name]
    return {"command": sys.executable, "args": args, "env": {"PYTHONPATH": str(ROOT)}}


def _config(*, has_markup: bool) -> Config:
    servers = {"weather": _server("weather"), "notes": _server("notes")}
    servers[AWAY] = {"url": "http://127.0.0.1:9/mcp"}
    if has_markup:
        servers["hostile"] = _server("hostile")
    shown = [("weather", "forecast"), ("weather", "radar"), ("weather", "calibrate")]
    noted = [("notes", "search"), ("notes", "add"), ("notes", "vanished")]
    markup = [("hostile", HOSTILE_TOOL), ("hostile", SHORT)] if has_markup else []
    return Config(
        servers=servers,
        presets=[
            {**make_preset(PRESET, tools=[*shown, *noted[:1], *markup]), "name": "Support desk"},
            {
                **make_preset(OTHER_PRESET, tools=[*shown, *noted, *markup, (AWAY, "open")]),
                "name": "Everything",
            },
        ],
        agents=[
            make_agent("helpdesk", client_ids=["weather", "notes"], exclude=["weather:calibrate"]),
            make_agent("reader", client_ids=[], documents=[HANDBOOK]),
        ],
        limits=[
            make_rule("trial", {"tenant": OTHER_TENANT}, each=["tenant"], calls=12, window_s=86_400)
        ],
        more={"defaultPresetId": PRESET},
    )


def _documents() -> list[Document]:
    pages = [
        f"{number}. Trips of {number} days are paid for by the day." for number in range(1, 25)
    ]
    sections = {
        f"s{number}": Section(
            section_id=f"s{number}",
            title=f"Trips, part {number}",
            page_start=number,
            page_end=number,
        )
        for number in range(1, 25)
    }
    return [
        make_document(
            tenant_id=TENANT, doc_id=POLICY, title="Travel policy", pages=pages, sections=sections
        ),
        make_document(tenant_id=OTHER_TENANT, doc_id=TERMS, title="Terms of the trial"),
    ]


def _hostile_document() -> Document:
    return make_document(
        tenant_id=TENANT,
        doc_id=HOSTILE_DOC,
        title=PLANTED,
        pages=[f"Markup {PLANTED}", PLANTED],
        sections={SHORT: Section(section_id=SHORT, title=PLANTED, page_start=1, page_end=1)},
        tags=[SHORT],
        readers=Readers(users=frozenset({SHORT, "ann"}), roles=frozenset({SHORT})),
    )


def _tokens(path: Path, *, has_markup: bool) -> Mapping[str, tuple[str, TokenEntry]]:
    now = datetime.now(UTC)
    rights = frozenset({OperatorRight.AUDIT, OperatorRight.DOCUMENTS, OperatorRight.TOKENS})
    wanted: list[tuple[str, Principal, timedelta | None]] = [
        ("chat service", Principal(tenant_id=TENANT, asserts_users=True), timedelta(days=90)),
        (
            "trial",
            Principal(tenant_id=OTHER_TENANT, agents=frozenset({"helpdesk"})),
            timedelta(days=5),
        ),
        ("desk of acme", Principal(tenant_id=TENANT, rights=rights), None),
        ("former service", Principal(tenant_id=TENANT, user_id="bot"), timedelta(days=-1)),
    ]
    if has_markup:
        wanted.append((PLANTED_NOTE, Principal(tenant_id=TENANT, user_id=SHORT), None))
    return {
        note: add_token(
            path,
            principal,
            created=now - timedelta(days=30),
            expires=None if lasts is None else now + lasts,
            note=note,
        )
        for note, principal, lasts in wanted
    }


def _put(program: Program, doc_id: str, kind: str, content: bytes, **facts: str) -> None:
    response = program.http.put(
        CONTENT,
        params={"tenant_id": TENANT, "doc_id": doc_id, **facts},
        content=content,
        headers={**_bearer(ADMIN), "Content-Type": kind, "If-None-Match": "*"},
    )
    assert response.status_code == 201, response.text


def _make_calls(demo: Demo) -> None:
    place = {"place": {"name": "Berlin"}}
    for number in range(1, 7):
        demo.call("weather:forecast", {**place, "days": number}, agent="helpdesk")
    for name in ("ann", "jo", "kim"):
        demo.call("weather:radar", {"seconds": 0.05}, user_id=name)
        demo.call("search_documents", {"query": "trips"}, user_id=name)
    demo.call("weather:forecast", {**place, "days": 99})
    demo.call("weather:calibrate", {"station": "north"})
    demo.call("notes:search", {"query": "quarantined"}, trace_id=REFUSED_TRACE)
    demo.call("tickets:open", {})
    run = {"id": RUN}
    demo.call("search_documents", {"query": "trips"}, run=run)
    demo.call("read_doc_pages", {"doc_id": HANDBOOK, "page_start": 1, "page_end": 2}, run=run)
    demo.call("weather:forecast", {**place, "days": 3}, run=run, agent="helpdesk")
    demo.call("notes:search", {"query": "trips"}, run={**run, "read_only": True})
    headers = _bearer(demo.tokens["trial"])
    for _ in range(11):
        body = request_of("weather:radar", {"seconds": 0}, tenant_id=OTHER_TENANT)
        demo.program.http.post(EXECUTE, json=body, headers=headers)


def _make_hostile_calls(demo: Demo) -> None:
    demo.call("hostile:markup", {}, user_id=SHORT, run={"id": PLANTED[:200]})
    demo.call("hostile:markup", {SHORT: "fails"})
    demo.call(PLANTED[:100], {}, user_id=SHORT)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def main() -> None:
    """Run the demo until interrupted, for manual inspection; prints its address."""
    folder = Path(sys.argv[1])
    with running_demo(folder) as demo:
        json.dump({"url": demo.url, "token": ADMIN}, sys.stdout)
        sys.stdout.flush()
        demo.program.process.wait(3600)


if __name__ == "__main__":
    main()
