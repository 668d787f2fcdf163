"""The OpenAPI document is true: schemathesis finds no answer that it does not describe."""

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error

from tests.api import openapi_answers
from tests.api.openapi_schema import quietly, schema
from tests.support.bounds import BOUND_S
from tests.support.local_tools import LOCAL_TOOLS
from tests.support.service import EXECUTE, request_of

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_answer_is_described() -> None:
    done = subprocess.run(  # noqa: S603 - our own test, no shell
        [sys.executable, "-m", "pytest", "-p", "schemathesis.pytest.plugin", "-p", "no:xdist",
         "-p", "no:cacheprovider", openapi_answers.__file__],
        cwd=ROOT, capture_output=True, text=True, timeout=BOUND_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


PLAUSIBLE: st.SearchStrategy[object] = st.sampled_from(
    ["doc_1", "sec_intro", "p1-c1", "no such thing", "", "leak", "7", 1, 2, 13, 0, -1, 10**20, 1.5,
     True, None, [], {}, "LDAP certificate"]
)  # fmt: skip
NAMES = ["doc_id", "section_id", "page_start", "page_end", "start_char", "query", "max_results",
         "anchor_chunk_id", "window_before", "window_after", "radius", "other"]  # fmt: skip


@pytest.mark.parametrize("tool_name", LOCAL_TOOLS)
@quietly
@given(arguments=st.dictionaries(st.sampled_from(NAMES), PLAUSIBLE, max_size=5))
def test_every_tools_answer_is_described(tool_name: str, arguments: dict[str, object]) -> None:
    case = schema[EXECUTE]["POST"].Case(body=cast("Any", request_of(tool_name, arguments)))
    response = case.call()
    code = response.json().get("error", {}).get("code")
    assert response.status_code == (503 if code == "RETRIEVAL_NOT_CONFIGURED" else 200)
    case.validate_response(response, excluded_checks=[not_a_server_error])


def examples() -> dict[str, Any]:
    content = schema.raw_schema["paths"][EXECUTE]["post"]["requestBody"]["content"]
    shown: dict[str, Any] = content["application/json"]["examples"]
    return shown


def test_every_tool_has_an_example() -> None:
    assert list(examples()) == [*LOCAL_TOOLS]


@pytest.mark.parametrize("tool_name", LOCAL_TOOLS)
def test_every_example_runs(tool_name: str) -> None:
    case = schema[EXECUTE]["POST"].Case(body=examples()[tool_name]["value"])
    answer = case.call().json()
    code = answer.get("error", {}).get("code", "OK")
    assert code == ("RETRIEVAL_NOT_CONFIGURED" if tool_name == "read_chunk_window" else "OK")


@pytest.mark.parametrize(
    "path",
    ["/internal/mcp/execute", "/internal/mcp/execute/batch", "/internal/mcp/tools",
     "/internal/mcp/prompts", "/internal/mcp/prompts/get", "/internal/mcp/resources",
     "/internal/mcp/resources/read", "/internal/mcp/servers", "/internal/mcp/remote",
     "/internal/mcp/presets", "/internal/mcp/presets/active", "/health", "/health/ready",
     "/metrics"],
)  # fmt: skip
def test_every_route_is_described(path: str) -> None:
    assert path in schema.raw_schema["paths"]


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/internal/mcp/tools", ["format", "names"]),
        ("/internal/mcp/prompts", []),
        ("/internal/mcp/resources", []),
    ],
)
def test_a_list_describes_its_query_and_that_it_may_be_had_already(
    path: str, own: list[str]
) -> None:
    described = schema.raw_schema["paths"][path]["get"]
    names = [parameter["name"] for parameter in described["parameters"]]
    headers = ["X-Tenant-Id", "X-User-Id", "X-Agent-Id", "If-None-Match"]
    assert names == ["tenant_id", "user_id", "agent", *own, *headers]
    assert sorted(described["responses"])[:2] == ["200", "304"]
