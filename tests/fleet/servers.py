"""The fleet: pinned third-party MCP servers from npm and PyPI, each with sample calls.

In commands, environments and arguments, ``{folder}`` is a folder with the files of ``make_folder``:
one for the gateway's process of a server, another for the process that it is compared with.
``{url}`` is the gateway itself, a web server on this machine; ``{postgres}`` is a database.
"""

import base64
import json
import os
import sqlite3
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.interop.everything_server import node
from tests.support.mcp_servers.server_programs import ROOT
from tests.support.office_files import relations_of, zip_of

Json = dict[str, Any]
Call = tuple[str, Json]

HERE = Path(__file__).parent
DEAD = "http://127.0.0.1:1"
OFFLINE = {
    "HOME": "{folder}",
    "NODE_OPTIONS": f'--require "{HERE / "loopback_only.cjs"}"',  # its path may contain a space
    **dict.fromkeys(["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"], DEAD),
    "NO_PROXY": "127.0.0.1",
}
"""The environment of every server: nothing leaves this machine or is kept for the next run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server's command and its sample calls."""

    command: Sequence[str]
    calls: Sequence[Call]
    env: dict[str, str] = field(default_factory=dict)
    differs: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions of values that differ between processes, each with the reason."""

    def entry(self, **values: str) -> Json:
        command, *args = self.command
        entry = {"command": command, "args": args, "env": OFFLINE | self.env, "cwd": "{folder}"}
        filled: Json = fill(entry, **values)
        return filled


def fill(value: Any, **values: str) -> Any:
    """Replace ``{folder}`` and the other placeholders in all texts of a JSON value."""
    text = json.dumps(value)
    for name, replacement in values.items():
        text = text.replace(f"{{{name}}}", json.dumps(replacement)[1:-1])
    return json.loads(text)


def npm(program: str, *args: str, **more: Any) -> Server:
    return _server([node(), str((HERE / "node_modules/.bin" / program).resolve()), *args], **more)


def pypi(program: str, *args: str, **more: Any) -> Server:
    return _server([str(ROOT / ".venv-fleet/bin" / program), *args], **more)


def _server(
    command: Sequence[str],
    *,
    calls: Sequence[Call],
    differs: Mapping[str, str] | None = None,
    **env: str,
) -> Server:
    """Return a server; ``env`` is its part of the environment."""
    return Server(command=command, calls=calls, differs=differs or {}, env=env)


def make_folder(folder: Path) -> str:
    """Create the servers' files, the same bytes each time; return the folder."""
    repository = folder / "repository"
    repository.mkdir(parents=True)
    (folder / "notes.md").write_text("# Notes\n\nПривет, see https://example.com.\n")
    (folder / "pixel.png").write_bytes(PIXEL)
    (folder / "sums.xlsx").write_bytes(zip_of(SUMS))
    (folder / "faulty.js").write_text("var unused = 1;\n")
    (folder / "eslint.config.js").write_text("module.exports = [{rules: {'no-var': 'error'}}];\n")
    with closing(sqlite3.connect(folder / "shop.db")) as database:
        database.executescript("create table goods (name); insert into goods values ('tea');")
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "Begin"]):
        subprocess.run(["git", *words], cwd=repository, env=AUTHOR, check=True)  # noqa: S603, S607
    return str(folder)


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"
SUMS = {
    "[Content_Types].xml": (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels"'
        ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPES}.sheet.main+xml"/>'
        f'<Override PartName="/xl/sheet.xml" ContentType="{_TYPES}.worksheet+xml"/></Types>'
    ).encode(),
    "_rels/.rels": relations_of(("officeDocument", "xl/workbook.xml")),
    "xl/_rels/workbook.xml.rels": relations_of(("worksheet", "sheet.xml")),
    "xl/workbook.xml": (
        f'<workbook xmlns="{_SHEETS}" xmlns:r="{_OFFICE}">'
        '<sheets><sheet name="Sums" sheetId="1" r:id="r0"/></sheets></workbook>'
    ).encode(),
    "xl/sheet.xml": (
        f'<worksheet xmlns="{_SHEETS}"><sheetData><row r="1"><c r="A1"><v>10</v></c></row>'
        "</sheetData></worksheet>"
    ).encode(),
}
"""A workbook with one sheet."""

_WHO = {"NAME": "a", "EMAIL": "a@example.com", "DATE": "2026-01-02T03:04:05Z"}
AUTHOR = {
    "PATH": os.defpath,
    **{
        f"GIT_{role}_{name}": value
        for role in ("AUTHOR", "COMMITTER")
        for name, value in _WHO.items()
    },
}

FILE = {"path": "{folder}/notes.md"}
WORD = {"filename": "{folder}/letter.docx"}
BOOK = {"filepath": "{folder}/book.xlsx"}
THOUGHT = {"thought": "count", "thoughtNumber": 1, "totalThoughts": 1}

SERVERS: dict[str, Server] = {
    "everything": npm(
        "mcp-server-everything",
        calls=[
            ("get-tiny-image", {}),
            ("get-resource-links", {"count": 3}),
            ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
            ("get-resource-reference", {"resourceType": "Text", "resourceId": -1}),
            ("get-structured-content", {"location": "New York"}),
            ("get-annotated-message", {"messageType": "error", "includeImage": True}),
            ("trigger-long-running-operation", {"duration": 0.2, "steps": 2}),
        ],
        differs={r"\d+:\d\d:\d\d [AP]M": "a dynamic resource says when it was read"},
    ),
    "filesystem": npm(
        "mcp-server-filesystem",
        "{folder}",
        calls=[
            ("read_text_file", FILE),
            ("read_media_file", {"path": "{folder}/pixel.png"}),
            ("read_text_file", {"path": "{folder}/missing.md"}),
        ],
    ),
    "memory": npm(
        "mcp-server-memory",
        calls=[
            (
                "create_entities",
                {"entities": [{"name": "Ann", "entityType": "person", "observations": ["tea"]}]},
            ),
            ("read_graph", {}),
        ],
        MEMORY_FILE_PATH="{folder}/memory.json",
    ),
    "sequential-thinking": npm(
        "mcp-server-sequential-thinking",
        calls=[
            ("sequentialthinking", THOUGHT | {"nextThoughtNeeded": True}),
            ("sequentialthinking", THOUGHT | {"nextThoughtNeeded": "no"}),
        ],
    ),
    "github": npm(
        "mcp-server-github",
        calls=[
            ("search_repositories", {"query": "mcp"}),
            ("get_issue", {"owner": "a", "repo": "b", "issue_number": 1}),
        ],
        GITHUB_PERSONAL_ACCESS_TOKEN="none",
    ),
    "gitlab": npm(
        "mcp-server-gitlab",
        calls=[
            ("search_repositories", {"search": "mcp"}),
            ("get_file_contents", {"project_id": "1", "file_path": "a"}),
        ],
        GITLAB_PERSONAL_ACCESS_TOKEN="none",
    ),
    "slack": npm(
        "mcp-server-slack",
        calls=[("slack_list_channels", {}), ("slack_get_users", {})],
        SLACK_BOT_TOKEN="none",
        SLACK_TEAM_ID="T0",
    ),
    "google-maps": npm(
        "mcp-server-google-maps",
        calls=[
            ("maps_geocode", {"address": "Bern"}),
            ("maps_elevation", {"locations": [{"latitude": 1, "longitude": 2}]}),
        ],
        GOOGLE_MAPS_API_KEY="none",
    ),
    "brave-search": npm(
        "mcp-server-brave-search",
        calls=[("brave_web_search", {"query": "tea"}), ("brave_local_search", {"query": "tea"})],
        differs={"fetch failed|Rate limit exceeded": "it takes one request a second"},
        BRAVE_API_KEY="none",
    ),
    "postgres": npm(
        "mcp-server-postgres",
        "{postgres}",
        calls=[("query", {"sql": "select 1 as one"}), ("query", {"sql": "select * from gone"})],
    ),
    "notion": npm(
        "notion-mcp-server",
        calls=[("API-get-self", {}), ("API-get-user", {"user_id": "1"})],
        NOTION_TOKEN="none",
    ),
    "context7": npm(
        "context7-mcp",
        calls=[
            ("resolve-library-id", {"query": "routes", "libraryName": "fastapi"}),
            ("query-docs", {"query": "routes", "libraryId": "/tiangolo/fastapi"}),
        ],
    ),
    "tavily": npm(
        "tavily-mcp",
        calls=[
            ("tavily_search", {"query": "tea"}),
            ("tavily_extract", {"urls": ["https://example.com"]}),
        ],
        TAVILY_API_KEY="none",
    ),
    "hubspot": npm(
        "mcp-hubspot",
        calls=[("hubspot-generate-feedback-link", {}), ("hubspot-get-user-details", {})],
        PRIVATE_APP_ACCESS_TOKEN="none",
    ),
    "eslint": npm(
        "mcp",
        calls=[
            ("lint-files", {"filePaths": ["{folder}/faulty.js"]}),
            ("lint-files", {"filePaths": ["{folder}/missing.js"]}),
        ],
    ),
    "excel-negokaz": npm(
        "excel-mcp-server",
        calls=[
            ("excel_describe_sheets", {"fileAbsolutePath": "{folder}/sums.xlsx"}),
            ("excel_describe_sheets", {"fileAbsolutePath": "{folder}/missing.xlsx"}),
        ],
    ),
    "aws-documentation": pypi(
        "awslabs.aws-documentation-mcp-server",
        calls=[
            ("read_documentation", {"url": "https://docs.aws.amazon.com/a.html"}),
            ("read_documentation", {"url": "https://example.com/"}),
        ],
    ),
    "duckduckgo": pypi(
        "duckduckgo-mcp-server",
        calls=[("search", {"query": "tea"}), ("fetch_content", {"url": DEAD})],
    ),
    "excel": pypi(
        "excel-mcp-server",
        "stdio",
        calls=[
            ("create_workbook", BOOK),
            ("get_workbook_metadata", BOOK),
            ("read_data_from_excel", BOOK | {"sheet_name": "gone"}),
        ],
        differs={r"'size': \d+, 'modified': [\d.]+": "a workbook has the time of its creation"},
    ),
    "alchemy": pypi(
        "mcp-alchemy",
        calls=[("all_table_names", {}), ("execute_query", {"query": "select * from goods"})],
        DB_URL="sqlite:///{folder}/shop.db",
    ),
    "obsidian": pypi(
        "mcp-obsidian",
        calls=[
            ("obsidian_list_files_in_vault", {}),
            ("obsidian_get_file_contents", {"filepath": "a.md"}),
        ],
        OBSIDIAN_API_KEY="none",
        OBSIDIAN_PORT="1",
    ),
    "calculator": pypi(
        "mcp-server-calculator",
        calls=[("calculate", {"expression": "2*(3+4)"}), ("calculate", {"expression": "1/0"})],
    ),
    "fetch": pypi(
        "mcp-server-fetch",
        "--ignore-robots-txt",
        "--allow-private-ips",
        calls=[("fetch", {"url": "{url}/health"}), ("fetch", {"url": DEAD})],
    ),
    "git": pypi(
        "mcp-server-git",
        "--repository",
        "{folder}/repository",
        calls=[
            ("git_log", {"repo_path": "{folder}/repository"}),
            ("git_show", {"repo_path": "{folder}/repository", "revision": "gone"}),
        ],
    ),
    "sqlite": pypi(
        "mcp-server-sqlite",
        "--db-path",
        "{folder}/shop.db",
        calls=[
            ("read_query", {"query": "select * from goods"}),
            ("read_query", {"query": "select * from gone"}),
        ],
    ),
    "time": pypi(
        "mcp-server-time",
        "--local-timezone",
        "UTC",
        calls=[
            (
                "convert_time",
                {"source_timezone": "UTC", "time": "10:00", "target_timezone": "Asia/Tokyo"},
            ),
            ("get_current_time", {"timezone": "Europe/Gone"}),
        ],
        differs={r"\d{4}-\d\d-\d\d|[A-Z][a-z]+day": "a time is converted on the current day"},
    ),
    "powerpoint": pypi(
        "ppt_mcp_server",
        calls=[("create_presentation", {}), ("get_slide_info", {"slide_index": 9})],
    ),
    "word": pypi(
        "word_mcp_server",
        calls=[
            ("create_document", WORD | {"title": "Letter"}),
            ("add_paragraph", WORD | {"text": "Dear Bob,"}),
            ("get_document_text", WORD),
        ],
    ),
}
