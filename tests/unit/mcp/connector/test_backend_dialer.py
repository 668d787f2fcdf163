"""A link is dialled again for ever: when, and what is told meanwhile. Links are scripted here."""

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
    """A link that is up for so many seconds of the clock, and ends by a fault."""

    def __init__(self, fault: LinkFault, lives_s: float = 0.0) -> None:
        self.fault = fault
        self.lives_s = lives_s


Step = ScriptedLink | LinkFault | Exception
"""What a dial comes to: a link, none, or a crash of what uses it."""


class Backend:
    """Answers each dial with the next step; after the last one a dial waits for ever."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.tokens: list[str] = []
        """What was shown, dial by dial."""
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
    """Gives the next token when another is wanted; after the last one that waits for ever."""

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
    """Run a dialer until the last step is over."""
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
    """Return the pauses after each of the steps, in seconds."""
    with capture_logs() as lines:
        async with dialling(*steps, retry_max_s=retry_max_s) as (_, backend):
            await backend.dialled(len(steps) + 1)
    return pauses(lines)


async def test_it_dials_again_for_ever_with_the_token_of_then() -> None:
    async with dialling(*[UNREACHABLE] * 50, *[ScriptedLink(LOST)] * 50) as (_, backend):
        await backend.dialled(101)
    assert backend.tokens == ["token"] * 101


async def test_a_link_that_lived_for_half_a_minute_is_dialled_again_at_once() -> None:
    assert await pauses_after(ScriptedLink(CLOSED, lives_s=30.0)) == [0.0]


async def test_after_such_a_link_pauses_are_as_short_as_at_first() -> None:
    steps = (UNREACHABLE, UNREACHABLE, ScriptedLink(LOST, lives_s=31.0), UNREACHABLE)
    assert (await pauses_after(*steps))[-1] <= 0.25


async def test_accidents_in_a_row_make_pauses_longer_though_they_are_not_alike() -> None:
    first, second, third = await pauses_after(ScriptedLink(LOST), UNREACHABLE, ScriptedLink(LOST))
    assert (0.12 < first <= 0.25, 0.25 <= second <= 0.5, 0.5 <= third <= 1.0) == (True,) * 3


async def test_an_accident_after_a_refusal_makes_a_short_pause() -> None:
    first, second = await pauses_after(REFUSED, UNREACHABLE)
    assert (first >= 0.5, second <= 0.25) == (True, True)


async def test_a_refused_token_is_not_shown_again_and_the_next_one_is() -> None:
    token = ScriptedToken("old", "new")
    async with dialling(UNAUTHORIZED, token=token) as (_, backend):
        await backend.dialled(2)
    assert (backend.tokens, token.refused) == (["old", "new"], ["old"])


async def test_without_a_token_nothing_is_dialled() -> None:
    token = ScriptedToken(None, "new")
    async with dialling(token=token) as (_, backend):
        await backend.dialled(1)
    assert (backend.tokens, token.refused) == (["new"], [None])


async def test_while_there_is_no_good_token_it_says_so() -> None:
    async with dialling(UNAUTHORIZED) as (dialer, backend):
        await backend.dialled(1)
        await settled()
        assert (dialer.state, dialer.last_error, dialer.next_attempt_s) == (
            RemoteState.UNAUTHORIZED,
            "HTTP status 401",
            None,
        )


async def test_a_crash_in_what_uses_a_link_is_logged_and_dialled_away() -> None:
    with capture_logs() as lines:
        async with dialling(RuntimeError("a bug")) as (dialer, backend):
            await backend.dialled(2)
            assert dialer.last_error == "internal error; see the log"
    assert "remote.link_crashed" in [line["event"] for line in lines]


async def test_dials_in_vain_are_counted_until_a_link_is_up() -> None:
    async with dialling(UNREACHABLE, UNREACHABLE) as (dialer, backend):
        await backend.dialled(3)
        assert (dialer.attempts, dialer.links) == (3, 0)
    async with dialling(UNREACHABLE, ScriptedLink(LOST)) as (dialer, backend):
        await backend.dialled(3)
        assert (dialer.attempts, dialer.links) == (1, 1)


async def test_while_dials_and_pauses_take_turns_the_state_began_when_the_link_was_lost() -> None:
    async with dialling(*[UNREACHABLE] * 20) as (dialer, backend):
        since = dialer.since
        await backend.dialled(21)
        assert (dialer.since, dialer.state) == (since, RemoteState.CONNECTING)


async def test_the_next_dial_is_told_in_seconds_from_now() -> None:
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


async def test_one_reason_is_one_warning_and_another_reason_one_more() -> None:
    with capture_logs() as lines:
        async with dialling(*[UNREACHABLE] * 9, *[RESET] * 9) as (_, backend):
            await backend.dialled(19)
    warnings = [line["reason"] for line in lines if line["log_level"] == "warning"]
    assert warnings == ["could not be reached", "the connection was reset"]


async def settled() -> None:
    """Wait until the dialer has handled what the last dial came to."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_it_dials_only_once_there_is_something_to_serve() -> None:
    ready = asyncio.Event()
    async with dialling(ready=ready) as (dialer, backend):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await backend.dialled(1)
        assert dialer.attempts == 0
        ready.set()
        await backend.dialled(1)
