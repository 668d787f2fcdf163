"""Frames that no library writes, and what has to hold after any fault."""

import gc
import json
import struct
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.connector.backend_link import LinkedToOne, linked_to_one
from tests.support.bounds import BOUND_S
from tests.support.leak_checks import ResourcesInUse
from tests.support.remote_backend.backend import Backend
from tests.support.remote_backend.session import Session
from tests.support.service import READY, REMOTE, Service, eventually

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FINAL = 0x80
KNOWN = "known"

TOKEN_FILE = Path("token")
"""In the test's own folder."""


def write_token(content: str | bytes) -> None:
    """Replace what the token file holds in one step."""
    data = content.encode() if isinstance(content, str) else content
    draft = TOKEN_FILE.with_name(".token.new")
    draft.write_bytes(data)
    draft.replace(TOKEN_FILE)


def remove_token() -> None:
    TOKEN_FILE.unlink()


def frame(opcode: int, payload: bytes | str = b"", *, flags: int = FINAL) -> bytes:
    """Write a server's WebSocket frame; ``flags`` are the other bits of its first byte."""
    data = payload.encode() if isinstance(payload, str) else payload
    if len(data) < 126:
        return struct.pack("!BB", flags | opcode, len(data)) + data
    if len(data) < 2**16:
        return struct.pack("!BBH", flags | opcode, 126, len(data)) + data
    return struct.pack("!BBQ", flags | opcode, 127, len(data)) + data


def close_frame(code: int) -> bytes:
    return frame(CLOSE, struct.pack("!H", code))


def enveloped(message: object, session_identifier: str = KNOWN) -> str:
    return json.dumps({"session_identifier": session_identifier, "message": message})


def request(method: str, id_: object = 1, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


async def opened(backend: Backend, identifier: str | None = KNOWN) -> Session:
    """Begin a session of the older eras, which remembers its handshake."""
    session = backend.session(identifier)
    await session.initialize()
    return session


async def recovered(backend: Backend, links: int = 2) -> None:
    """Wait until there were so many links, and one is up: no longer than it may take."""
    await backend.connected(count=links, bound_s=BOUND_S)


async def until_state(service: Service, state: str) -> dict[str, Any]:
    """Wait until the connector says that it is in this state, and give all that it says."""

    async def holds() -> bool:
        return bool((await service.get(REMOTE))["state"] == state)

    await eventually(holds)
    return await service.get(REMOTE)


def pauses(lines: Iterable[Mapping[str, Any]]) -> list[float]:
    """Give the pauses before dialling again that were logged, in seconds."""
    return [line["dialled_again_in_s"] for line in lines if line["event"] == "remote.offline"]


async def until_tried(service: Service, attempts: int) -> None:
    """Wait until so many dials were in vain."""

    async def holds() -> bool:
        return bool((await service.get(REMOTE))["attempts"] >= attempts)

    await eventually(holds)


@asynccontextmanager
async def unharmed(*tools: str, **options: Any) -> AsyncIterator[LinkedToOne]:
    """Run all as ``linked_to_one`` does; afterwards it answers both ways, and nothing is left."""
    before = ResourcesInUse.now()
    async with linked_to_one(*tools, **options) as linked:
        yield linked
        assert (await linked.service.http.get(READY)).status_code == 200
        assert await linked.service.code("s1:whoami") == "OK"
        await linked.backend.connected()
        await linked.backend.session().call("s1:whoami")
    gc.collect()  # what is left is told of as a warning, and warnings are errors
    await eventually(before.is_all)
