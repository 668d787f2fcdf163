"""Tokens that end, are refused, or come late: nothing is tried until there is another one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.connector.backend_link import Linked, dialling
from tests.connector.link_checks import metrics, opened, until_state
from tests.connector.raw_frames import KNOWN
from tests.connector.token_file import TOKEN_FILE, remove_token, write_token
from tests.support.captured_logs import capture_logs
from tests.support.remote_backend.backend import Backend, running_backend
from tests.support.remote_backend.handshakes import Refusal
from tests.support.remote_backend.session import LEGACY
from tests.support.service import READY

QUIET_S = 1.0
"""Longer than a file that changed is left unread."""
LIFE_S = 60.0


@asynccontextmanager
async def refused(**options: Any) -> AsyncIterator[Linked]:
    """Run both; what the token file holds is not, or no longer, good."""
    async with (
        running_backend(token="new") as backend,
        dialling(backend, remote_token_file=TOKEN_FILE, **options) as service,
    ):
        await until_state(service, "unauthorized")
        yield Linked(service, backend)


@asynccontextmanager
async def ended(**options: Any) -> AsyncIterator[Linked]:
    """Run both; the token was good, a session was begun, and then it ended by the clock."""
    write_token("old")
    async with running_backend() as backend:
        backend.tokens = {"old": LIFE_S}
        async with dialling(backend, remote_token_file=TOKEN_FILE, **options) as service:
            await backend.connected()
            await opened(backend)
            await backend.pass_time(LIFE_S)
            await until_state(service, "unauthorized")
            yield Linked(service, backend)


async def is_left_alone(backend: Backend) -> bool:
    """Return whether no handshake arrives for a while."""
    try:
        async with asyncio.timeout(QUIET_S):
            await backend.dialled(len(backend.handshakes) + 1)
    except TimeoutError:
        return True
    return False


async def test_a_token_that_ends_costs_the_link_and_the_next_dial_is_the_last() -> None:
    async with ended() as (_, backend):
        assert len(backend.handshakes) == 2
        assert await is_left_alone(backend)


async def test_that_no_token_is_good_is_shown_by_every_route() -> None:
    async with ended() as (service, _):
        status = await until_state(service, "unauthorized")
        line = (await service.get(READY))["checks"]["remote"]
        values = await metrics(service)
    reason = "the backend rejected the token with HTTP status 401"
    assert values['mcp_proxy_remote_link_losses_total{reason="unauthorized"}'] == 1
    assert values["mcp_proxy_remote_up"] == 0
    assert (status["last_error"], status.get("next_attempt_s")) == (reason, None)
    assert (line["status"], line["state"], line["last_error"]) == (
        "degraded",
        "unauthorized",
        reason,
    )


async def test_a_backend_that_refuses_the_token_takes_no_replica_out() -> None:
    async with ended() as (service, _):
        assert (await service.http.get(READY)).status_code == 200


async def test_another_token_brings_the_link_back_in_time() -> None:
    async with ended() as (_, backend):
        backend.tokens = {"new"}
        write_token("new")
        await backend.connected(count=2)
        assert backend.handshakes[-1].token == "new"


async def test_sessions_outlive_a_change_of_tokens() -> None:
    async with ended() as (_, backend):
        backend.tokens = {"new"}
        write_token("new")
        await backend.connected(count=2)
        known = backend.session(KNOWN, era=LEGACY)
        assert (await known.result("tools/list"))["tools"]


async def test_the_token_of_before_written_again_is_not_tried() -> None:
    write_token("old")
    async with refused() as (_, backend):
        write_token("old")
        assert await is_left_alone(backend)
        write_token("old\n")
        assert await is_left_alone(backend)
        write_token("new\n")
        await backend.connected()


async def test_a_file_that_was_half_written_is_read_again() -> None:
    write_token("old")
    async with refused() as (_, backend):
        write_token("ne")
        assert (await backend.dialled(2)).token == "ne"
        write_token("new")
        await backend.connected()


async def test_a_file_that_is_not_there_at_the_start_is_waited_for() -> None:
    async with refused() as (service, backend):
        status = await until_state(service, "unauthorized")
        assert status["last_error"].startswith("the token cannot be read")
        assert not backend.handshakes
        write_token("new")
        await backend.connected()


@pytest.mark.parametrize(
    "content", ["", " \n", "two tokens", "tokén", "line\nline", b"\0", b"\xff"]
)
async def test_a_file_without_a_token_is_sent_to_no_backend(content: str | bytes) -> None:
    write_token(content)
    async with refused() as (_, backend):
        assert not backend.handshakes
        write_token("new")
        await backend.connected()


async def test_a_file_that_is_taken_away_is_waited_for() -> None:
    write_token("old")
    async with refused() as (_, backend):
        remove_token()
        assert await is_left_alone(backend)
        write_token("new")
        await backend.connected()


async def test_a_fixed_token_that_is_refused_is_tried_once() -> None:
    async with running_backend() as backend, dialling(backend, remote_token="old") as service:
        await until_state(service, "unauthorized")
        assert await is_left_alone(backend)
        assert len(backend.handshakes) == 1


async def test_access_denied_is_waited_out_alike() -> None:
    write_token("old")
    async with running_backend(token="new") as backend:
        backend.manner = Refusal(403, retry_after="0")
        async with dialling(backend, remote_token_file=TOKEN_FILE) as service:
            status = await until_state(service, "unauthorized")
            assert status["last_error"] == "the backend rejected the token with HTTP status 403"
            assert await is_left_alone(backend)


async def test_a_refusal_is_one_error_in_the_log_and_without_the_token() -> None:
    write_token("old-secret")
    with capture_logs() as lines:
        async with refused() as (_, backend):
            assert await is_left_alone(backend)
    errors = [line for line in lines if line["log_level"] == "error"]
    assert [line["event"] for line in errors] == ["remote.unauthorized"]
    assert "old-secret" not in str(lines)


async def test_a_token_that_changes_while_the_link_is_up_is_shown_at_the_next_dial() -> None:
    write_token("old")
    async with running_backend() as backend:
        backend.tokens = {"old", "new"}
        async with dialling(backend, remote_token_file=TOKEN_FILE):
            await backend.connected()
            write_token("new")
            assert await is_left_alone(backend)
            backend.link().drop()
            await backend.connected(count=2)
            assert [each.token for each in backend.handshakes] == ["old", "new"]
