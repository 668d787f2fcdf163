import pytest

from tests.connector.backend_link import begun
from tests.connector.frame_faults import MEGABYTE
from tests.connector.link_checks import opened, unharmed, until_status
from tests.connector.raw_frames import enveloped, request
from tests.support.remote_backend.session import ENVELOPE, LEGACY, MODERN

LIMIT = 10_000
LIMIT_OF_SESSIONS = 64 * 1024
"""Above the size of all frames that start a session."""


@pytest.mark.parametrize("id_", [7, "seven"])
async def test_an_answer_over_the_limit_is_an_error_in_its_session(id_: object) -> None:
    async with unharmed("big_image", remote_max_frame_bytes=LIMIT_OF_SESSIONS) as (_, backend, _):
        session = await opened(backend)
        large = {"name": "s1:big_image", "arguments": {"bytes": LIMIT_OF_SESSIONS}}
        await session.send(request("tools/call", id_, **large))
        answer = await session.receive()
        assert (answer["id"], answer["error"]["data"]["code"]) == (id_, "RESULT_TOO_LARGE")


async def test_an_answer_over_the_limit_ends_neither_the_link_nor_the_session() -> None:
    async with unharmed("big_image", "echo", remote_max_frame_bytes=LIMIT_OF_SESSIONS) as (
        _,
        backend,
        _,
    ):
        session = await opened(backend)
        await session.request(
            "tools/call", {"name": "s1:big_image", "arguments": {"bytes": LIMIT_OF_SESSIONS}}
        )
        assert await session.call("s1:echo", {"text": "x"})
        assert (len(backend.links), len(backend.strays)) == (1, 0)


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_no_sent_frame_exceeds_the_limit_with_any_request_id(era: str) -> None:
    async with unharmed(remote_max_frame_bytes=LIMIT) as (service, backend, _):
        session = backend.session("x", era=era)
        meta = {"_meta": ENVELOPE} if era == MODERN else {}
        capacity = LIMIT - len(enveloped(request("tools/list", "", **meta), "x"))
        await session.send(request("tools/list", "i" * capacity, **meta))
        await session.request("tools/list")
        assert max(map(len, backend.frames)) <= LIMIT
        await until_status(service, lambda status: status["open_requests"] == 0)


async def test_a_request_over_the_limit_is_an_error_to_its_server() -> None:
    """The error is immediate, because the request would never be answered."""
    raw = {"era": "legacy", "sse": True}
    elicitation = {"method": "elicitation/create", "bytes": LIMIT_OF_SESSIONS}
    async with unharmed("request_client", raw=raw, remote_max_frame_bytes=LIMIT_OF_SESSIONS) as (
        _,
        backend,
        _,
    ):
        session = await begun(backend, LEGACY, elicitation={})
        result = await session.call("s1:request_client", elicitation)
        (answer,) = result["structuredContent"]["answers"]
        assert str(LIMIT_OF_SESSIONS) in answer["error"]["message"]
        assert [it for it in session.messages if "method" in it] == []


async def test_a_frame_that_always_costs_the_link_is_dropped_and_delays_no_session() -> None:
    """The backend accepts less than the gateway may send, and closes the link because of it."""
    smaller = {"max_frame_bytes": MEGABYTE}
    large = {"name": "s1:big_image", "arguments": {"bytes": 4_100_000}}
    async with unharmed("big_image", backend_options=smaller, max_result_bytes=8 * MEGABYTE) as (
        service,
        backend,
        _,
    ):
        session, other = await opened(backend), await opened(backend, "another")
        await session.send(request("tools/call", 9, **large))
        await backend.connected(count=2)
        assert (await other.result("tools/list"))["tools"]
        await until_status(service, lambda status: status["waiting_bytes"] == 0)
        assert len(backend.links) <= 4
