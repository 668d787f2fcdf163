import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import cast

import pytest

from mcp_tools_proxy.domain.backend_link import RemoteState
from mcp_tools_proxy.mcp.connector.backend_dialer import BackendDialer
from mcp_tools_proxy.mcp.connector.websocket_link import FaultKind, Link, LinkFault
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.connector.link_checks import pauses
from tests.support.captured_logs import capture_logs
from tests.support.remote_backend.waits import Changes, bounded

LOST = LinkFault(FaultKind.LOST, "the connection broke")
UNREACHABLE = LinkFault(FaultKind.UNREACHABLE, "could not be reached")
CLOSED = LinkFault(FaultKind.CLOSED, "the backend closed the link with code 4409")
REFUSED = LinkFault(FaultKind.REFUSED, "HTTP status 500")
RESET = LinkFault(FaultKind.UNREACHABLE, "the connection was reset")
UNAUTHORIZED = LinkFault(FaultKind.UNAUTHORIZED, "HTTP status 401")


class ScriptedLink:
    """A connection that lasts for ``lives_s`` and ends with a fault."""

    def __init__(self, fault: LinkFault, lives_s: float = 0.0) -> None:
        self.fault = fault
        self.lives_s = lives_s


Step = ScriptedLink | LinkFault | Exception
"""The result of a dial: a connection, a failure, or a crash of its user."""


class Backend:
    """Answers each dial with the next step; dials after the last step hang."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.tokens: list[str] = []
        self.now_s = 1000.0
        self._steps = iter(steps)
        self._changes = Changes()

    def clock(self) -> float:
        return self.now_s

    @asynccontextmanager
    async def dial(self, token: str) -> AsyncIterator[Link]:
        self.tokens.append(token)
        self._changes.notify()
        step = next(self._steps, None)
        if step is None:
            await asyncio.Event().wait()
        if isinstance(step, LinkFault):
            raise step
        yield cast("Link", step)

    async def serve(self, link: Link) -> None:
        step = cast("Step", link)
        if isinstance(step, Exception):
            raise step
        assert isinstance(step, ScriptedLink)
        self.now_s += step.lives_s

    async def dialled(self, count: int) -> None:
        async with bounded(f"{count} dials"):
            await self._changes.until(lambda: len(self.tokens) >= count)


class ScriptedToken:
    """Returns the next token when a new one is wanted; hangs after the last one."""

    problem: str | None = "is empty"

    def __init__(self, *tokens: str | None) -> None:
        self.refused: list[str | None] = []
        self._tokens = list(tokens or ["token"])

    async def read(self) -> str | None:
        return self._tokens[0]

    async def wait_for_change(self, refused: str | None) -> None:
        self.refused.append(refused)
        if len(self._tokens) == 1:
            await asyncio.Event().wait()
        self._tokens.pop(0)


@asynccontextmanager
async def dialling(
    *steps: Step,
    token: ScriptedToken | None = None,
    ready: asyncio.Event | None = None,
    retry_max_s: float = 0.001,
) -> AsyncIterator[tuple[BackendDialer, Backend]]:
    """Run a dialer until the last step is done."""
    backend = Backend(steps)
    if ready is None:
        ready = asyncio.Event()
        ready.set()
    dialer = BackendDialer(
        backend.dial,
        token or ScriptedToken(),
        backend.serve,
        ready=ready.wait,
        metrics=Metrics(),
        retry_max_s=retry_max_s,
        clock=backend.clock,
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(dialer.run())
        try:
            yield dialer, backend
        finally:
            running.cancel()


async def pauses_after(*steps: Step, retry_max_s: float = 1.5) -> list[float]:
    with capture_logs() as lines:
        async with dialling(*steps, retry_max_s=retry_max_s) as (_, backend):
            await backend.dialled(len(steps) + 1)
    return pauses(lines)


async def test_it_redials_forever_with_the_current_token() -> None:
    async with dialling(*[UNREACHABLE] * 50, *[ScriptedLink(LOST)] * 50) as (_, backend):
        await backend.dialled(101)
    assert backend.tokens == ["token"] * 101


async def test_a_connection_that_lasted_half_a_minute_is_redialled_immediately() -> None:
    assert await pauses_after(ScriptedLink(CLOSED, lives_s=30.0)) == [0.0]


async def test_a_long_connection_resets_the_pauses() -> None:
    steps = (UNREACHABLE, UNREACHABLE, ScriptedLink(LOST, lives_s=31.0), UNREACHABLE)
    assert (await pauses_after(*steps))[-1] <= 0.25


async def test_different_consecutive_failures_lengthen_the_pauses() -> None:
    first, second, third = await pauses_after(ScriptedLink(LOST), UNREACHABLE, ScriptedLink(LOST))
    assert (0.12 < first <= 0.25, 0.25 <= second <= 0.5, 0.5 <= third <= 1.0) == (True,) * 3


async def test_a_failure_after_a_refusal_causes_a_short_pause() -> None:
    first, second = await pauses_after(REFUSED, UNREACHABLE)
    assert (first >= 0.5, second <= 0.25) == (True, True)


async def test_a_refused_token_is_not_sent_again_but_the_next_one_is() -> None:
    token = ScriptedToken("old", "new")
    async with dialling(UNAUTHORIZED, token=token) as (_, backend):
        await backend.dialled(2)
    assert (backend.tokens, token.refused) == (["old", "new"], ["old"])


async def test_without_a_token_the_backend_is_not_dialled() -> None:
    token = ScriptedToken(None, "new")
    async with dialling(token=token) as (_, backend):
        await backend.dialled(1)
    assert (backend.tokens, token.refused) == (["new"], [None])


async def test_a_missing_valid_token_is_reported() -> None:
    async with dialling(UNAUTHORIZED) as (dialer, backend):
        await backend.dialled(1)
        await settled()
        assert (dialer.state, dialer.last_error, dialer.next_attempt_s) == (
            RemoteState.UNAUTHORIZED,
            "HTTP status 401",
            None,
        )


async def test_a_crash_of_a_connections_user_is_logged_and_followed_by_a_redial() -> None:
    with capture_logs() as lines:
        async with dialling(RuntimeError("a bug")) as (dialer, backend):
            await backend.dialled(2)
            assert dialer.last_error == "internal error; see the log"
    assert "remote.link_crashed" in [line["event"] for line in lines]


async def test_failed_dials_are_counted_until_a_connection_is_open() -> None:
    async with dialling(UNREACHABLE, UNREACHABLE) as (dialer, backend):
        await backend.dialled(3)
        assert (dialer.attempts, dialer.links) == (3, 0)
    async with dialling(UNREACHABLE, ScriptedLink(LOST)) as (dialer, backend):
        await backend.dialled(3)
        assert (dialer.attempts, dialer.links) == (1, 1)


async def test_the_state_starts_at_the_loss_and_not_at_each_redial() -> None:
    async with dialling(*[UNREACHABLE] * 20) as (dialer, backend):
        since = dialer.since
        await backend.dialled(21)
        assert (dialer.since, dialer.state) == (since, RemoteState.CONNECTING)


async def test_the_time_until_the_next_dial_is_reported_in_seconds() -> None:
    async with dialling(REFUSED, retry_max_s=60.0) as (dialer, backend):
        await backend.dialled(1)
        await settled()
        whole = dialer.next_attempt_s
        backend.now_s += 0.25
        assert dialer.state is RemoteState.OFFLINE
        assert whole is not None
        assert dialer.next_attempt_s == pytest.approx(whole - 0.25)
        backend.now_s += 60
        assert dialer.next_attempt_s == 0.0


async def test_each_new_reason_is_logged_once() -> None:
    with capture_logs() as lines:
        async with dialling(*[UNREACHABLE] * 9, *[RESET] * 9) as (_, backend):
            await backend.dialled(19)
    warnings = [line["reason"] for line in lines if line["log_level"] == "warning"]
    assert warnings == ["could not be reached", "the connection was reset"]


async def settled() -> None:
    """Wait until the dialer has handled the result of the last dial."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_it_dials_only_after_the_service_is_ready() -> None:
    ready = asyncio.Event()
    async with dialling(ready=ready) as (dialer, backend):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await backend.dialled(1)
        assert dialer.attempts == 0
        ready.set()
        await backend.dialled(1)
