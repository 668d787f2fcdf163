"""The ``tokens`` commands on the command line."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from mcp_tools_proxy.auth.token_format import read_lines, sha256_of
from mcp_tools_proxy.cli.tokens import tokens_app
from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.program import started, wait_until

Run = Callable[..., Result]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.jsonl"


@pytest.fixture
def run(path: Path) -> Run:
    app = typer.Typer()
    app.add_typer(tokens_app(lambda: path))
    runner = CliRunner()
    return lambda *arguments: runner.invoke(app, ["tokens", *map(str, arguments)])


def test_stdout_has_only_the_token_and_its_hash_is_stored(run: Run, path: Path) -> None:
    result = run("create", "--tenant", "acme")
    token = result.stdout.strip()
    (entry,) = read_lines(path.read_bytes()).entries
    assert (re.fullmatch(r"mtp_[\w-]{43}", token) is not None, entry.hash) == (
        True,
        sha256_of(token),
    )


def test_the_file_has_the_options_but_no_token(run: Run, path: Path) -> None:
    token = run(
        "create", "--tenant", "acme", "--user", "u", "--agent", "a", "--agent", "b", "--admin",
        "--document", "x,y", "--document", "z",
        "--expires", "90d", "--note", "chat",
    ).stdout.strip()  # fmt: skip
    (entry,) = read_lines(path.read_bytes()).entries
    who = entry.principal
    assert entry.created is not None
    assert entry.expires is not None
    assert (who.tenant_id, who.user_id, who.agents, who.rights, entry.note) == (
        "acme",
        "u",
        frozenset("ab"),
        frozenset({OperatorRight.PRESETS}),
        "chat",
    )
    assert who.documents == frozenset({"x,y", "z"})
    assert ((entry.expires - entry.created).days, token in path.read_text()) == (90, False)


@pytest.mark.parametrize(
    ("options", "rights"),
    [
        (("--may", "documents,audit"), "audit,documents"),
        (("--may", "documents", "--may", "audit, tokens"), "audit,documents,tokens"),
        (("--may", "documents", "--admin"), "documents,presets"),
    ],
)
def test_an_operators_token_has_the_listed_rights(
    run: Run, options: tuple[str, ...], rights: str
) -> None:
    assert run("create", *options).exit_code == 0
    assert run("list").stdout.split("\t")[8] == rights


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), ["-", "-", "-", "-"]),
        (("--role", "editor", "--role", "lead"), ["editor,lead", "-", "-", "-"]),
        (("--asserts-users",), ["-", "users", "-", "-"]),
        (("--document", "manual", "--document", "handbook"), ["-", "-", "handbook,manual", "-"]),
        (("--user", "jo", "--may", "approve", "--no-execute"), ["-", "-", "-", "no"]),
    ],
)
def test_roles_asserted_users_and_documents_are_listed(
    run: Run, options: tuple[str, ...], shown: list[str]
) -> None:
    assert run("create", "--tenant", "acme", *options).exit_code == 0
    assert run("list").stdout.rstrip("\n").split("\t")[9:] == shown


@pytest.mark.parametrize("option", ["--user", "--role"])
def test_a_token_that_asserts_users_cannot_be_for_one_user(
    run: Run, path: Path, option: str
) -> None:
    result = run("create", "--tenant", "acme", "--asserts-users", option, "x")
    assert (result.exit_code, path.exists()) == (2, False)
    assert "each request sets user and roles" in result.stderr


@pytest.mark.parametrize("value", ["", "a\nb", "x" * 257])
def test_an_invalid_document_id_is_a_usage_error(run: Run, path: Path, value: str) -> None:
    result = run("create", "--tenant", "acme", "--document", value)
    assert (result.exit_code, path.exists()) == (2, False)


@pytest.mark.parametrize(("documents", "shown"), [([], "none"), (["b", "a"], "a,b")])
def test_hand_written_documents_are_listed(
    run: Run, path: Path, documents: list[str], shown: str
) -> None:
    line = {"id": "x", "sha256": "0" * 64, "tenant": "a", "documents": documents}
    path.write_text(json.dumps(line))
    assert run("list").stdout.rstrip("\n").split("\t")[11] == shown
    (token,) = json.loads(run("list", "--json").stdout)["tokens"]
    assert token["documents"] == sorted(documents)


def test_the_error_for_an_unknown_right_lists_the_known_ones(run: Run, path: Path) -> None:
    result = run("create", "--tenant", "acme", "--may", "documents,everything")
    assert (result.exit_code, path.exists()) == (2, False)
    assert "everything" in result.stderr
    assert [right for right in OperatorRight if right not in result.stderr] == []


def test_the_list_shows_neither_token_nor_hash(run: Run, path: Path) -> None:
    token = run("create", "--tenant", "acme", "--note", "chat").stdout.strip()
    listed = run("list").stdout
    assert ("acme" in listed, "chat" in listed) == (True, True)
    assert (token in listed, sha256_of(token)[:16] in listed) == (False, False)


def test_a_hand_written_entry_is_shown_as_one_line(run: Run, path: Path) -> None:
    path.write_text(
        '{"id": "x", "sha256": "%s", "tenant": "a", "note": "\\u001b[31m\\n"}' % ("0" * 64)
    )
    assert run("list").stdout.splitlines() == [
        "x\ta\t-\t-\t-\t-\tnever\t\\x1b[31m\\n\t-\t-\t-\t-\t-"
    ]


def test_an_invalid_line_is_reported_by_its_number(run: Run, path: Path) -> None:
    path.write_text("# ours\n{}\n")
    assert run("list").stderr == "line 2: id: is missing\n"


def test_a_revoked_token_is_removed(run: Run, path: Path) -> None:
    run("create", "--tenant", "acme")
    (entry,) = read_lines(path.read_bytes()).entries
    result = run("revoke", entry.id)
    assert (result.exit_code, path.read_bytes()) == (0, b"")


def test_an_unknown_id_is_one_line_and_exit_code_1(run: Run) -> None:
    run("create", "--tenant", "acme")
    result = run("revoke", "nobody")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


def test_an_empty_list_of_tokens_names_the_file(run: Run, path: Path) -> None:
    result = run("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"no tokens yet: {path} does not exist\n"


def test_an_unreadable_file_is_one_line_and_exit_code_1(run: Run, path: Path) -> None:
    path.mkdir()
    result = run("list")
    assert (result.exit_code, result.stderr) == (1, f"{path}: Is a directory\n")


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--tenant", ""),
        ("--tenant", "a\nb"),
        ("--tenant", "a\udcff"),
        ("--tenant", "acme", "--note", "a\udcff"),
        ("--tenant", "acme", "--agent", ""),
        ("--tenant", "acme", "--role", ""),
        ("--tenant", "acme", "--role", "a\nb"),
        ("--tenant", "acme", *(f"--role=r{n}" for n in range(101))),
        ("--tenant", "acme", "--may", ""),
        ("--tenant", "acme", "--may", "documents,"),
        ("--tenant", "acme", "--expires", "soon"),
        ("--tenant", "acme", "--expires", "0d"),
        ("--tenant", "acme", "--expires", "999999w"),
        ("--tenant", "acme", "--expires", "2020-01-01"),
        ("--tenant", "acme", "--expires", "9999-12-31T23:59:59-23:00"),
    ],
)
def test_invalid_usage_creates_no_token(run: Run, path: Path, options: tuple[str, ...]) -> None:
    result = run("create", *options)
    assert (result.exit_code, result.stdout, path.exists()) == (2, "", False)


@pytest.mark.e2e
def test_a_running_service_follows_new_and_revoked_tokens(
    run: Run, path: Path, tmp_path: Path
) -> None:
    settings = {"MCP_PROXY_AUTH_MODE": "token", "MCP_PROXY_TOKENS_FILE": str(path)}
    with started(tmp_path, settings) as program:

        def status() -> int:
            return program.http.get("/internal/mcp/tools", headers=headers).status_code

        token = run("create", "--tenant", "acme").stdout.strip()
        headers = {"Authorization": f"Bearer {token}"}
        wait_until(lambda: status() == 200)
        (entry,) = read_lines(path.read_bytes()).entries
        run("revoke", entry.id)
        wait_until(lambda: status() == 401)
        assert token not in str(program.log_lines())


def test_json_has_each_token_without_its_secret_and_the_invalid_lines(run: Run, path: Path) -> None:
    made = json.loads(
        run("create", "--tenant", "acme", "--role", "lead", "--note", "chat", "--json").stdout
    )
    path.write_text(path.read_text() + "{}\n")
    out = run("list", "--json").stdout
    listed = json.loads(out)
    (token,) = listed["tokens"]
    assert made == {"token": made["token"], **token}
    assert {key: token[key] for key in ("tenant_id", "roles", "agents", "expires", "note")} == {
        "tenant_id": "acme",
        "roles": ["lead"],
        "agents": None,
        "expires": None,
        "note": "chat",
    }
    assert [it["line"] for it in listed["problems"]] == [2]
    assert (made["token"] in out, sha256_of(made["token"])[:16] in out) == (False, False)


def test_json_without_tokens_is_an_empty_list(run: Run) -> None:
    result = run("list", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"tokens": [], "problems": []})
