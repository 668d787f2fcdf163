"""Commits a fault over the real socket and checks the same conditions after each one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tests.connector.backend_link import LinkedToOne
from tests.connector.fault import Failure, Fault
from tests.connector.link_checks import (
    events,
    expect_answers,
    metrics,
    until_no_sessions,
    until_status,
)
from tests.support.captured_logs import capture_logs
from tests.support.leak_checks import ResourcesInUse
from tests.support.remote_backend.backend import Backend
from tests.support.remote_backend.handshakes import Manner
from tests.support.remote_backend.session import Session
from tests.support.service import READY, REMOTE, Service, eventually

KINDS = ("lost", "closed", "refused", "unauthorized", "unreachable")
LOSSES = 'mcp_proxy_remote_link_losses_total{reason="%s"}'
IGNORED = 'mcp_proxy_remote_frames_total{direction="in",result="ignored"}'
RETRY_MAX_S = 0.01
"""The gateway's longest pause after accidents; after deliberate faults it starts at 0.5 to 1 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """State of a gateway that may only change as a fault's entry states."""

    links: int
    sessions: int
    losses: Counter[str]
    ignored: int
    strays: int
    echo_calls: int

    @classmethod
    async def now(cls, linked: LinkedToOne) -> Self:
        service, backend, server = linked
        status, values = await service.get(REMOTE), await metrics(service)
        return cls(
            links=status["links"],
            sessions=status["sessions"],
            losses=Counter({kind: int(values.get(LOSSES % kind, 0)) for kind in KINDS}),
            ignored=int(values[IGNORED]),
            strays=len(backend.strays),
            echo_calls=server.script.calls["echo"],
        )


async def check_fault(linked: LinkedToOne, session: Session, fault: Fault) -> None:
    """Commit a fault while the link is up, then check its effects and the gateway's state.

    ``session`` was started before, and continues unless the entry states otherwise.
    """
    service, backend, _ = linked
    if fault.is_deliberate:
        await reset_dial_pauses(backend)
    await service.result("s1:whoami")
    await session.result("ping")  # the answer proves that the link is up on the gateway's side
    before, resources = await Observed.now(linked), ResourcesInUse.now()
    link, received = backend.link(), len(session.messages)
    with capture_logs() as lines:
        await fault.commit(backend)
        if fault.outage is not None:
            await check_outage(service, fault.outage)
        if fault.ends_sessions:
            await until_no_sessions(service)
        await restore(backend)
        if fault.loss is not None:
            await backend.connected(count=before.links + 1)
        for id_ in fault.answered:
            assert await session.receive() == {"jsonrpc": "2.0", "id": id_, "result": {}}
        answer = await session.request("tools/list")
    assert ("error" in answer) == fault.ends_sessions
    assert len(session.messages) == received + len(fault.answered) + 1
    assert fault.close_code in (None, link.close_code)
    check_log(fault, lines)
    check_observed(fault, before, await Observed.now(linked))
    await eventually(resources.is_not_exceeded)
    await expect_answers(linked)


async def reset_dial_pauses(backend: Backend) -> None:
    """Lose the link once, so that pauses after a deliberate fault start with the shortest."""
    backend.link().drop()
    await backend.connected(count=len(backend.links) + 1)


async def check_outage(service: Service, outage: Failure) -> None:
    """Check that the status has the reason and HTTP still works while the link is down."""
    await until_status(service, lambda it: it.get("last_error", "").startswith(outage.reason))
    assert (await metrics(service))["mcp_proxy_remote_up"] == 0
    assert (await service.http.get(READY)).status_code == 200
    assert await service.code("s1:whoami") == "OK"


async def restore(backend: Backend) -> None:
    """Accept links again."""
    backend.manner = Manner.WELCOME
    if backend.is_shut:
        await backend.reopen()


def check_log(fault: Fault, lines: Sequence[Mapping[str, Any]]) -> None:
    """Check that the log has each failure and each ignored frame with its reason, and no error."""
    offline, ignored = events(lines, "remote.offline"), events(lines, "remote.frame_ignored")
    failures = [it for it in (fault.loss, fault.outage) if it is not None]
    assert len(offline) >= len(failures)
    for line, failure in zip(offline, failures, strict=False):
        shortest_s, longest_s = (0.5, 1.0) if failure.is_deliberate else (0.005, RETRY_MAX_S)
        assert line["log_level"] == "warning"
        assert line["reason"].startswith(failure.reason)
        assert shortest_s <= line["dialled_again_in_s"] <= longest_s
    assert len(ignored) == len(fault.ignored)
    for line, reason in zip(ignored, fault.ignored, strict=True):
        assert line["reason"].startswith(reason)
    ended = [line["sessions"] for line in events(lines, "remote.sessions_ended")]
    assert ended == ([1] if fault.ends_sessions else [])
    assert [line for line in lines if line["log_level"] == "error"] == []


def check_observed(fault: Fault, before: Observed, after: Observed) -> None:
    """Check that only the state named in the entry changed."""
    losses = after.losses - before.losses
    if fault.outage is not None:
        assert losses.pop(fault.outage.kind) >= 1
    assert losses == Counter([] if fault.loss is None else [fault.loss.kind])
    assert after.links - before.links == (fault.loss is not None)
    assert after.ignored - before.ignored == len(fault.ignored)
    assert (after.strays, after.echo_calls) == (before.strays, before.echo_calls)
    assert fault.ends_sessions or after.sessions == before.sessions
