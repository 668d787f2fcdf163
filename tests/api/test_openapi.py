"""The OpenAPI document is accurate: schemathesis finds no undescribed answer."""

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings
from tests.support.local_tools import LOCAL_TOOLS
from tests.support.service import EXECUTE

ROOT = Path(__file__).parents[2]
LONG_S = 300
"""For ``make test-full``, which has longer limits."""

BOUNDARIES = Path(__file__).with_name("openapi_boundaries.py")


@pytest.fixture(scope="module")
def document() -> Any:
    return create_app(Settings()).openapi()


def target(document: Any, part: Any) -> Any:
    if "$ref" not in part:
        return part
    _, kind, name = part["$ref"].removeprefix("#/").split("/")
    return document["components"][kind][name]


@pytest.fixture(scope="module")
def described() -> Any:
    """Import schemathesis, which takes 2 s, only for these tests."""
    return importlib.import_module("tests.api.described_answers")


@pytest.mark.full
@pytest.mark.parametrize("part", range(3))
def test_every_answer_to_boundary_values_is_described(
    part: int, pytestconfig: pytest.Config
) -> None:
    profile = pytestconfig.getoption("--hypothesis-profile") or "quick"
    done = subprocess.run(  # noqa: S603 - our own test, no shell
        [sys.executable, "-m", "pytest", "-p", "schemathesis.pytest.plugin", "-p", "no:xdist",
         "-p", "no:cacheprovider", "--hypothesis-profile", profile, str(BOUNDARIES)],
        cwd=ROOT, capture_output=True, text=True, timeout=LONG_S, check=False,
        env={**os.environ, "PART": f"{part}/3"},  # noqa: TID251 - for our own test
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_every_tool_has_an_example(document: Any) -> None:
    content = document["paths"][EXECUTE]["post"]["requestBody"]["content"]
    assert list(content["application/json"]["examples"]) == [*LOCAL_TOOLS]


# Public names: generated clients have functions of these names in modules of these tags. A change
# is breaking and needs a line under "Before you upgrade".
OPERATIONS = {
    ("POST", "/internal/mcp/execute"): ("calls", "execute"),
    ("POST", "/internal/mcp/execute/batch"): ("calls", "execute_batch"),
    ("POST", "/internal/mcp/try"): ("calls", "try_tool"),
    ("POST", "/internal/mcp/prompts/get"): ("calls", "get_prompt"),
    ("POST", "/internal/mcp/resources/read"): ("calls", "read_resource"),
    ("GET", "/internal/mcp/tools"): ("lists", "list_tools"),
    ("GET", "/internal/mcp/prompts"): ("lists", "list_prompts"),
    ("GET", "/internal/mcp/resources"): ("lists", "list_resources"),
    ("GET", "/internal/mcp/documents"): ("lists", "list_readable_documents"),
    ("GET", "/internal/mcp/audit"): ("audit", "list_audit_records"),
    ("GET", "/internal/mcp/calls/stream"): ("audit", "stream_audit_records"),
    ("GET", "/internal/mcp/runs/{run_id}"): ("audit", "get_run"),
    ("GET", "/internal/mcp/limits"): ("status", "list_limits"),
    ("POST", "/internal/mcp/explain"): ("audit", "explain_call"),
    ("GET", "/internal/mcp/presets"): ("presets", "list_presets"),
    ("GET", "/internal/mcp/presets/active"): ("presets", "get_active_preset"),
    ("PUT", "/internal/mcp/presets/active"): ("presets", "set_active_preset"),
    ("GET", "/internal/documents"): ("documents", "list_documents"),
    ("DELETE", "/internal/documents"): ("documents", "remove_documents"),
    ("GET", "/internal/documents/content"): ("documents", "get_document"),
    ("PUT", "/internal/documents/content"): ("documents", "put_document"),
    ("DELETE", "/internal/documents/content"): ("documents", "remove_document"),
    ("GET", "/internal/documents/rights"): ("documents", "get_document_rights"),
    ("GET", "/internal/documents/uploads"): ("documents", "get_upload"),
    ("DELETE", "/internal/documents/uploads"): ("documents", "cancel_upload"),
    ("PUT", "/internal/documents/rights"): ("documents", "put_document_rights"),
    ("GET", "/internal/documents/facts"): ("documents", "get_document_facts"),
    ("PUT", "/internal/documents/facts"): ("documents", "put_document_facts"),
    ("GET", "/internal/mcp/definitions"): ("status", "list_definitions"),
    ("PUT", "/internal/mcp/definitions"): ("status", "accept_definition"),
    ("GET", "/internal/mcp/logins"): ("logins", "list_logins"),
    ("POST", "/internal/mcp/logins"): ("logins", "begin_login"),
    ("DELETE", "/internal/mcp/logins"): ("logins", "end_login"),
    ("GET", "/internal/mcp/tokens"): ("tokens", "list_tokens"),
    ("POST", "/internal/mcp/tokens"): ("tokens", "create_token"),
    ("DELETE", "/internal/mcp/tokens"): ("tokens", "revoke_token"),
    ("GET", "/internal/mcp/overview"): ("status", "get_overview"),
    ("GET", "/internal/mcp/log-level"): ("status", "get_log_level"),
    ("PUT", "/internal/mcp/log-level"): ("status", "set_log_level"),
    ("GET", "/internal/mcp/servers"): ("status", "list_servers"),
    ("POST", "/internal/mcp/servers/{server_id}/reconnect"): ("status", "reconnect_server"),
    ("GET", "/internal/mcp/remote"): ("status", "get_remote"),
    ("GET", "/health"): ("health", "get_health"),
    ("GET", "/health/ready"): ("health", "get_readiness"),
    ("GET", "/metrics"): ("health", "get_metrics"),
    ("GET", "/.well-known/jwks.json"): ("health", "get_signing_keys"),
}


# A test for each operation and tool: one program with all of them needed 90 s on a busy machine.
@pytest.mark.slow
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_answer_is_described(described: Any, method: str, path: str) -> None:
    described.check_operation(method, path)


@pytest.mark.slow
@pytest.mark.parametrize("tool_name", LOCAL_TOOLS)
def test_every_tool_answer_is_described(described: Any, tool_name: str) -> None:
    described.check_tool(tool_name)


@pytest.mark.slow
@pytest.mark.parametrize("tool_name", LOCAL_TOOLS)
def test_every_example_runs(document: Any, described: Any, tool_name: str) -> None:
    content = document["paths"][EXECUTE]["post"]["requestBody"]["content"]
    examples = content["application/json"]["examples"]
    case = described.schema[EXECUTE]["POST"].Case(body=examples[tool_name]["value"])
    answer = case.call().json()
    code = answer.get("error", {}).get("code", "OK")
    assert code == ("RETRIEVAL_NOT_CONFIGURED" if tool_name == "read_chunk_window" else "OK")


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_operations_keep_their_published_ids_and_tags(document: Any) -> None:
    described = {
        (method, path): (*operation["tags"], operation["operationId"])
        for method, path, operation in operations(document)
    }
    assert described == OPERATIONS


def test_every_tag_is_described(document: Any) -> None:
    tags = [tag["name"] for tag in document["tags"] if tag["description"]]
    assert tags == [
        *("calls", "lists", "presets", "documents", "audit", "logins", "tokens"),
        *("status", "health"),
    ]


@pytest.mark.parametrize(
    ("method", "path", "schema"),
    [
        ("post", "/internal/mcp/execute", "ExecuteRequest"),
        ("post", "/internal/mcp/execute/batch", "BatchBody"),
        ("post", "/internal/mcp/prompts/get", "PromptRequest"),
        ("post", "/internal/mcp/resources/read", "ResourceRequest"),
        ("put", "/internal/mcp/presets/active", "PresetChoice"),
        ("put", "/internal/documents/rights", "RightsChange"),
        ("put", "/internal/documents/facts", "FactsChange"),
        ("put", "/internal/mcp/definitions", "DefinitionChoice"),
        ("put", "/internal/mcp/log-level", "LogLevelChange"),
        ("post", "/internal/mcp/logins", "LoginWanted"),
        ("post", "/internal/mcp/tokens", "TokenWanted"),
    ],
)
def test_a_body_refers_to_a_shared_schema(
    document: Any, method: str, path: str, schema: str
) -> None:
    content = document["paths"][path][method]["requestBody"]["content"]
    assert content["application/json"]["schema"] == {"$ref": f"#/components/schemas/{schema}"}


def test_all_responses_except_the_usual_one_are_shared(document: Any) -> None:
    own = {
        (operation["operationId"], status)
        for _, _, operation in operations(document)
        for status, response in operation["responses"].items()
        if "$ref" not in response
    }
    usual = {(name, "200") for _, name in OPERATIONS.values()}
    assert own == usual - {("reconnect_server", "200")} | {
        ("get_readiness", "503"),
        ("get_signing_keys", "404"),
        ("list_tools", "400"),
        ("put_document", "201"),
        ("put_document", "202"),
        ("reconnect_server", "202"),
    }


def test_the_outcome_of_a_call_determines_its_status(document: Any) -> None:
    schema = document["components"]["schemas"]["CallResponse"]
    assert schema["discriminator"] == {
        "propertyName": "status",
        "mapping": {
            "ok": "#/components/schemas/OkResponse",
            "error": "#/components/schemas/ErrorResponse",
        },
    }


def test_every_reference_has_a_target(document: Any) -> None:
    found = set(re.findall(r'"(#/components/[^"]+)"', json.dumps(document)))
    shared = {
        f"#/components/{kind}/{name}"
        for kind, parts in document["components"].items()
        for name in parts
        if kind != "securitySchemes"
    }
    assert found == shared


@pytest.mark.parametrize(
    ("schema", "field", "names"),
    [
        ("ErrorBody", "code", "ErrorCode"),
        ("Server", "state", "ServerState"),
        ("Server", "transport", "ServerTransport"),
        ("RemoteStatus", "state", "RemoteState"),
        ("Readiness", "status", "ReadinessStatus"),
    ],
)
def test_an_extensible_enumeration_accepts_any_string(
    document: Any, schema: str, field: str, names: str
) -> None:
    described = document["components"]["schemas"][schema]["properties"][field]
    assert described == {"anyOf": [{"$ref": f"#/components/schemas/{names}"}, {"type": "string"}]}


def test_null_counts_as_absent_in_requests_and_is_never_sent(document: Any) -> None:
    """Except in a document's ``ocr``, which has an entry for each page."""
    schemas = document["components"]["schemas"]
    nullable = {name for name, schema in schemas.items() if '"null"' in json.dumps(schema)}
    requests = {"ExecuteRequest", "BatchRequest", "ReplyBatchRequest", "PromptRequest"}
    parts = {"CallRequest", "ChatToolCall", "RequestUser", "Run"}
    assert nullable == requests | parts | {
        "ResourceRequest",
        "PresetChoice",
        "RightsChange",
        "FactsChange",
        "LogLevelChange",
        "TokenWanted",
        "DocumentContent",
    }


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/internal/mcp/tools", ["format", "names", "name_style", "preset_id"]),
        ("/internal/mcp/prompts", []),
        ("/internal/mcp/resources", []),
    ],
)
def test_lists_describe_their_query_and_the_304_response(
    document: Any, path: str, own: list[str]
) -> None:
    described = document["paths"][path]["get"]
    names = [target(document, it)["name"] for it in described["parameters"]]
    caller = ["X-Tenant-Id", "X-User-Id", "X-User-Roles", "X-Agent-Id", "X-Documents"]
    headers = [*caller, "X-Trace-Id", "If-None-Match"]
    assert names == ["tenant_id", "user_id", "roles", "agent", "documents", *own, *headers]
    assert sorted(described["responses"])[:2] == ["200", "304"]
    assert ("400" in described["responses"]) == ("name_style" in own)
