import json

import pytest

from tests.api.hostile_requests import MEBIBYTE, MESSAGES, Hostile, checking, config_of, message_of
from tests.connector.backend_link import dialling
from tests.connector.raw_frames import KNOWN, TEXT, frame
from tests.support.loop_turns import in_short_turns
from tests.support.other_loop import in_another_loop
from tests.support.remote_backend.backend import Backend, running_backend
from tests.support.remote_backend.session import ENVELOPE


@pytest.mark.parametrize("hostile", MESSAGES.values(), ids=MESSAGES.keys())
async def test_no_turn_of_the_connector_is_long(hostile: Hostile) -> None:
    message = message_of(hostile.tool, hostile.arguments, json.dumps(ENVELOPE).encode())
    data = b'{"session_identifier":"%b","message":%b}' % (KNOWN.encode(), message)
    assert len(data) < MEBIBYTE
    async with (
        checking(hostile.schema) as server,
        in_another_loop(running_backend()) as other,
        dialling(other.opened, config=config_of(server)),
    ):
        await other.run(_until_listed(other.opened))
        is_answered = await in_short_turns(
            lambda: other.run(_sent(other.opened, data, is_answered=hostile.is_answered))
        )
    assert is_answered == hostile.is_answered


async def _until_listed(backend: Backend) -> None:
    await backend.connected()
    await backend.session("first").result("tools/list")


async def _sent(backend: Backend, data: bytes, *, is_answered: bool) -> bool:
    """Send a frame, wait until it is handled, and return whether its request was answered."""
    session = backend.session(KNOWN)
    backend.link().write(frame(TEXT, data))
    if is_answered:
        await session.receive()
    await backend.session("last").result("tools/list")
    return bool(session.messages)
