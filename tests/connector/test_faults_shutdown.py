import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from mcp_tools_proxy.mcp.connector.frame_router import MAX_BYTES
from tests.connector.backend_link import dialling, until_running
from tests.connector.link_checks import opened, until_state, until_status
from tests.connector.raw_frames import TEXT, frame, request
from tests.connector.token_file import TOKEN_FILE, write_token
from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, make_preset
from tests.support.leak_checks import ResourcesInUse
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.remote_backend.backend import Backend, running_backend
from tests.support.remote_backend.handshakes import Manner, Refusal
from tests.support.remote_backend.link import Link
from tests.support.remote_backend.waits import bounded
from tests.support.service import REMOTE, Service, eventually

LARGE = {"name": "s1:big_image", "arguments": {"bytes": 1_000_000}}


@pytest.fixture(autouse=True)
def no_complaints(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that asyncio logs neither destroyed tasks nor unretrieved exceptions."""
    yield
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


@asynccontextmanager
async def stopped(
    backend: Backend, server: RawServer | None = None, **settings: object
) -> AsyncIterator[Service]:
    """Run the service, stop it after the block, and check that nothing is left of it."""
    config = None
    if server is not None:
        tools = [("s1", name) for name in ("big_image", "hang")]
        config = Config(servers={"s1": server.entry}, presets=[make_preset(tools=tools)])
    before = ResourcesInUse.now()
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(dialling(backend, config=config, **settings))
        yield service
        async with bounded("the service stops", BOUND_S):
            await stack.aclose()
    for link in backend.links:
        link.drop()  # the service's end of the link, which the backend may still hold
    gc.collect()
    await eventually(before.is_not_exceeded)


async def stall(service: Service, backend: Backend) -> Link:
    """Fill the outbox for a backend that does not read, and return its link."""
    sessions = [await opened(backend, f"session {number}") for number in range(24)]
    link = backend.link()
    link.stop_reading()
    for session in sessions:
        await session.send(request("tools/call", "large", **LARGE))
    await until_status(service, lambda status: status["waiting_bytes"] >= MAX_BYTES)
    return link


async def test_it_stops_while_the_backend_is_down() -> None:
    async with running_backend() as backend:
        await backend.shut()
        async with stopped(backend) as service:
            await until_state(service, "offline")


async def test_it_stops_during_an_unanswered_handshake() -> None:
    async with running_backend() as backend:
        backend.manner = Manner.SILENT
        async with stopped(backend) as service:
            await backend.dialled()
            assert (await service.get(REMOTE))["state"] == "connecting"


@pytest.mark.parametrize("source", ["file", "setting"])
async def test_it_stops_while_the_token_is_refused(source: str) -> None:
    write_token("no_token")
    token = {"remote_token_file": TOKEN_FILE} if source == "file" else {"remote_token": "no_token"}
    async with running_backend() as backend, stopped(backend, **token) as service:
        await until_state(service, "unauthorized")


async def test_it_stops_while_the_token_is_missing() -> None:
    async with (
        running_backend() as backend,
        stopped(backend, remote_token_file=TOKEN_FILE) as service,
    ):
        await until_state(service, "unauthorized")


async def test_it_stops_while_the_backend_keeps_it_away() -> None:
    async with running_backend() as backend:
        backend.manner = Refusal(503, retry_after="300")
        async with stopped(backend) as service:
            await until_state(service, "offline")


async def test_it_stops_while_it_is_online() -> None:
    async with running_backend() as backend, stopped(backend):
        link = await backend.connected()
        await opened(backend)
    assert link.close_code == 1001


async def test_it_stops_while_the_backend_has_vanished() -> None:
    async with running_backend() as backend, stopped(backend):
        await opened(backend)
        backend.link().half_open()


async def test_it_stops_during_an_endless_call_of_the_backend() -> None:
    async with (
        running_backend() as backend,
        running_raw() as server,
        stopped(backend, server, shutdown_grace_s=0.1),
    ):
        await backend.connected()
        session = await opened(backend)
        await session.send(request("tools/call", "hang", name="s1:hang"))
        await until_running(server)


async def test_it_stops_while_sessions_outlive_a_lost_link() -> None:
    async with (
        running_backend() as backend,
        running_raw() as server,
        stopped(backend, server, shutdown_grace_s=0.1) as service,
    ):
        await backend.connected()
        session = await opened(backend)
        await session.send(request("tools/call", "hang", name="s1:hang"))
        backend.manner = Refusal(500)
        backend.link().drop()
        status = await until_state(service, "offline")
        assert status["sessions"] == 1


async def test_it_stops_while_the_backend_does_not_read() -> None:
    async with (
        running_backend() as backend,
        running_raw() as server,
        stopped(backend, server) as service,
    ):
        await backend.connected()
        await stall(service, backend)


async def test_it_stops_while_the_backend_sends_endlessly_without_reading() -> None:
    async def send_for_ever(link: Link) -> None:
        while link.is_up:
            link.write(frame(TEXT, "{}") * 100)
            await asyncio.sleep(0.01)

    async with (
        running_backend() as backend,
        running_raw() as server,
        asyncio.TaskGroup() as tasks,
        stopped(backend, server) as service,
    ):
        await backend.connected()
        tasks.create_task(send_for_ever(await stall(service, backend)))
