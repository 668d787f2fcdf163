"""A console that no token can sign in to: terminal output, and the command."""

import os
import pty
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.held_port import free_port
from tests.support.program import started
from tests.support.program_launch import launch, run

pytestmark = pytest.mark.e2e

CONSOLE: dict[str, Any] = {"MCP_PROXY_CONSOLE": "true"}
SENTENCE = "Sign in to the console, within ten minutes: "


def sign_in(address: str) -> httpx.Response:
    assert httpx.get(address).status_code == 200
    return press(address)


def press(address: str) -> httpx.Response:
    url = httpx.URL(address)
    origin = f"http://{url.host}:{url.port}"
    return httpx.post(address, data={"code": url.params["code"]}, headers={"Origin": origin})


def read_line_with(terminal: int, text: str) -> str:
    shown = ""
    while text not in shown or not shown.partition(text)[2].endswith("\n"):
        shown += os.read(terminal, 4096).decode()
    return shown.partition(text)[2].strip()


def test_a_terminal_shows_a_one_time_address_and_no_log_contains_it(tmp_path: Path) -> None:
    ours, its = pty.openpty()
    port = free_port()
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = launch(
            ["serve", "--port", str(port)], tmp_path, CONSOLE, streams=(its, out.fileno(), its)
        )
    os.close(its)
    try:
        address = read_line_with(ours, SENTENCE)
        assert address.startswith(f"http://127.0.0.1:{port}/console/begin?code=")
        assert sign_in(address).status_code == 303
        assert press(address).status_code == 401
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert address.partition("code=")[2] not in log.read_text(encoding="utf-8")


def test_the_command_prints_another_address_of_the_running_gateway(tmp_path: Path) -> None:
    with started(tmp_path, CONSOLE) as program:
        code, printed, complained = run(tmp_path, "console", "--port", str(program.port), **CONSOLE)
        assert (code, complained) == (0, "")
        assert sign_in(printed.strip()).status_code == 303
        assert all(SENTENCE not in str(line) for line in program.log_lines())
        assert program.stop() in (0, -15)
    code, _, complained = run(tmp_path, "console", "--port", str(program.port), **CONSOLE)
    assert (code, "no gateway with a console, started by this user" in complained) == (1, True)


def test_the_command_names_the_page_for_signing_in_with_a_token(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**CONSOLE, "MCP_PROXY_ADMIN_TOKEN": "correct-horse-battery"}
    assert run(tmp_path, "console", **settings)[:2] == (0, "http://127.0.0.1:8082/console\n")
    public: dict[str, Any] = {**settings, "MCP_PROXY_PUBLIC_URL": "https://gateway.example/tools/"}
    assert run(tmp_path, "console", **public)[1] == "https://gateway.example/tools/console\n"


def test_if_a_jwt_grants_rights_it_signs_in_and_no_address_is_needed(tmp_path: Path) -> None:
    jwt: dict[str, Any] = {
        **CONSOLE,
        "MCP_PROXY_AUTH_MODE": "jwt",
        "MCP_PROXY_JWT_ISSUER": "https://login.example",
        "MCP_PROXY_JWT_AUDIENCE": "us",
        "MCP_PROXY_JWT_JWKS_URL": "https://login.example/keys",
    }
    claim = "MCP_PROXY_JWT_OPERATOR_CLAIM"
    assert run(tmp_path, "console", **{**jwt, claim: "may"})[1] == "http://127.0.0.1:8082/console\n"
    everywhere = ("serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - it does not start
    code, _, complained = run(tmp_path, *everywhere, **jwt)
    assert (code, claim in complained, "operators could not sign in" in complained) == (
        2,
        True,
        True,
    )


def test_the_command_reports_that_the_console_is_off(tmp_path: Path) -> None:
    code, _, complained = run(tmp_path, "console")
    assert (code, "set MCP_PROXY_CONSOLE=true" in complained) == (1, True)


def test_a_console_without_any_sign_in_does_not_start(tmp_path: Path) -> None:
    code, _, complained = run(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0", **CONSOLE)  # noqa: S104
    assert code == 2
    assert complained.startswith("mcp-tools-proxy: MCP_PROXY_ADMIN_TOKEN: is required")
