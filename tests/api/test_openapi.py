"""The OpenAPI document is true: schemathesis finds no answer that it does not describe."""

from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import (
    negative_data_rejection,
    not_a_server_error,
    positive_data_acceptance,
)
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.app import create_app
from mcp_tools_proxy.documents.seed import seed_documents
from mcp_tools_proxy.settings import Settings
from tests.service import EXECUTE, request_of

UNLIMITED = {
    f"rate_limit_{name}": 0 for name in ("calls", "tokens", "tenant_calls", "tenant_tokens")
}
app = create_app(
    Settings.model_validate(
        {"_env_file": None, "require_agent": False, "allowed_hosts": "testserver", **UNLIMITED}
    )
)  # agents.json is never read without the lifespan, and until it is an agent is required
for document in seed_documents():
    app.state.gateway.repository.put(document)


async def without_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the application; schemathesis would start and stop it around each call."""
    if scope["type"] != "lifespan":
        await app(scope, receive, send)
        return
    for phase in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{phase}.complete"})


schema = schemathesis.openapi.from_asgi("/openapi.json", without_lifespan)
quietly = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)


CALLER = {"user", "user.user_id", "user.tenant_id"}


def beyond_openapi(case: schemathesis.Case[Any], response: Any) -> list[Any]:
    """Name the checks of what OpenAPI cannot tell of who calls."""
    checks: list[Any] = []
    if response.status_code == 422 and response.json()["error"]["details"]["field"] in CALLER:
        checks.append(positive_data_acceptance)  # the body or a header has to say it
    if not all(str(value).isascii() for value in (case.headers or {}).values()):
        checks.append(negative_data_rejection)  # it may be UTF-8 by chance
    return checks


@schema.parametrize()
@quietly
def test_every_answer_is_described(case: schemathesis.Case[Any]) -> None:
    response = case.call()
    if response.status_code == 503:
        assert response.json().get("error", {}).get("code", "not ready") in {
            "RETRIEVAL_NOT_CONFIGURED",
            "not ready",
        }
        case.validate_response(response, excluded_checks=[not_a_server_error])
    else:
        case.validate_response(response, excluded_checks=beyond_openapi(case, response))


PLAUSIBLE: st.SearchStrategy[object] = st.sampled_from(
    ["doc_1", "sec_intro", "p1-c1", "no such thing", "", "leak", "7", 1, 2, 13, 0, -1, 10**20, 1.5,
     True, None, [], {}, "LDAP certificate"]
)  # fmt: skip
NAMES = ["doc_id", "section_id", "page_start", "page_end", "start_char", "query", "max_results",
         "anchor_chunk_id", "window_before", "window_after", "radius", "other"]  # fmt: skip
TOOLS = ["read_doc_section", "read_doc_pages", "read_doc_metadata", "doc_local_search",
         "read_chunk_window", "list_available_tools"]  # fmt: skip


@pytest.mark.parametrize("tool_name", TOOLS)
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
    assert list(examples()) == TOOLS


@pytest.mark.parametrize("tool_name", TOOLS)
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
