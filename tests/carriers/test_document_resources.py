from typing import Any

from mcp_tools_proxy.wire.mcp_protocol import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_tools_proxy.wire.tracing import DOCUMENTS_KEY
from tests.carriers.clients import McpClient
from tests.carriers.gateway import Carrier
from tests.support.mcp_endpoint import LEGACY, MODERN
from tests.support.tables import named_row

PAGES = "doc://{doc_id}/pages/{from}-{to}"
TRUNCATED = "io.github.mcp-tools-proxy/truncated"


async def completed(client: McpClient, value: str, name: str = "doc_id", **more: Any) -> object:
    ref = {"type": "ref/resource", "uri": PAGES}
    params = {"ref": ref, "argument": {"name": name, "value": value}, **more}
    return (await client.result("completion/complete", params))["completion"]


async def test_the_templates_are_listed_completed_and_read(client: McpClient) -> None:
    listed = (await client.result("resources/templates/list"))["resourceTemplates"]
    assert [it["uriTemplate"] for it in listed[:2]] == ["doc://{doc_id}", PAGES]
    assert await completed(client, "DOC") == {"values": ["doc_1"], "hasMore": False}
    assert await completed(client, "1", "from") == {"values": []}
    page = await client.result("resources/read", {"uri": "doc://doc_1/pages/2-2"})
    (content,) = page["contents"]
    assert (content["uri"], content["mimeType"]) == ("doc://doc_1/pages/2-2", "text/plain")
    assert content["text"].startswith("How authentication with a bind works")
    whole = await client.result("resources/read", {"uri": "DOC://doc%5F1"})
    assert whole["contents"][0]["text"].startswith("What an LDAP directory")
    assert (TRUNCATED in page["_meta"], whole["_meta"][TRUNCATED]) == (False, True)


async def test_an_unreadable_uri_is_refused_with_a_reason(client: McpClient) -> None:
    for uri, code, is_missing in [
        ("doc://other", "DOCUMENT_NOT_FOUND", True),
        ("doc://doc_1/pages/900-901", "PAGES_NOT_FOUND", True),
        ("doc://doc_1/pages/2-1", "INVALID_ARGUMENTS", False),
        ("doc://doc_1/pages/a-b", "INVALID_ARGUMENTS", False),
        ("doc://doc_1/pages/1-900", "PAGE_SPAN_TOO_LARGE", False),
        ("doc://doc_1/pages/1", "RESOURCE_NOT_FOUND", True),
        ("doc://doc_1/../x", "RESOURCE_NOT_FOUND", True),
        ("doc://%ff", "RESOURCE_NOT_FOUND", True),
        ("doc://", "RESOURCE_NOT_FOUND", True),
    ]:
        with named_row(uri, code, is_missing):
            error = (await client.request("resources/read", {"uri": uri}))["error"]
            number = -32002 if is_missing and client.era != MODERN else INVALID_PARAMS
            assert (error["data"]["code"], error["code"]) == (code, number)


async def test_a_bound_request_reads_and_completes_only_its_documents(client: McpClient) -> None:
    bound: dict[str, Any] = {"_meta": {DOCUMENTS_KEY: ["other"]}}
    read = await client.request("resources/read", {"uri": "doc://doc_1", **bound})
    assert read["error"]["data"]["code"] == "ACCESS_DENIED"
    assert await completed(client, "d", **bound) == {"values": [], "hasMore": False}


async def test_a_document_cannot_be_subscribed_to(carrier: Carrier, client: McpClient) -> None:
    answer = await client.request("resources/subscribe", {"uri": "doc://doc_1"})
    if carrier.era == LEGACY:
        assert answer["error"]["data"]["code"] == "TOOL_FAILED"
    else:  # the method is gone
        assert answer["error"]["code"] == METHOD_NOT_FOUND
