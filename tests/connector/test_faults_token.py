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
"""Longer than the interval at which a changed file is read."""
LIFE_S = 60.0


@asynccontextmanager
async def refused(**options: Any) -> AsyncIterator[Linked]:
    """Run both with a token file whose content is invalid or has become invalid."""
    async with (
        running_backend(token="new") as backend,
        dialling(backend, remote_token_file=TOKEN_FILE, **options) as service,
    ):
        await until_state(service, "unauthorized")
        yield Linked(service, backend)


@asynccontextmanager
async def ended(**options: Any) -> AsyncIterator[Linked]:
    """Run both with a valid token, start a session, then let the token expire."""
    write_token("old")
    async with running_backend() as backend:
        backend.tokens = {"old": LIFE_S}
        async with dialling(backend, remote_token_file=TOKEN_FILE, **options) as service:
            await backend.connected()
            await opened(backend)
            await backend.pass_time(LIFE_S)
            await until_state(service, "unauthorized")
            yield Linked(service, backend)


async def is_not_dialled(backend: Backend) -> bool:
    """Return whether no handshake arrives for a while."""
    try:
        async with asyncio.timeout(QUIET_S):
            await backend.dialled(len(backend.handshakes) + 1)
    except TimeoutError:
        return True
    return False


async def test_after_an_expired_token_costs_the_link_only_one_dial_follows() -> None:
    async with ended() as (_, backend):
        assert len(backend.handshakes) == 2
        assert await is_not_dialled(backend)


async def test_every_route_shows_that_no_valid_token_is_available() -> None:
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


async def test_a_refused_token_keeps_the_replica_in_rotation() -> None:
    async with ended() as (service, _):
        assert (await service.http.get(READY)).status_code == 200


async def test_another_token_restores_the_link_in_time() -> None:
    async with ended() as (_, backend):
        backend.tokens = {"new"}
        write_token("new")
        await backend.connected(count=2)
        assert backend.handshakes[-1].token == "new"


async def test_sessions_survive_a_change_of_tokens() -> None:
    async with ended() as (_, backend):
        backend.tokens = {"new"}
        write_token("new")
        await backend.connected(count=2)
        known = backend.session(KNOWN, era=LEGACY)
        assert (await known.result("tools/list"))["tools"]


async def test_rewriting_the_refused_token_does_not_trigger_a_dial() -> None:
    write_token("old")
    async with refused() as (_, backend):
        write_token("old")
        assert await is_not_dialled(backend)
        write_token("old\n")
        assert await is_not_dialled(backend)
        write_token("new\n")
        await backend.connected()


async def test_a_partially_written_file_is_read_again() -> None:
    write_token("old")
    async with refused() as (_, backend):
        write_token("ne")
        assert (await backend.dialled(2)).token == "ne"
        write_token("new")
        await backend.connected()


async def test_a_file_missing_at_the_start_is_waited_for() -> None:
    async with refused() as (service, backend):
        status = await until_state(service, "unauthorized")
        assert status["last_error"].startswith("the token cannot be read")
        assert not backend.handshakes
        write_token("new")
        await backend.connected()


@pytest.mark.parametrize(
    "content", ["", " \n", "two tokens", "tokén", "line\nline", b"\0", b"\xff"]
)
async def test_the_content_of_a_file_without_a_token_is_not_sent(content: str | bytes) -> None:
    write_token(content)
    async with refused() as (_, backend):
        assert not backend.handshakes
        write_token("new")
        await backend.connected()


async def test_a_removed_file_is_waited_for() -> None:
    write_token("old")
    async with refused() as (_, backend):
        remove_token()
        assert await is_not_dialled(backend)
        write_token("new")
        await backend.connected()


async def test_a_refused_fixed_token_is_tried_once() -> None:
    async with running_backend() as backend, dialling(backend, remote_token="old") as service:
        await until_state(service, "unauthorized")
        assert await is_not_dialled(backend)
        assert len(backend.handshakes) == 1


async def test_access_denied_is_handled_like_a_refused_token() -> None:
    write_token("old")
    async with running_backend(token="new") as backend:
        backend.manner = Refusal(403, retry_after="0")
        async with dialling(backend, remote_token_file=TOKEN_FILE) as service:
            status = await until_state(service, "unauthorized")
            assert status["last_error"] == "the backend rejected the token with HTTP status 403"
            assert await is_not_dialled(backend)


async def test_a_refusal_is_logged_once_as_an_error_without_the_token() -> None:
    write_token("old-secret")
    with capture_logs() as lines:
        async with refused() as (_, backend):
            assert await is_not_dialled(backend)
    errors = [line for line in lines if line["log_level"] == "error"]
    assert [line["event"] for line in errors] == ["remote.unauthorized"]
    assert "old-secret" not in str(lines)


async def test_a_token_changed_while_the_link_is_up_is_used_at_the_next_dial() -> None:
    write_token("old")
    async with running_backend() as backend:
        backend.tokens = {"old", "new"}
        async with dialling(backend, remote_token_file=TOKEN_FILE):
            await backend.connected()
            write_token("new")
            assert await is_not_dialled(backend)
            backend.link().drop()
            await backend.connected(count=2)
            assert [each.token for each in backend.handshakes] == ["old", "new"]
