from mcp_tools_proxy.wire.mcp_protocol import INVALID_PARAMS
from mcp_tools_proxy.wire.tracing import CALLER_KEY, DOCUMENTS_KEY
from tests.carriers.clients import McpClient, call_of
from tests.support.configuration import Json
from tests.support.mcp_endpoint import LEGACY, MODERN
from tests.support.tables import named_row

METADATA = "read_doc_metadata"
SUBSCRIPTIONS: dict[str, tuple[str, Json]] = {
    MODERN: ("subscriptions/listen", {"notifications": {}}),
    LEGACY: ("resources/subscribe", {"uri": "raw://text"}),
}


async def text_of(client: McpClient, documents: object, **arguments: object) -> str:
    params = {"name": METADATA, "arguments": arguments, "_meta": {DOCUMENTS_KEY: documents}}
    result = await client.result("tools/call", params)
    return str(result["content"][0]["text"])


async def test_documents_bind_one_request_but_not_the_next(client: McpClient) -> None:
    assert '"doc_1"' in await text_of(client, ["doc_1"])
    for documents in ([], ["other"]):
        refused = await text_of(client, documents, doc_id="doc_1")
        assert refused.startswith("ACCESS_DENIED: ")
    assert '"doc_1"' in await text_of(client, None, doc_id="doc_1")
    assert (await text_of(client, None)).startswith("INVALID_ARGUMENTS: ")


async def test_lists_omit_the_argument_of_the_only_document(client: McpClient) -> None:
    for documents, shown in ((["doc_1"], False), (["doc_1", "other"], True), ([], True)):
        listed = (await client.result("tools/list", {"_meta": {DOCUMENTS_KEY: documents}}))["tools"]
        (schema,) = [it["inputSchema"] for it in listed if it["name"] == METADATA]
        assert ("doc_id" in schema["properties"]) is shown


async def test_an_invalid_document_list_is_refused(client: McpClient) -> None:
    cases: list[object] = ["doc_1", {}, 7, [1], [""], ["a\n"], ["x"] * 1001]
    for documents in cases:
        for method in ["tools/call", "tools/list"]:
            with named_row(documents, method):
                params = call_of(METADATA, {"doc_id": "doc_1"}, _meta={DOCUMENTS_KEY: documents})
                message = await client.request(method, params)
                assert message["error"]["code"] == INVALID_PARAMS
                assert DOCUMENTS_KEY in message["error"]["message"]


async def test_a_subscription_validates_the_bound_documents(client: McpClient) -> None:
    method, params = SUBSCRIPTIONS[client.era]
    bound = {**params, "_meta": {DOCUMENTS_KEY: "doc_1"}}
    async with client.exchange(method, bound) as exchange:
        error = (await anext(exchange.messages))["error"]
    assert (error["code"], DOCUMENTS_KEY in error["message"]) == (INVALID_PARAMS, True)


async def test_servers_receive_neither_the_documents_nor_the_identity_a_client_claims(
    client: McpClient,
) -> None:
    meta = {DOCUMENTS_KEY: ["doc_1"], CALLER_KEY: {"tenant_id": "x"}, "com.example/kept": 1}
    seen = (await client.call("meta", _meta=meta))["structuredContent"]
    assert "com.example/kept" in seen
    assert seen.keys().isdisjoint({DOCUMENTS_KEY, CALLER_KEY})
