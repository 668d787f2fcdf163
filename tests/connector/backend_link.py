"""The service, linked to the backend over a real WebSocket."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.remote_backend.backend import Backend, running_backend
from tests.support.remote_backend.handshakes import TOKEN
from tests.support.remote_backend.session import ENVELOPE, LEGACY, MODERN, Session
from tests.support.service import Service, eventually, running

GATEWAY = "gw"
ERAS = (MODERN, LEGACY)
MODES = ("auto", "legacy")
"""The eras of ``Backend.client``."""


class Linked(NamedTuple):
    """A started service and the backend that it dials."""

    service: Service
    backend: Backend


@asynccontextmanager
async def dialling(backend: Backend, *documents: Any, **options: Any) -> AsyncIterator[Service]:
    """Run only the service, which dials that backend; ``options`` are those of ``running``."""
    token = {} if "remote_token_file" in options else {"remote_token": TOKEN}
    identity = {"remote_server_identifier": GATEWAY, "remote_tenant_id": "tenant_1"}
    settings = {"remote_url": backend.url, **token, **identity, **options}
    async with running(*documents, **settings) as service:
        yield service


@asynccontextmanager
async def linked(
    *documents: Any,
    backend_options: Mapping[str, Any] | None = None,
    up: bool = True,
    **options: Any,
) -> AsyncIterator[Linked]:
    """Run both; ``options`` are those of ``running``. With ``up``, wait for the link."""
    async with (
        running_backend(**(backend_options or {})) as backend,
        dialling(backend, *documents, **options) as service,
    ):
        if up:
            await backend.connected()
        yield Linked(service, backend)


class LinkedToOne(NamedTuple):
    """The same, with a raw server ``s1`` behind the service."""

    service: Service
    backend: Backend
    server: RawServer


@asynccontextmanager
async def linked_to_one(
    *tools: str, raw: Mapping[str, Any] | None = None, **options: Any
) -> AsyncIterator[LinkedToOne]:
    """Serve ``tools`` and all prompts and resources of the server ``s1`` to the backend.

    ``raw`` are the server's options; the others are those of ``linked``.
    """
    async with running_raw(**(raw or {})) as server:
        preset = make_preset(tools=[("s1", tool) for tool in ("whoami", *tools)])
        config = Config(servers={"s1": server.entry}, presets=[preset])
        async with linked(config=config, **options) as (service, backend):
            yield LinkedToOne(service, backend, server)


async def begun(backend: Backend, era: str = MODERN, **capabilities: Any) -> Session:
    """Start a session with its first request; ``capabilities`` are those of initialize."""
    session = backend.session(era=era)
    if era == LEGACY:
        await session.initialize(**capabilities)
    else:
        await session.result("server/discover")
    return session


async def until_running(server: RawServer, count: int = 1) -> None:
    """Wait until this many calls run at the server."""

    async def holds() -> bool:
        return server.script.running_count == count

    await eventually(holds)


LISTEN_ID = "listen"


async def listen(session: Session, **wanted: bool) -> Json:
    """Subscribe as in the newer era and return the acknowledgement."""
    params = {"notifications": wanted, "_meta": ENVELOPE}
    request = {"jsonrpc": "2.0", "id": LISTEN_ID, "method": "subscriptions/listen"}
    await session.send(request | {"params": params})
    return await session.receive()
