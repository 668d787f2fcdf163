"""The OpenAPI document is true: schemathesis finds no answer that it does not describe."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings
from tests.support.bounds import BOUND_S
from tests.support.local_tools import LOCAL_TOOLS
from tests.support.service import EXECUTE

ROOT = Path(__file__).parents[2]
ANSWERS = Path(__file__).with_name("openapi_answers.py")


@pytest.fixture(scope="module")
def document() -> Any:
    return create_app(Settings()).openapi()


@pytest.mark.slow
def test_every_answer_is_described() -> None:
    done = subprocess.run(  # noqa: S603 - our own test, no shell
        [sys.executable, "-m", "pytest", "-p", "schemathesis.pytest.plugin", "-p", "no:xdist",
         "-p", "no:cacheprovider", str(ANSWERS)],
        cwd=ROOT, capture_output=True, text=True, timeout=BOUND_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_every_tool_has_an_example(document: Any) -> None:
    content = document["paths"][EXECUTE]["post"]["requestBody"]["content"]
    assert list(content["application/json"]["examples"]) == [*LOCAL_TOOLS]


@pytest.mark.parametrize(
    "path",
    ["/internal/mcp/execute", "/internal/mcp/execute/batch", "/internal/mcp/tools",
     "/internal/mcp/prompts", "/internal/mcp/prompts/get", "/internal/mcp/resources",
     "/internal/mcp/resources/read", "/internal/mcp/servers", "/internal/mcp/remote",
     "/internal/mcp/presets", "/internal/mcp/presets/active", "/health", "/health/ready",
     "/metrics"],
)  # fmt: skip
def test_every_route_is_described(document: Any, path: str) -> None:
    assert path in document["paths"]


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/internal/mcp/tools", ["format", "names", "name_style"]),
        ("/internal/mcp/prompts", []),
        ("/internal/mcp/resources", []),
    ],
)
def test_a_list_describes_its_query_and_that_it_may_be_had_already(
    document: Any, path: str, own: list[str]
) -> None:
    described = document["paths"][path]["get"]
    names = [parameter["name"] for parameter in described["parameters"]]
    headers = ["X-Tenant-Id", "X-User-Id", "X-Agent-Id", "If-None-Match"]
    assert names == ["tenant_id", "user_id", "agent", *own, *headers]
    assert sorted(described["responses"])[:2] == ["200", "304"]
