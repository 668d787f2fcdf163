"""A client that openapi-python-client makes: its names, and that it understands the answers."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings
from tests.support.generated_client import PACKAGE, generate
from tests.support.service import running
from tests.support.tokens import file_token, token_settings

pytestmark = pytest.mark.slow  # it needs programs that ``make quick`` does not install

FUNCTIONS = {
    "audit": ["explain_call", "list_audit_records", "stream_audit_records"],
    "calls": ["execute", "execute_batch", "get_prompt", "read_resource", "try_tool"],
    "documents": [
        "get_document",
        "get_document_rights",
        "list_documents",
        "put_document",
        "put_document_rights",
        "remove_document",
    ],
    "health": ["get_health", "get_metrics", "get_readiness", "get_signing_keys"],
    "lists": ["list_prompts", "list_readable_documents", "list_resources", "list_tools"],
    "logins": ["begin_login", "end_login", "list_logins"],
    "presets": ["get_active_preset", "list_presets", "set_active_preset"],
    "status": [
        "accept_definition",
        "get_log_level",
        "get_overview",
        "get_remote",
        "list_definitions",
        "list_limits",
        "list_servers",
        "reconnect_server",
        "set_log_level",
    ],
    "tokens": ["create_token", "list_tokens", "revoke_token"],
}
"""Modules by package; in each of them are ``sync`` and ``asyncio``. All names are a promise."""

CLASSES = [
    "ActivePreset", "AnthropicOtherBlock", "AnthropicOtherBlockType", "AnthropicTool",
    "Arguments", "AttentionItem", "AttentionKind", "AuditRecord", "AuditRecordPayload",
    "AuditRecords",
    "BatchRequest", "BatchResults", "Budget", "CallRequest", "CallResult", "CallsByCode",
    "ChatCustomCall",
    "ChatToolCall", "ChatToolMessage", "CheckStatus", "CustomTool",
    "Definition", "DefinitionChoice", "DefinitionDifference", "Edit", "DefinitionFlag",
    "FlagReason", "DefinitionKind", "DefinitionList",
    "DefinitionStatus", "DefinitionWords", "DefinitionsLockState", "DefinitionsMode",
    "DocumentChunk",
    "DocumentContent", "DocumentFacts", "DocumentList", "DocumentProblem", "DocumentReaders",
    "DocumentRights", "DocumentSection", "ErrorBody", "ErrorCode",
    "ErrorDetails", "ErrorResponse", "ExecuteRequest", "ExplainedBudget", "ExplainedCheck",
    "Explanation", "GeminiCallPart", "GeminiFunctionCall", "GeminiFunctionResponse",
    "GeminiResponse", "GeminiResponsePart", "GeminiResultsContent", "GeminiTextPart", "GeminiTool",
    "GuardAction", "GuardFinding", "GuardName", "GuardPlace", "Health", "HiddenFor",
    "ImageBlock", "ImageSource",
    "ImageSourceMediaType", "InputImage", "InputText", "ItemKind", "JsonSchema", "Limit",
    "LimitList", "LimitUnit", "LogLevel",
    "LogLevelChange", "LogLevelName", "Login", "LoginFor", "LoginList", "LoginWanted", "Logout",
    "McpTool",
    "MinuteCalls", "MissingItem", "MissingReason", "ModelFunction", "NamedReaders", "NewToken",
    "OfferedDefinition", "OfferedItem", "OfferedKind", "OkResponse", "OpenAiFunction",
    "OpenAiTool", "OperatorRight", "OutputCaller", "Overview", "Preset", "PresetChoice",
    "PresetList", "PresetPreview", "PreviewedTool", "Problem", "Prompt", "PromptList",
    "PromptRequest", "ReadableDocument", "ReadableDocumentList", "Readiness",
    "ReadinessCheck", "ReadinessChecks", "ReadinessStatus", "RecentCalls", "RemoteState",
    "RemoteStatus", "Replica", "ReplyBatchRequest", "RequestUser", "Resource",
    "ResourceList", "ResourceRequest", "ResourceTemplate", "ResponsesCall",
    "ResponsesCallOutput", "ResponsesCallOutputType", "ResponsesCallType",
    "ResponsesOtherItem", "ResponsesOtherItemType", "RightsChange", "RulePlace", "SentCall",
    "Server", "ServerCalls", "ServerCounts", "ServerList", "ServerOffers", "ServerState",
    "ServerTransport", "SessionCounts", "ShadowedItem", "SignIn", "SigningKey",
    "SigningKeySet", "TextBlock", "TightBudget", "Token", "TokenList", "TokenWanted",
    "ToolAnnotations", "ToolFormat", "ToolList",
    "ToolNameStyle", "ToolResultBlock", "ToolResultsMessage", "ToolUseBlock", "ToolWarning",
    "TryErrorResponse", "TryOkResponse",
]  # fmt: skip

Import = Callable[[str], Any]
"""Imports a module of the client; Any, since it is made while the tests run."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the client was made."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "openapi.json").write_text(json.dumps(create_app(Settings()).openapi()))
    (folder / "config.yml").write_text("post_hooks: []\n")
    arguments = ["generate", "--path", "openapi.json", "--meta", "none", "--config", "config.yml"]
    generate(arguments, folder)
    return folder


@pytest.fixture(scope="module")
def module(folder: Path) -> Iterator[Import]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield lambda name: import_module(f"{PACKAGE}.{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_functions_and_classes_have_the_names_that_were_chosen(
    folder: Path, module: Import
) -> None:
    packages = sorted((folder / PACKAGE / "api").glob("[!_]*"))
    functions = {it.name: sorted(py.stem for py in it.glob("[!_]*.py")) for it in packages}
    assert functions == FUNCTIONS
    assert sorted(module("models").__all__) == sorted(CLASSES)


@pytest.fixture(scope="module")
def models(module: Import) -> Any:
    return module("models")


@pytest.fixture
def user(models: Any) -> Any:
    return models.RequestUser(user_id="user_1", tenant_id="tenant_1")


def metadata_of(doc_id: str, models: Any, **context: Any) -> Any:
    return models.ExecuteRequest(
        tool_name="read_doc_metadata",
        arguments=models.Arguments.from_dict({"doc_id": doc_id}),
        **context,
    )


async def test_a_call_is_executed(module: Import, models: Any, user: Any) -> None:
    execute = module("api.calls.execute")
    async with running() as service:
        client = module("client").Client("").set_async_httpx_client(service.http)
        answer = await execute.asyncio(client=client, body=metadata_of("doc_1", models, user=user))
    assert type(answer) is models.OkResponse
    assert answer.result["doc_id"] == "doc_1"


async def test_an_error_has_its_code(module: Import, models: Any, user: Any) -> None:
    execute = module("api.calls.execute")
    async with running() as service:
        client = module("client").Client("").set_async_httpx_client(service.http)
        answer = await execute.asyncio(client=client, body=metadata_of("doc_9", models, user=user))
    assert type(answer) is models.ErrorResponse
    assert answer.error.code is models.ErrorCode.DOCUMENT_NOT_FOUND


async def test_headers_name_the_caller_and_the_trace(module: Import, models: Any) -> None:
    execute = module("api.calls.execute")
    async with running() as service:
        client = module("client").Client("").set_async_httpx_client(service.http)
        answer = await execute.asyncio(
            client=client,
            body=metadata_of("doc_1", models),
            x_tenant_id="tenant_1",
            x_user_id="user_1",
            x_trace_id="trace_1",
        )
    assert (answer.status, answer.trace_id) == ("ok", "trace_1")


async def test_a_batch_is_executed(module: Import, models: Any, user: Any) -> None:
    calls = [
        models.CallRequest(name, models.Arguments.from_dict({"doc_id": "doc_1"}))
        for name in ("read_doc_metadata", "no_such_tool")
    ]
    async with running() as service:
        client = module("client").Client("").set_async_httpx_client(service.http)
        answer = await module("api.calls.execute_batch").asyncio(
            client=client, body=models.BatchRequest(calls=calls, user=user)
        )
    assert [type(it) for it in answer.results] == [models.OkResponse, models.ErrorResponse]


async def test_a_batch_that_is_refused_as_a_whole_is_an_error(
    module: Import, models: Any, user: Any
) -> None:
    token = file_token(agents=("helpdesk", "sales"))
    body = models.BatchRequest(calls=[models.CallRequest("read_doc_metadata")], user=user)
    async with running(**token_settings()) as service:
        through = {"transport": httpx.ASGITransport(service.app)}
        client = module("client").AuthenticatedClient("http://localhost", token, httpx_args=through)
        async with client:
            answer = await module("api.calls.execute_batch").asyncio(client=client, body=body)
    assert answer.error.code is models.ErrorCode.AGENT_REQUIRED


@pytest.mark.parametrize(
    ("tool_format", "kind"),
    [
        ("MCP", "McpTool"),
        ("OPENAI", "OpenAiTool"),
        ("ANTHROPIC", "AnthropicTool"),
        ("GEMINI", "GeminiTool"),
    ],
)
async def test_tools_are_listed_in_each_format(
    module: Import, models: Any, tool_format: str, kind: str
) -> None:
    async with running() as service:
        client = module("client").Client("").set_async_httpx_client(service.http)
        answer = await module("api.lists.list_tools").asyncio(
            client=client, tenant_id="tenant_1", format_=models.ToolFormat[tool_format]
        )
    assert {type(tool) for tool in answer.tools} == {getattr(models, kind)}


async def test_the_gateway_shows_its_state(module: Import, models: Any) -> None:
    async with running() as service:
        client = module("client").Client("").set_async_httpx_client(service.http)
        presets = await module("api.presets.list_presets").asyncio(client=client)
        active = await module("api.presets.get_active_preset").asyncio(client=client)
        readiness = await module("api.health.get_readiness").asyncio(client=client)
        remote = await module("api.status.get_remote").asyncio(client=client)
        servers = await module("api.status.list_servers").asyncio(client=client)
        metrics = await module("api.health.get_metrics").asyncio(client=client)
    assert presets.active == active.preset.id
    assert readiness.status is models.ReadinessStatus.READY
    assert readiness.checks["documents"].status is models.CheckStatus.OK
    assert (remote.state, servers.servers) == (models.RemoteState.OFF, [])
    assert metrics.startswith("# HELP")


async def test_a_bearer_token_says_who_calls(module: Import, models: Any) -> None:
    token = file_token(user="user_1")
    execute = module("api.calls.execute")
    async with running(**token_settings()) as service:
        through = {"transport": httpx.ASGITransport(service.app)}
        known = module("client").AuthenticatedClient("http://localhost", token, httpx_args=through)
        unknown = module("client").Client("http://localhost", httpx_args=through)
        body = metadata_of("doc_1", models)
        async with known, unknown:
            answer = await execute.asyncio(client=known, body=body)
            refused = await execute.asyncio_detailed(client=unknown, body=body)
    assert answer.status == "ok"
    assert (refused.status_code, refused.parsed.error.code) == (401, "UNAUTHENTICATED")


def answering(module: Import, answer: Mapping[str, object]) -> Any:
    """Create a client of a gateway of a later version."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    return module("client").Client("http://gateway", httpx_args={"transport": transport})


def test_a_code_of_a_later_version_is_a_text(module: Import, models: Any) -> None:
    error = {"code": "MOON_TOO_FULL", "message": "wait", "hint": "a field that is new"}
    client = answering(module, {"status": "error", "error": error, "trace_id": "t"})
    answer = module("api.calls.execute").sync(client=client, body=metadata_of("doc_1", models))
    assert (answer.error.code, answer.error["hint"]) == ("MOON_TOO_FULL", "a field that is new")


def test_states_of_a_later_version_are_texts(module: Import) -> None:
    server = {
        "server_id": "notes", "state": "hibernating", "transport": "pigeon", "stale": False,
        "counts": {"tools": 1}, "reconnects": 0,
    }  # fmt: skip
    servers = module("api.status.list_servers").sync(
        client=answering(module, {"servers": [server]})
    )
    remote = module("api.status.get_remote").sync(client=answering(module, {"state": "orbiting"}))
    ready = {"status": "yawning", "checks": {"moon": {"status": "full", "since": "today"}}}
    readiness = module("api.health.get_readiness").sync(client=answering(module, ready))
    assert (servers.servers[0].state, servers.servers[0].transport) == ("hibernating", "pigeon")
    assert remote.state == "orbiting"
    assert (readiness.status, readiness.checks["moon"].status) == ("yawning", "full")
