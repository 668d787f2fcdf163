"""Commands that serve nothing: required settings, help, version, tables."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.domain.document import Document
from tests.e2e.terminal import run_on_terminal
from tests.support import program_launch
from tests.support.bounds import BOUND_S
from tests.support.fork_server import PROGRAM, RETRIEVAL_SERVICE
from tests.support.held_port import free_port
from tests.support.program import wait_until
from tests.support.program_launch import launch

SETTINGS_OF_SERVING = {
    "MCP_PROXY_PORT": "http",
    "MCP_PROXY_AUTH_MODE": "jwt",
    "MCP_PROXY_JWT_JWKS_FILE": "not there.json",
    "MCP_PROXY_RETRIEVAL_WINDOW_URL": "ftp://retrieval",
    "MCP_PROXY_RATE_LIMIT_CALLS": "-1",
    "MCP_PROXY_REMOTE_URL": "nowhere",
}
"""Values that stop ``serve``, each alone."""

PROGRAMS = {"mcp-tools-proxy": PROGRAM, "retrieval-service": RETRIEVAL_SERVICE}

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(
    folder: Path, module: str, *arguments: str, fresh: bool = False, **environment: str
) -> Ended:
    return Ended(*program_launch.run(folder, *arguments, fresh=fresh, module=module, **environment))


def gateway(folder: Path, *arguments: str, **environment: str) -> Ended:
    return run(folder, PROGRAM, *arguments, fresh=False, **environment)


def document(tenant_id: str, doc_id: str) -> Document:
    return Document(tenant_id=tenant_id, doc_id=doc_id, title="A title " * 12, pages=("text",))


@pytest.mark.e2e
def test_a_token_is_revoked_despite_invalid_serve_settings(tmp_path: Path) -> None:
    settings = {**SETTINGS_OF_SERVING, "MCP_PROXY_TOKENS_FILE": "tokens.jsonl"}
    assert gateway(tmp_path, "serve", **settings).returncode == 2
    made = gateway(tmp_path, "tokens", "create", "--tenant", "acme", **settings)
    token_id = made.stderr.split()[2]
    revoked = gateway(tmp_path, "tokens", "revoke", token_id, **settings)
    listed = gateway(tmp_path, "tokens", "list", **settings)
    assert (made.returncode, revoked.returncode, listed.returncode) == (0, 0, 0)
    assert (tmp_path / "tokens.jsonl").read_bytes() == b""


@pytest.mark.e2e
def test_a_document_is_imported_despite_invalid_serve_settings(
    tmp_path: Path,
) -> None:
    (tmp_path / "note.md").write_text("# A note\n")
    settings = {**SETTINGS_OF_SERVING, "MCP_PROXY_DOCUMENTS_PATH": "papers"}
    imported = gateway(tmp_path, "documents", "import", "note.md", "--tenant", "acme", **settings)
    listed = gateway(tmp_path, "documents", "list", **settings)
    assert (imported.returncode, listed.returncode) == (0, 0)
    assert listed.stdout == "acme\tnote\tA note\t1\t1\n"


@pytest.mark.e2e
def test_only_json_is_on_stdout_while_a_database_is_unreachable(tmp_path: Path) -> None:
    write_document(tmp_path / "documents", document("acme", "book"), replace=False)
    url = "postgresql://gateway:secret@127.0.0.1:1/documents"
    copied = gateway(
        tmp_path,
        "documents",
        "copy",
        "--from",
        "documents",
        "--to",
        url,
        "--json",
        MCP_PROXY_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert copied.returncode == 1
    assert [it["doc_id"] for it in json.loads(copied.stdout)["failed"]] == ["book"]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("command", "variable"), [("tokens", "TOKENS_FILE"), ("documents", "DOCUMENTS_PATH")]
)
def test_a_setting_of_the_command_is_read_from_the_env_file(
    tmp_path: Path, command: str, variable: str
) -> None:
    (tmp_path / ".env").write_text(f"MCP_PROXY_PORT=http\nMCP_PROXY_{variable}=./here\n")
    (tmp_path / "here").touch()
    assert gateway(tmp_path, command, "list").returncode == 0


@pytest.mark.e2e
@pytest.mark.parametrize("program", PROGRAMS)
def test_help_and_version_serve_nothing_and_read_no_setting(tmp_path: Path, program: str) -> None:
    bad = {"MCP_PROXY_PORT": "http", "RETRIEVAL_PORT": "http"}
    helped = run(tmp_path, PROGRAMS[program], "--help", fresh=True, **bad)
    versioned = run(tmp_path, PROGRAMS[program], "--version", fresh=False, **bad)
    assert (helped.returncode, "--host" in helped.stdout, helped.stderr) == (0, True, "")
    assert (versioned.returncode, versioned.stdout) == (
        0,
        f"{program} {version('mcp-tools-proxy')}\n",
    )


@pytest.mark.e2e
@pytest.mark.parametrize("option", ["--port=http", "--port=70000", "--nonsense"])
def test_invalid_usage_of_the_retrieval_service_is_one_line(tmp_path: Path, option: str) -> None:
    result = run(tmp_path, RETRIEVAL_SERVICE, option)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("retrieval-service: ")


@pytest.mark.e2e
def test_an_invalid_setting_of_the_retrieval_service_is_one_line(tmp_path: Path) -> None:
    result = run(tmp_path, RETRIEVAL_SERVICE, RETRIEVAL_MAX_WINDOW="0")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith("retrieval-service: RETRIEVAL_MAX_WINDOW: ")


@pytest.mark.e2e
def test_a_list_of_tokens_has_complete_ids_and_dates_on_a_terminal_of_80_columns(
    tmp_path: Path,
) -> None:
    settings = {"MCP_PROXY_TOKENS_FILE": "tokens.jsonl"}
    agents = [word for name in ("reader", "writer", "searcher") for word in ("--agent", name)]
    for _ in range(2):
        options = ["--tenant", "a-tenant-with-a-name", "--expires", "90d", "--note", "chat service"]
        gateway(tmp_path, "tokens", "create", *agents, *options, **settings)
    rows = [
        line.split("\t")
        for line in gateway(tmp_path, "tokens", "list", **settings).stdout.splitlines()
    ]
    seen = run_on_terminal(tmp_path, "tokens", "list", environment=settings)
    times = [f"{row[at][:10]} {row[at][11:16]}Z" for row in rows for at in (5, 6)]
    ids = [line.split()[0] for line in seen.lines if line[:1].strip()]
    assert ids == [row[0] for row in rows]
    assert [time for time in times if time not in seen.text] == []
    assert max(map(len, seen.lines)) <= 80


@pytest.mark.e2e
def test_a_terminal_shows_only_the_properties_that_a_token_has(tmp_path: Path) -> None:
    settings = {"MCP_PROXY_TOKENS_FILE": "tokens.jsonl"}
    gateway(tmp_path, "tokens", "create", "--tenant", "acme", **settings)
    options = ["--tenant", "acme", "--user", "jo", "--role", "editor", "--may", "audit,tokens"]
    gateway(tmp_path, "tokens", "create", *options, "--document", "x" * 200, **settings)
    seen = run_on_terminal(tmp_path, "tokens", "list", environment=settings)
    plain, rich = re.split(r"^(?=\S)", seen.text, flags=re.MULTILINE)[1:]
    assert "tenant acme  created " in plain
    assert [it for it in ("user", "agents", "may", "roles", "documents") if it in plain] == []
    assert [it for it in ("user jo", "may audit,tokens", "roles editor") if it not in rich] == []
    assert max(map(len, seen.lines)) <= 80


@pytest.mark.e2e
@pytest.mark.parametrize("size", [20, 60])
def test_a_list_of_documents_has_complete_ids_on_a_terminal_of_80_columns(
    tmp_path: Path, size: int
) -> None:
    names = [letter * size for letter in "ab"]
    for name in names:
        write_document(tmp_path / "documents", document(name.upper(), name), replace=False)
    seen = run_on_terminal(tmp_path, "documents", "list")
    assert [f"{name.upper()} {name}" in seen.text for name in names] == [True, True]


@contextmanager
def retrieval_service(tmp_path: Path, *options: str, **settings: str) -> Iterator[int]:
    port = free_port()
    process = launch(
        ["--port", str(port), *options],
        tmp_path,
        {"RETRIEVAL_PORT": str(free_port()), **settings},
        streams=(None, subprocess.DEVNULL, None),
        module=RETRIEVAL_SERVICE,
    )
    try:
        wait_until(lambda: answers(port))
        yield port
    finally:
        process.kill()
        process.wait(BOUND_S)


@pytest.mark.e2e
def test_the_retrieval_service_listens_at_the_address_in_its_options(tmp_path: Path) -> None:
    with retrieval_service(tmp_path):
        pass


@pytest.mark.e2e
@pytest.mark.parametrize("host", [EVERY_ADDRESS, "::", "192.0.2.1"])
def test_the_retrieval_service_needs_a_token_beyond_loopback(tmp_path: Path, host: str) -> None:
    by_setting = run(tmp_path, RETRIEVAL_SERVICE, RETRIEVAL_HOST=host)
    by_option = run(tmp_path, RETRIEVAL_SERVICE, "--host", host, RETRIEVAL_TOKEN="")
    for result in (by_setting, by_option):
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert result.stderr.startswith("retrieval-service: RETRIEVAL_TOKEN: ")


@pytest.mark.e2e
def test_the_retrieval_service_starts_beyond_loopback_with_a_token(tmp_path: Path) -> None:
    every = ("--host", EVERY_ADDRESS)
    with retrieval_service(tmp_path, *every, RETRIEVAL_TOKEN="a-token-of-16-characters") as port:
        path = f"http://127.0.0.1:{port}/internal/retrieval/chunks/window"
        assert httpx.post(path, content=b"{}").status_code == 401


@pytest.mark.e2e
@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /health?" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 300 + b"\r\n",
    ],
)
def test_the_retrieval_service_limits_the_size_of_request_headers(
    tmp_path: Path, head: bytes
) -> None:
    with retrieval_service(tmp_path) as port:
        with socket.create_connection(("127.0.0.1", port), BOUND_S) as connection:
            with suppress(ConnectionError):
                connection.sendall(head)
            answer = b""
            with suppress(ConnectionError):
                while piece := connection.recv(65536):
                    answer += piece
        assert b"200 OK" not in answer
        assert answers(port)


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health").text == '{"status":"ok"}'
    except httpx.TransportError:
        return False
