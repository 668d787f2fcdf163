"""The commands ``call`` and ``explain`` on the command line."""

import json
from collections.abc import Callable, Iterator

import pytest
import typer
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from mcp_tools_proxy.cli.call import add_call_commands
from mcp_tools_proxy.settings.auth import ClientSettings
from tests.support.program import UNLIMITED, Program, started

pytestmark = pytest.mark.e2e

ADMIN = "admin-token-of-the-command-line"
TENANT = ("--tenant", "tenant_1")

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    environment = {**UNLIMITED, "MCP_PROXY_ADMIN_TOKEN": ADMIN, "MCP_PROXY_RUN_MAX_CALLS": "2"}
    with started(tmp_path_factory.mktemp("gateway"), environment) as program:
        yield program


@pytest.fixture
def run(program: Program) -> Run:
    settings = ClientSettings(client_url=str(program.http.base_url), client_token=SecretStr(ADMIN))
    app = typer.Typer()
    add_call_commands(app, lambda: settings)
    return lambda *arguments: CliRunner().invoke(app, [*arguments])


def test_call_prints_the_result(run: Run) -> None:
    found = run("call", "read_doc_metadata", "--arg", "doc_id=doc_1", *TENANT)
    assert found.exit_code == 0
    assert json.loads(found.stdout)["doc_id"] == "doc_1"


def test_an_argument_is_text_or_json_depending_on_the_schema(run: Run) -> None:
    given = ("--arg", "doc_id=1", "--arg", "page_start=2", "--arg", "page_end=2")
    found = run("call", "read_doc_pages", *given, *TENANT, "--json")
    error = json.loads(found.stdout)["error"]
    assert (found.exit_code, error["code"]) == (1, "DOCUMENT_NOT_FOUND")


def test_an_error_is_one_line_on_stderr(run: Run) -> None:
    found = run("call", "read_doc_metadata", "--arg", "doc_id=doc_9", *TENANT)
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr.startswith("mcp-tools-proxy: DOCUMENT_NOT_FOUND: ")
    assert found.stderr.count("\n") == 1


def test_calls_of_a_run_are_counted_and_explained(run: Run) -> None:
    given = ("read_doc_metadata", "--arg", "doc_id=doc_1", *TENANT, "--run", "run_1")
    assert [run("call", *given).exit_code for _ in range(2)] == [0, 0]
    refused = run("call", *given)
    assert (refused.exit_code, "run" in refused.stderr) == (1, True)
    explained = run("explain", *given)
    assert (explained.exit_code, "by the check run:" in explained.stdout) == (1, True)
    assert run("explain", *given[:-1], "run_2").exit_code == 0


def test_explain_begins_with_the_verdict_of_an_allowed_call(run: Run) -> None:
    found = run("explain", "read_doc_metadata", "--arg", "doc_id=doc_1", *TENANT)
    assert (found.exit_code, found.stdout.partition("\n")[0]) == (0, "the call would be made")


def test_explain_begins_with_the_refusing_check(run: Run) -> None:
    found = run("explain", "read_doc_metadata", "--arg", "doc_id=doc_9", *TENANT)
    first = found.stdout.partition("\n")[0]
    assert found.exit_code == 1
    assert first.startswith("the call would be refused (DOCUMENT_NOT_FOUND) by the check document:")


def test_explain_as_json_returns_the_answer(run: Run) -> None:
    found = run("explain", "read_doc_metadata", "--arg", "doc_id=doc_1", *TENANT, "--json")
    assert json.loads(found.stdout)["decision"] == "pass"


@pytest.mark.parametrize("text", ["doc_id", "=x"])
def test_an_invalid_argument_is_refused(run: Run, text: str) -> None:
    found = run("call", "read_doc_metadata", "--arg", text, *TENANT)
    assert found.exit_code == 2
    assert "is not NAME=VALUE" in found.stderr


def test_without_a_gateway_the_exit_code_is_2(run: Run) -> None:
    found = run("call", "read_doc_metadata", *TENANT, "--url", "http://127.0.0.1:1")
    assert found.exit_code == 2
    assert "no gateway answers at http://127.0.0.1:1" in found.stderr
