import json

import pytest
from aiohttp import web

from mcp_tools_proxy.downstream.connection import ConnectionFailure, ResponseTooLarge
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from tests.downstream.connections import OpenConnection, dialled
from tests.downstream.stub_server import Answer, Json, answering, events, result_of

SECRET = "s3cr3t-value"


async def called(answer: Answer, *, era: str = "modern") -> object:
    """Call a tool of a server that answers like this."""
    async with answering(answer, era=era) as server, dialled(entry_of(server.url)) as line:
        return await line.call("any")


def entry_of(url: str) -> Json:
    return {"transport": "streamable-http", "url": url, "headers": {"X-Api-Key": SECRET}}


def replying(text: str | bytes, *, status: int = 200, kind: str = "application/json") -> Answer:
    """Answer with this body, replacing ``ID`` with the request's id."""
    body = text.encode() if isinstance(text, str) else text

    async def answer(_: web.Request, message: Json) -> web.Response:
        filled = body.replace(b"ID", str(message["id"]).encode())
        return web.Response(body=filled, status=status, headers={"Content-Type": kind})

    return answer


def streaming(*pieces: str) -> Answer:
    async def answer(request: web.Request, message: Json) -> web.StreamResponse:
        return await events(request, *(piece.replace("ID", str(message["id"])) for piece in pieces))

    return answer


ANSWER = '{"jsonrpc":"2.0","id":ID,"result":{"n":1}}'


FRAMED = {
    "json": replying(ANSWER),
    "charset": replying(ANSWER, kind="application/json; charset=utf-8"),
    "bom": replying(b"\xef\xbb\xbf" + ANSWER.encode()),
    "created": replying(ANSWER, status=201),
    "null-error": replying(ANSWER.replace("}}", '},"error":null}')),
    "id-as-text": replying(ANSWER.replace("ID", '"ID"')),
    "event": streaming(f"data: {ANSWER}\n\n"),
    "crlf-and-bom": streaming(f"\ufeffevent: message\r\ndata: {ANSWER}\r\n\r\n"),
    "no-blank-line": streaming(f"data: {ANSWER}"),
    "in-pieces": streaming(
        ": ping\n\nretry: 5\n\n",
        "data: {",
        '"jsonrpc":"2.0",\ndata: "id":ID,\n',
        'data:"result":{"n":1}}\r',
        "\n\r\n",
    ),
    "after-others": streaming(
        "event: other\ndata: nonsense\n\n",
        'data: {"jsonrpc":"2.0","id":999,"result":{}}\n\n',
        'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":1}}\n\n',
        'data: {"jsonrpc":"2.0","method":"ping","id":"p"}\n\n',
        f"data: {ANSWER}\n\n",
    ),
    "after-garbage": streaming(
        "data: ping\n\n", "data: [1]\n\n", 'data: {"id": ID\n\n', f"data: {ANSWER}\n\n"
    ),
}


@pytest.mark.parametrize("answer", FRAMED.values(), ids=FRAMED)
async def test_a_valid_answer_is_read_in_any_framing(answer: Answer) -> None:
    assert await called(answer) == {"n": 1}


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_answer_is_read(encoding: str) -> None:
    async def answer(_: web.Request, message: Json) -> web.Response:
        response = result_of(message, {"text": "x" * 100_000})
        response.enable_compression(web.ContentCoding(encoding))
        return response

    assert await called(answer) == {"text": "x" * 100_000}


BAD = {
    "html": (replying("<html>hello", kind="text/html"), 'content of type "text/html"'),
    "cut-off": (replying("{"), "is not JSON"),
    "empty": (replying(""), "is not JSON"),
    "batch": (replying(f"[{ANSWER}]"), "not a JSON-RPC message"),
    "no-result": (replying('{"jsonrpc":"2.0","id":ID}'), "neither a result nor an error"),
    "other-id": (replying('{"jsonrpc":"2.0","id":777,"result":{}}'), "another request"),
    "accepted": (replying("", status=202), "did not answer it"),
    "401": (replying("no", status=401), "401: the server rejected the credentials"),
    "403": (replying("no", status=403), "403: these credentials have no access"),
    "404": (replying("no", status=404), "404: not found at this address"),
    "429": (replying("no", status=429), "429: too many requests"),
    "502": (replying("<html>", status=502, kind="text/html"), "502: the server failed"),
    "500": (replying('{"detail":"x"}', status=500), "500: the server failed"),
    "created-html": (replying("<html>", status=201, kind="text/html"), 'type "text/html"'),
    "broken-event": (
        streaming('data: {"jsonrpc":"2.0","id":ID,"result":\n\n', f"data: {ANSWER}\n\n"),
        "is not JSON",
    ),
    "event-cut-off": (streaming("data: {\n\n"), "is not JSON"),
    "only-comments": (streaming(": nothing\n\n"), "before the answer"),
    "empty-stream": (streaming(), "before the answer"),
}


@pytest.mark.parametrize(("answer", "words"), BAD.values(), ids=BAD)
async def test_an_invalid_answer_is_reported_with_its_fault(answer: Answer, words: str) -> None:
    with pytest.raises(ConnectionFailure) as caught:
        await called(answer)
    assert words in caught.value.reason


@pytest.mark.parametrize("status", [200, 400, 404, 500])
async def test_a_json_rpc_error_is_passed_on_with_any_status(status: int) -> None:
    body = '{"jsonrpc":"2.0","id":ID,"error":{"code":-32011,"message":"No.","data":{"a":1}}}'
    with pytest.raises(JsonRpcError) as caught:
        await called(replying(body, status=status))
    error = caught.value
    assert (error.code, error.message, error.data) == (-32011, "No.", {"a": 1})


async def test_a_closed_connection_fails_only_its_call() -> None:
    async def answer(request: web.Request, message: Json) -> web.Response:
        if message["params"]["arguments"]:
            assert request.transport is not None
            request.transport.close()
        return result_of(message, {"n": 1})

    async with answering(answer) as server, dialled(entry_of(server.url)) as line:
        with pytest.raises(ConnectionFailure):
            await line.call("any", die=True)
        assert await line.call("any") == {"n": 1}


async def test_an_answer_with_a_too_large_content_length_is_not_read() -> None:
    async def answer(request: web.Request, _: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = 40 * 1024 * 1024
        await response.prepare(request)
        return response

    with pytest.raises(ResponseTooLarge):
        await called(answer)


@pytest.mark.parametrize("compressed", [False, True])
async def test_reading_stops_at_the_size_limit(compressed: bool) -> None:
    async def answer(request: web.Request, message: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        if compressed:
            response.enable_compression(web.ContentCoding.gzip)
        await response.prepare(request)
        for _ in range(40):
            await response.write(b" " * 1024 * 1024)
        return response

    async with answering(answer) as server, dialled(entry_of(server.url)) as line:
        with pytest.raises(ResponseTooLarge):
            await line.call("any")
        with pytest.raises(ResponseTooLarge):
            await line.call("any")


async def test_a_too_large_event_fails_only_its_call() -> None:
    async def answer(request: web.Request, message: Json) -> web.StreamResponse:
        if message["params"]["arguments"]:
            return await events(request, "data: ", *(["x" * 1024 * 1024] * 33), "\n\n")
        return result_of(message, {"n": 1})

    async with answering(answer) as server, dialled(entry_of(server.url)) as line:
        with pytest.raises(ResponseTooLarge):
            await line.call("any", large=True)
        assert await line.call("any") == {"n": 1}


async def test_a_redirect_is_not_followed() -> None:
    async def elsewhere(_: web.Request, message: Json) -> web.Response:
        return result_of(message, {"n": 1})

    async with answering(elsewhere) as other:

        async def answer(_: web.Request, __: Json) -> web.Response:
            raise web.HTTPTemporaryRedirect(other.url)

        with pytest.raises(ConnectionFailure) as caught:
            await called(answer)
        assert "redirects to another address are not followed" in caught.value.reason
        assert other.seen == []


async def test_a_reason_contains_neither_headers_nor_the_address() -> None:
    reasons = []
    for status in (400, 401, 500):
        answer = replying(json.dumps({"echo": SECRET}), status=status)
        async with answering(answer) as server:
            url = server.url.replace("127.", "user:pa55word@127.") + "?key=t0ken"
            async with dialled(entry_of(url)) as line:
                reasons.append(await reason_of(line))
    assert not [word for word in (SECRET, "pa55word", "t0ken") if word in " ".join(reasons)]


async def test_invalid_unicode_fails_only_its_call() -> None:
    async with answering(replying(ANSWER)) as server, dialled(entry_of(server.url)) as line:
        with pytest.raises(ConnectionFailure):
            await line.call("any", text="\ud800")
        assert await line.call("any") == {"n": 1}


async def test_connections_are_reused_after_event_streams() -> None:
    ports = set()

    async def answer(request: web.Request, message: Json) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        return await events(request, "data: " + ANSWER.replace("ID", str(message["id"])) + "\n\n")

    async with answering(answer) as server, dialled(entry_of(server.url)) as line:
        for _ in range(20):
            await line.call("any")
    assert len(ports) <= 3


async def reason_of(line: OpenConnection) -> str:
    with pytest.raises(ConnectionFailure) as caught:
        await line.call("any")
    return caught.value.reason
