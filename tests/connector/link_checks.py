"""Waits for the effects of a fault, and checks that apply after every fault."""

import gc
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.connector.backend_link import LinkedToOne, linked_to_one
from tests.connector.raw_frames import KNOWN
from tests.support.configuration import Json
from tests.support.leak_checks import ResourcesInUse
from tests.support.remote_backend.backend import Backend
from tests.support.remote_backend.session import Session
from tests.support.service import READY, REMOTE, Service, eventually


async def opened(backend: Backend, identifier: str | None = KNOWN) -> Session:
    """Start a session of the older eras, which remembers its handshake."""
    session = backend.session(identifier)
    await session.initialize()
    return session


async def until_status(service: Service, holds: Callable[[Json], bool]) -> Json:
    """Wait until the connector's status meets the condition, and return it."""
    status: Json = {}

    async def condition() -> bool:
        nonlocal status
        status = await service.get(REMOTE)
        return holds(status)

    await eventually(condition)
    return status


async def until_state(service: Service, state: str) -> Json:
    """Wait until the connector is in this state, and return its status."""
    return await until_status(service, lambda status: status["state"] == state)


async def until_tried(service: Service, attempts: int) -> Json:
    """Wait until this many dials failed or are in progress, and return the status."""
    return await until_status(service, lambda status: status["attempts"] >= attempts)


async def until_no_sessions(service: Service) -> None:
    """Wait until all sessions of the backend ended."""
    await until_status(service, lambda status: status["sessions"] == 0)


def events(lines: Iterable[Mapping[str, Any]], event: str) -> list[Mapping[str, Any]]:
    return [line for line in lines if line["event"] == event]


def pauses(lines: Iterable[Mapping[str, Any]]) -> list[float]:
    """Return the logged pauses before the next dial, in seconds."""
    return [line["dialled_again_in_s"] for line in events(lines, "remote.offline")]


async def metrics(service: Service) -> dict[str, float]:
    """Return the value of each metric line by its name and labels."""
    lines = (await service.http.get("/metrics")).text.splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in pairs}


async def expect_answers(linked: LinkedToOne) -> None:
    """Check that the gateway answers over HTTP and in a new backend session."""
    assert (await linked.service.http.get(READY)).status_code == 200
    assert await linked.service.code("s1:whoami") == "OK"
    await linked.backend.connected()
    await linked.backend.session().call("s1:whoami")


@asynccontextmanager
async def unharmed(*tools: str, **options: Any) -> AsyncIterator[LinkedToOne]:
    """Run ``linked_to_one``; then check that it answers both ways and leaks nothing."""
    before = ResourcesInUse.now()
    async with linked_to_one(*tools, **options) as linked:
        yield linked
        await expect_answers(linked)
    gc.collect()  # unclosed resources become warnings, and warnings are errors
    await eventually(before.is_not_exceeded)
