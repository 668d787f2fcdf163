import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import pytest

from mcp_tools_proxy.downstream.connection import ResponseTooLarge
from tests.downstream.connections import dialled
from tests.downstream.stub_server import MODERN, Json

TEXT = "Ünïcödé \u2028 漢字 🎉"
CALL_S = 60.0
MIB = 1024 * 1024

Body = Callable[[Json], AsyncIterator[bytes]]


def pieces_of(data: bytes, size: int) -> Iterable[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@asynccontextmanager
async def serving(headers: str, body: Body) -> AsyncIterator[str]:
    """Serve MCP over a plain socket; calls are answered with ``headers`` and ``body``.

    Each piece of the body is a separate chunk and write.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while message := await read(reader):
                if message["method"] != "tools/call":
                    await reply(writer, json.dumps(answer_to(message, MODERN)).encode())
                    continue
                writer.write(f"HTTP/1.1 200 OK\r\n{headers}\r\n".encode())
                writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
                async for piece in body(message):
                    writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    await writer.drain()
                    await asyncio.sleep(0)
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except ConnectionError:
            pass  # the gateway has read enough
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"


async def read(reader: asyncio.StreamReader) -> Json | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    length = next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)
    message: Json = json.loads(await reader.readexactly(int(length.split(b":")[1])))
    return message


async def reply(writer: asyncio.StreamWriter, body: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    writer.write(head.encode() + b"\r\n\r\n" + body)
    await writer.drain()


def answer_to(message: Json, result: Json) -> Json:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def compressor(encoding: str) -> "zlib._Compress":
    return zlib.compressobj(wbits={"gzip": 31, "deflate": 15, "raw deflate": -15}[encoding])


def encoded(data: bytes, encoding: str) -> bytes:
    if not encoding:
        return data
    packing = compressor(encoding)
    return packing.compress(data) + packing.flush()


def headers_of(kind: str, encoding: str) -> str:
    name = encoding.removeprefix("raw ")
    return f"Content-Type: {kind}" + (f"\r\nContent-Encoding: {name}" if encoding else "")


async def called(url: str, timeout_s: float = CALL_S) -> Json:
    async with dialled({"transport": "streamable-http", "url": url}) as line:
        result: Json = await line.call("any", timeout_s)
        return result


encodings = pytest.mark.parametrize("encoding", ["", "gzip", "deflate", "raw deflate"])


@encodings
@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_a_body_is_read_in_pieces_of_any_size(size: int, encoding: str) -> None:
    async def body(message: Json) -> AsyncIterator[bytes]:
        data = json.dumps(answer_to(message, {"text": TEXT}), ensure_ascii=False).encode()
        for piece in pieces_of(encoded(data, encoding), size):
            yield piece

    async with serving(headers_of("application/json", encoding), body) as url:
        assert await called(url) == {"text": TEXT}


@encodings
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("size", [1, 2, 3])
async def test_events_are_read_in_pieces_of_any_size(size: int, end: str, encoding: str) -> None:
    """Pieces of one byte split every line end, every event and every character."""

    async def body(message: Json) -> AsyncIterator[bytes]:
        text = json.dumps(answer_to(message, {"text": TEXT}), ensure_ascii=False)
        note = '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"漢"}}'
        half = text.index(",") + 1
        lines = [": ping", "", f"data: {note}", "", "event: message"]
        lines += [f"data: {text[:half]}", f"data: {text[half:]}", "id: 漢", "", ""]
        for piece in pieces_of(encoded(end.join(lines).encode(), encoding), size):
            yield piece

    async with serving(headers_of("text/event-stream", encoding), body) as url:
        assert await called(url) == {"text": TEXT}


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_event_arrives_before_its_stream_ends(encoding: str) -> None:
    answered = asyncio.Event()

    async def body(message: Json) -> AsyncIterator[bytes]:
        packing = compressor(encoding)
        event = f"data: {json.dumps(answer_to(message, {'n': 1}))}\n\n".encode()
        yield packing.compress(event) + packing.flush(zlib.Z_SYNC_FLUSH)
        await answered.wait()  # from Python 3.12 on, closing a server waits for its connections

    async with serving(headers_of("text/event-stream", encoding), body) as url:
        assert await called(url) == {"n": 1}
        answered.set()


BEGIN = {"application/json": b'{"jsonrpc":"2.0","x":"', "text/event-stream": b'data: {"x":"'}


@pytest.mark.parametrize("kind", BEGIN)
@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
async def test_an_endless_answer_is_aborted(kind: str, encoding: str) -> None:
    """Compressed, the network carries only a thousandth of the data."""

    packing = compressor(encoding) if encoding else None

    def packed(data: bytes) -> bytes:
        # after a full flush, the same block can be repeated
        return (
            data if packing is None else packing.compress(data) + packing.flush(zlib.Z_FULL_FLUSH)
        )

    begin, more = packed(BEGIN[kind]), packed(b" " * MIB)

    async def body(_: Json) -> AsyncIterator[bytes]:
        yield begin
        while True:
            yield more
            await asyncio.sleep(0)  # or GiB are written until the socket's buffer is full

    async with serving(headers_of(kind, encoding), body) as url:
        with pytest.raises(ResponseTooLarge):
            await called(url, 600.0)
