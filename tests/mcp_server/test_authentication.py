from typing import Any

import pytest

from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_agent
from tests.support.mcp_endpoint import BOTH, ERAS, INITIALIZE, Served, names, serving
from tests.support.tokens import MODES, TOKENS_FILE, MakeToken, bearer, file_token, token_settings

DOC_1 = {"doc_id": "doc_1"}
PATHS = ("/mcp", "/mcp/sse")
AGENTS = Config(agents=[make_agent("one"), make_agent("two", exclude=["read_doc_pages"])])


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> tuple[dict[str, Any], MakeToken]:
    """Return the settings of an auth_mode, and a function that issues its tokens."""
    settings, make = MODES[request.param]
    return settings(), make


Mode = tuple[dict[str, Any], MakeToken]


async def status(served: Served, headers: dict[str, str], path: str = "/mcp") -> int:
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
    return (await served.http.post(path, json=body, headers={**BOTH, **headers})).status_code


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_token_determines_the_tenant_of_the_documents(
    mode: Mode, path: str, era: str
) -> None:
    settings, make = mode
    mine, foreign = make(tenant="tenant_1"), make(tenant="tenant_2")
    async with serving(**settings) as served:
        async with served.client(path, mode=era, headers=bearer(mine)) as client:
            own = await client.call_tool("read_doc_metadata", DOC_1)
        async with served.client(path, mode=era, headers=bearer(foreign)) as client:
            others = await client.call_tool("read_doc_metadata", DOC_1)
    assert (own.is_error, others.is_error) == (False, True)


@pytest.mark.parametrize("path", ["/mcp", "/mcp/agents/one"])
async def test_a_request_without_a_token_is_refused(mode: Mode, path: str) -> None:
    async with serving(**mode[0]) as served:
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
        response = await served.http.post(path, json=body, headers=BOTH)
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


async def test_a_refused_request_has_its_trace_id_in_answer_and_log(mode: Mode) -> None:
    async with serving(**mode[0]) as served:
        with capture_logs() as lines:
            response = await served.http.post("/mcp", json={}, headers={"X-Trace-Id": "t-1"})
    trace_id = response.json()["error"]["data"]["trace_id"]
    (line,) = [line for line in lines if line["event"] == "request.refused"]
    assert (trace_id, response.headers["x-trace-id"], line["trace_id"]) == ("t-1", "t-1", "t-1")


async def test_an_unknown_token_is_reported_as_such(mode: Mode) -> None:
    async with serving(**mode[0]) as served:
        stream = await served.http.get("/mcp/sse", headers=bearer("mtp_wrong"))
    challenge = stream.headers["www-authenticate"]
    assert (stream.status_code, challenge, "mtp_wrong" in stream.text) == (
        401,
        'Bearer error="invalid_token"',
        False,
    )


async def test_a_header_that_names_another_tenant_is_refused(mode: Mode) -> None:
    settings, make = mode
    headers = bearer(make(tenant="tenant_1"), **{"X-Tenant-Id": "tenant_2"})
    async with serving(**settings) as served:
        assert await status(served, headers) == 403


async def test_a_path_with_an_agent_outside_the_token_is_refused(mode: Mode) -> None:
    settings, make = mode
    headers = bearer(make(agents=("one",)))
    async with serving(config=AGENTS, **settings) as served:
        found = [await status(served, headers, f"/mcp/agents/{name}") for name in ("one", "two")]
    assert found == [200, 403]


@pytest.mark.parametrize("era", ERAS)
async def test_a_token_for_one_agent_needs_no_path_for_it(mode: Mode, era: str) -> None:
    settings, make = mode
    headers = bearer(make(agents=("two",)))
    async with (
        serving(config=AGENTS, **settings) as served,
        served.client(mode=era, headers=headers) as client,
    ):
        tools = names(await client.list_tools())
    assert ("read_doc_section" in tools, "read_doc_pages" in tools) == (True, False)


async def test_an_operators_token_cannot_read_documents_of_the_default_tenant(mode: Mode) -> None:
    settings, make = mode
    headers = bearer(make(tenant=None, admin=True))
    async with (
        serving(default_tenant_id="tenant_1", **settings) as served,
        served.client(headers=headers) as client,
    ):
        tools = names(await client.list_tools())
    assert tools == ["list_available_tools"]


async def test_a_session_cannot_be_used_with_another_token(mode: Mode) -> None:
    settings, make = mode
    mine, other = bearer(make(user="a")), bearer(make(user="b"))
    async with serving(**settings) as served:
        session_id = await served.open_session(headers=mine)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        found = [
            await served.http.post(
                "/mcp", json=ping, headers={**BOTH, **who, "Mcp-Session-Id": session_id}
            )
            for who in (mine, other)
        ]
    assert [response.status_code for response in found] == [200, 404]


async def test_a_revoked_token_is_refused_in_an_open_session() -> None:
    headers = bearer(file_token())
    async with serving(**token_settings()) as served:
        session_id = await served.open_session(headers=headers)
        TOKENS_FILE.write_text("")
        tokens = served.service.gateway.tokens
        assert tokens is not None
        await tokens.load()
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        response = await served.http.post(
            "/mcp", json=ping, headers={**BOTH, **headers, "Mcp-Session-Id": session_id}
        )
    assert response.status_code == 401
