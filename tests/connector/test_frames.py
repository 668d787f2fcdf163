"""Frames over the socket: the envelope both ways, and what is none (W-01, W-02, W-03, W-05)."""

import json

import pytest

from tests.connector.linking import GATEWAY, linked


@pytest.mark.requirement("W-01")
async def test_it_dials_with_its_identifier_a_bearer_token_and_the_subprotocol_mcp() -> None:
    async with linked(backend_options={"token": "jwt"}, remote_token="jwt") as (_, backend):
        handshake = backend.link().handshake
    assert handshake.path == f"/ws/{GATEWAY}"
    assert handshake.authorization == "Bearer jwt"
    assert handshake.subprotocols == ("mcp",)


@pytest.mark.requirement("W-02")
async def test_a_message_is_answered_in_its_session() -> None:
    async with linked() as (_, backend):
        session = backend.session("any text: 1")
        assert (await session.result("tools/list"))["tools"]


@pytest.mark.requirement("W-03")
async def test_a_reply_is_in_an_envelope_of_exactly_three_keys() -> None:
    async with linked() as (_, backend):
        session = backend.session()
        answer = await session.ask("tools/list")
        (frame,) = backend.frames
    assert json.loads(frame) == {
        "session_identifier": session.identifier,
        "target_server_identifier": GATEWAY,
        "message": answer,
    }
