"""The backend for tests of remote connections works as they require."""

import asyncio
import json
import ssl
from pathlib import Path

import aiohttp
import pytest

from tests.support.remote_backend.backend import running_backend
from tests.support.remote_backend.certificates import certify
from tests.support.remote_backend.handshakes import TOKEN, Manner, RawAnswer, Refusal
from tests.support.remote_backend.stub_gateway import standing_in
from tests.support.remote_backend.waits import bounded

MEGABYTE = 1024 * 1024


async def unsupported_reason(url: str, token: str = TOKEN) -> aiohttp.WSServerHandshakeError:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        async with standing_in(url, token=token):
            pass
    return caught.value


async def test_handshakes_are_recorded_unchanged() -> None:
    async with running_backend() as backend, standing_in(backend.url, server_identifier="a%20b"):
        handshake = (await backend.connected("a b")).handshake
    assert handshake == backend.handshakes[0]
    assert (handshake.path, handshake.server_identifier) == ("/ws/a%20b", "a b")
    assert (handshake.authorization, handshake.subprotocols) == ("Bearer secret-token", ("mcp",))


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_the_sdks_client_can_use_a_session(mode: str, version: str) -> None:
    async with (
        running_backend() as backend,
        standing_in(backend.url),
        backend.client(mode) as client,
    ):
        assert client.protocol_version == version
        assert [tool.name for tool in (await client.list_tools()).tools] == ["divide_ws"]
        called = await client.call_tool("divide_ws", {"a": 8, "b": 2})
        prompt = await client.get_prompt("hello_ws", {"name": "Ann"})
    assert called.structured_content == {"operation": "division", "result": 4.0, "mode": "ws"}
    assert getattr(prompt.messages[0].content, "text", None) == "Hello ws Ann!"
    assert not backend.strays


async def test_a_raw_session_can_use_either_era() -> None:
    async with running_backend() as backend, standing_in(backend.url):
        newer, older = backend.session(), backend.session()
        assert (await newer.call("divide_ws", {"a": 1}))["isError"] is True
        assert (await older.initialize())["protocolVersion"] == "2025-11-25"
        assert "_meta" not in await older.result("tools/list")


async def test_each_answer_goes_to_its_request() -> None:
    async with (
        running_backend() as backend,
        standing_in(backend.url, is_mute=True) as gateway,
        asyncio.TaskGroup() as tasks,
    ):
        sessions = [backend.session("first"), backend.session("second")]
        pending = [tasks.create_task(session.request("ping")) for session in sessions]
        envelopes = [json.loads((await gateway.received.get()).data) for _ in sessions]
        await gateway.send("first", note := {"jsonrpc": "2.0", "method": "notifications/x"})
        for envelope in reversed(envelopes):
            identifier = envelope["session_identifier"]
            answer = {"jsonrpc": "2.0", "id": envelope["message"]["id"], "result": {}}
            await gateway.send(identifier, answer | {"result": {"of": identifier}})
        assert [(await each)["result"]["of"] for each in pending] == ["first", "second"]
        assert await sessions[0].receive() == note
    assert [len(session.messages) for session in sessions] == [2, 1]


@pytest.mark.parametrize(
    "frame", ["{", "[]", '{"session_identifier": "known", "message": 1}', "unknown"]
)
async def test_frames_for_no_session_are_kept_apart(frame: str) -> None:
    async with running_backend() as backend, standing_in(backend.url) as gateway:
        known = backend.session("known")
        if frame == "unknown":
            await gateway.send("unknown", {})
        else:
            await gateway.socket.send_str(frame)
        await gateway.send("known", {"id": 1})
        assert await known.receive() == {"id": 1}
        assert (len(backend.frames), list(backend.strays)) == (2, [backend.frames[0]])


async def test_a_session_continues_over_the_next_link() -> None:
    async with running_backend() as backend:
        session = backend.session()
        for _ in range(2):
            async with standing_in(backend.url):
                await session.result("tools/list")
            await backend.disconnected()


async def test_a_token_is_valid_until_its_expiry() -> None:
    async with running_backend() as backend:
        backend.tokens = {"old": 60.0}
        async with standing_in(backend.url, token="old") as gateway:
            await backend.pass_time(59)
            assert (await backend.connected()).is_up
            await backend.pass_time(1)
            await gateway.ended.wait()
            assert gateway.socket.close_code == 4401
        assert (await unsupported_reason(backend.url, token="old")).status == 401
        backend.tokens = {"new"}
        async with standing_in(backend.url, token="new"):
            await backend.connected(count=2)


async def test_handshakes_can_be_refused_with_any_status() -> None:
    async with running_backend() as backend:
        backend.manner = Refusal(503, retry_after="7")
        refused = await unsupported_reason(backend.url)
        assert refused.headers is not None
        assert (refused.status, refused.headers["Retry-After"]) == (503, "7")
        backend.manner = Refusal(403)
        assert (await unsupported_reason(backend.url)).status == 403
        backend.manner = RawAnswer(b"SSH-2.0-this-is-no-http\r\n\r\n")
        with pytest.raises(aiohttp.ClientError):
            async with standing_in(backend.url):
                pass
    assert len(backend.handshakes) == 3


async def test_a_handshake_can_omit_the_subprotocol() -> None:
    async with running_backend() as backend:
        backend.manner = Manner.NO_SUBPROTOCOL
        async with standing_in(backend.url) as gateway:
            assert gateway.socket.protocol is None


async def test_a_handshake_waits_while_the_backend_is_silent() -> None:
    async with running_backend() as backend, asyncio.TaskGroup() as tasks:
        backend.manner = Manner.SILENT
        dialling = tasks.create_task(unsupported_reason(backend.url))
        await backend.dialled()
        assert not dialling.done()
        backend.manner = Refusal(500)
        assert (await dialling).status == 500


@pytest.mark.parametrize(("evict_code", "seen"), [(4409, 4409), (None, 1006)])
async def test_a_new_connection_evicts_the_former_one(evict_code: int | None, seen: int) -> None:
    async with (
        running_backend(evict_code=evict_code) as backend,
        standing_in(backend.url) as former,
        standing_in(backend.url, server_identifier="other"),
        standing_in(backend.url),
    ):
        await former.ended.wait()
        assert former.socket.close_code == seen
        await backend.connected("gateway", count=2)
        assert list(backend.gateways) == ["other", "gateway"]
        await backend.session(server_identifier="gateway").result("tools/list")


async def test_a_dropped_link_ends_without_a_close_frame() -> None:
    async with running_backend() as backend, standing_in(backend.url) as gateway:
        (await backend.connected()).drop()
        assert backend.gateways == {}
        await gateway.ended.wait()
        assert gateway.socket.close_code == 1006


async def test_a_link_can_be_closed_with_a_code() -> None:
    async with running_backend() as backend, standing_in(backend.url) as gateway:
        await (await backend.connected()).close(1012, "restart")
        await gateway.ended.wait()
        assert gateway.socket.close_code == 1012
    assert backend.gateways == {}


async def test_over_tls_it_uses_a_certificate_of_its_private_authority(tmp_path: Path) -> None:
    certified = certify(tmp_path)
    async with running_backend(tls=certified.tls) as backend:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            async with standing_in(backend.url):
                pass
        trusting = ssl.create_default_context(cafile=certified.ca_file)
        async with standing_in(backend.url, ssl=trusting):
            await backend.session().result("tools/list")


async def test_every_nth_frame_can_abort_the_link() -> None:
    async with running_backend() as backend:
        backend.drop_every = 2
        session = backend.session()
        for link_count in (1, 2):
            async with standing_in(backend.url) as gateway:
                await backend.connected(count=link_count)
                await session.result("tools/list")
                await session.result("tools/list")
                await gateway.ended.wait()
    assert len(backend.frames) == 4


async def test_it_sends_arbitrary_frames() -> None:
    async with (
        running_backend() as backend,
        standing_in(backend.url, is_mute=True) as gateway,
    ):
        link = await backend.connected()
        await link.send_raw("no JSON")
        await link.send_binary(b"\x00")
        sending = [await gateway.received.get(), await gateway.received.get()]
        await link.send_raw("x" * 10 * MEGABYTE)
        assert [frame.data for frame in sending] == ["no JSON", b"\x00"]
        assert len((await gateway.received.get()).data) == 10 * MEGABYTE


async def test_a_link_that_is_not_read_blocks_the_sender() -> None:
    async with (
        running_backend() as backend,
        standing_in(backend.url) as gateway,
        standing_in(backend.url, server_identifier="other"),
        asyncio.TaskGroup() as tasks,
    ):
        link = await backend.connected("gateway")
        link.stop_reading()
        sending = tasks.create_task(gateway.send("unknown", "x" * 32 * MEGABYTE))
        await backend.session(server_identifier="other").result("tools/list")
        assert (sending.done(), len(backend.strays)) == (False, 0)
        link.resume_reading()
        await sending


async def test_a_half_open_link_answers_no_ping_and_is_replaced_by_the_next() -> None:
    async with running_backend() as backend:
        async with standing_in(backend.url, heartbeat=0.2) as gateway:
            link = await backend.connected()
            link.half_open()
            await link.send_raw("unheard")
            async with bounded("the gateway notices"):
                await gateway.ended.wait()
            assert backend.gateways == {"gateway": link}
        async with standing_in(backend.url):
            await backend.connected(count=2)
            assert not link.is_up


async def test_pings_are_answered_and_counted() -> None:
    async with running_backend() as backend, standing_in(backend.url) as gateway:
        link = await backend.connected()
        await gateway.socket.ping()
        await backend.session().result("tools/list")
        assert link.pings == 1


async def test_it_stops_and_restarts_on_the_same_port() -> None:
    async with running_backend() as backend:
        url = backend.url
        async with standing_in(url) as gateway:
            await backend.connected()
            await backend.shut()
            await gateway.ended.wait()
        with pytest.raises(aiohttp.ClientConnectorError):
            async with standing_in(url):
                pass
        await backend.reopen()
        async with standing_in(url):
            await backend.connected(count=2)
    assert backend.url == url
