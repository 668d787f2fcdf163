"""MCP clients are sent to the sign-in by URL elicitation of their era."""

from tests.login_pages.page_gateway import TOOL, page_gateway
from tests.support.configuration import Json
from tests.support.mcp_endpoint import BOTH, INITIALIZE, LEGACY, answer
from tests.support.tokens import bearer

OPENS_URLS: Json = {"elicitation": {"url": {}}}
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CALL: Json = {"name": TOOL, "arguments": {}}


async def test_a_client_of_2026_is_asked_for_input_and_continues_after_it() -> None:
    async with page_gateway() as gateway:
        served, headers = gateway.served, bearer(gateway.token())
        meta = {CAPABILITIES: OPENS_URLS}
        result = answer(await served.request("tools/call", CALL, headers=headers, meta=meta))[
            "result"
        ]
        assert result["resultType"] == "input_required"
        ((key, request),) = result["inputRequests"].items()
        assert request["method"] == "elicitation/create"
        assert set(request["params"]) == {"mode", "message", "url"}
        accepted = {**CALL, "inputResponses": {key: {"action": "accept"}}}
        too_early = answer(
            await served.request("tools/call", accepted, headers=headers, meta=meta)
        )["result"]
        assert too_early["isError"] is True  # otherwise it would be asked repeatedly
        await gateway.sign_in(gateway.browser(), request["params"]["url"])
        done = answer(await served.request("tools/call", accepted, headers=headers, meta=meta))
        assert "isError" not in done["result"], done


async def test_a_client_without_url_elicitation_gets_the_address_as_text() -> None:
    async with page_gateway() as gateway:
        response = await gateway.served.request("tools/call", CALL, headers=bearer(gateway.token()))
        result, url = answer(response)["result"], await gateway.address()
    assert result["isError"] is True
    assert url in result["content"][0]["text"]
    (error,) = (it for name, it in result["_meta"].items() if name.endswith("error"))
    assert error["details"]["url"] == url


async def test_a_client_of_2025_gets_the_error_of_its_era() -> None:
    async with page_gateway() as gateway:
        headers = {**BOTH, **bearer(gateway.token()), "MCP-Protocol-Version": LEGACY}
        http = gateway.served.http
        begin = {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {**INITIALIZE, "capabilities": OPENS_URLS},
        }
        begun = await http.post("/mcp", json=begin, headers=headers)
        session = {**headers, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}
        error = answer(await http.post("/mcp", json=call, headers=session))["error"]
        url = await gateway.address()
    assert error["code"] == -32042
    (elicitation,) = error["data"]["elicitations"]
    assert (elicitation["mode"], elicitation["url"]) == ("url", url)
    assert elicitation["elicitationId"]
