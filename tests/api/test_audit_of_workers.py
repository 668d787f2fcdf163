"""Workers of one service in this process: each answers for the records of all."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.gateway import service_audit
from mcp_tools_proxy.telemetry.audit.audit_trail import MAX_WAITING
from mcp_tools_proxy.telemetry.recorder import Bound
from tests.support.bounds import until
from tests.support.console_browser import ADMIN, ConsoleBrowser
from tests.support.mcp_endpoint import Served, serving
from tests.support.record_streams import watching
from tests.support.tokens import bearer
from tests.support.worker_groups import joined

AUDIT = "/internal/mcp/audit"


@asynccontextmanager
async def workers(count: int = 2, **settings: Any) -> AsyncIterator[Sequence[Served]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(serving(workers=it, admin_token=ADMIN, **settings))
            for it in joined(count)
        ]


def record(worker: Served, number: int, **fields: object) -> None:
    payload = {"code": "OK", "tool": "t", "number": number, **fields}
    worker.service.gateway.audit.record("info", "tool.call", f"t-{number}", payload)


async def written(found: Sequence[Served]) -> None:
    for worker in found:
        file = worker.service.gateway.audit.file
        assert file is not None
        await until(lambda file=file: not file.queued)  # type: ignore[misc]


async def all_pages(found: Sequence[Served], **query: object) -> list[dict[str, Any]]:
    """Read all pages, each from the next worker."""
    records: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    for turn in range(1_000):
        worker = found[turn % len(found)]
        params: dict[str, Any] = {"event": "tool.call", **query, **cursor}
        answer = await worker.http.get(AUDIT, params=params, headers=bearer(ADMIN))
        page = answer.json()
        assert answer.status_code == 200, page
        records += page["records"]
        if "next_cursor" not in page:
            return records
        cursor = {"cursor": page["next_cursor"]}
    raise AssertionError("the pages do not end")


def numbers(records: Sequence[dict[str, Any]]) -> list[int]:
    return [it["payload"]["number"] for it in records]


@pytest.fixture(params=["memory", "files"])
def audit(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    files = {"audit": f"file:{tmp_path}/{{worker}}/audit.jsonl", "audit_max_bytes": 5_000}
    return {} if request.param == "memory" else files


async def test_any_worker_pages_through_the_records_of_all(
    audit: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([f"2126-11-29T10:00:00.{n // 4:06}Z" for n in range(200)])
    name = "mcp_tools_proxy.telemetry.audit.audit_trail.timestamp"
    async with workers(3, **audit) as found:
        with monkeypatch.context() as patch:
            patch.setattr(name, lambda: next(times))
            for number in range(60):
                record(found[number % 3], number)
        if audit:
            await written(found)
        for limit in (1, 7, 1_000):
            records = await all_pages(found, limit=limit)
            assert sorted(numbers(records)) == [*range(60)]
            at = [it["timestamp"] for it in records]
            assert at == sorted(at, reverse=True)
            assert {it["worker"] for it in records} == {1, 2, 3}


async def test_records_between_pages_are_not_on_later_ones(audit: dict[str, Any]) -> None:
    async with workers(**audit) as found:
        for number in range(40):
            record(found[number % 2], number)
        if audit:
            await written(found)
        records: list[dict[str, Any]] = []
        query: dict[str, Any] = {"event": "tool.call", "limit": 7}
        while True:
            page = await found[0].http.get(AUDIT, params=query, headers=bearer(ADMIN))
            records += page.json()["records"]
            if "next_cursor" not in page.json():
                break
            query["cursor"] = page.json()["next_cursor"]
            for worker in found:
                record(worker, 100)
            if audit:
                await written(found)
        assert sorted(numbers(records)) == [*range(40)]


async def test_requests_without_a_token_of_all_workers_are_listed_apart(
    audit: dict[str, Any],
) -> None:
    async with workers(**audit) as found:
        for number, worker in enumerate(found):
            trail = worker.service.gateway.audit
            payload = {"code": "UNAUTHENTICATED", "peer": "192.0.2.1", "number": number}
            trail.record("warning", "tool.call", "t", payload, bound=Bound.UNAUTHENTICATED)
            record(worker, 9)
        if audit:
            unauthenticated = [it.service.gateway.audit.unauthenticated_file for it in found]
            await until(lambda: not any(it.queued for it in unauthenticated if it is not None))
        assert sorted(numbers(await all_pages(found, unauthenticated="true"))) == [0, 1]


async def test_the_audit_of_a_worker_that_runs_no_more_is_found(tmp_path: Path) -> None:
    audit = f"file:{tmp_path}/audit-{{worker}}.jsonl"
    async with workers(2, audit=audit) as found:
        record(found[1], 7)
        await written(found)
    (tmp_path / "audit-3.jsonl").write_text("another file\n")
    async with serving(audit=audit, admin_token=ADMIN) as alone:
        assert numbers(await all_pages([alone])) == [7]


async def test_the_console_pages_through_the_calls_of_all_workers(
    audit: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "mcp_tools_proxy.telemetry.audit.audit_trail.timestamp"
    async with workers(console=True, **audit) as found:
        with monkeypatch.context() as patch:
            for number in range(90):
                patch.setattr(name, lambda n=number: f"2126-11-29T10:00:00.{n // 3:06}Z")
                record(found[number % 2], number)
        if audit:
            await written(found)
        browser = ConsoleBrowser(found[0].service.http)
        await browser.sign_in()
        page = await browser.open("/console/calls")
        links = [it for it in page.links if "trace_id=t-" in it and "at=" in it]
        first = await browser.open(links[0])
        while older := [it for it in page.links if "cursor=" in it]:
            page = await browser.open(older[0])
            links += [it for it in page.links if "trace_id=t-" in it and "at=" in it]
        assert len(links) == len({*links}) == 90
        assert "t-89" in first.text or "t-88" in first.text or "t-87" in first.text


async def test_a_stream_has_the_records_of_all_workers() -> None:
    async with workers(3) as found, watching(found[0].http, ADMIN, tool="t") as reader:
        await until(lambda: all(it.service.gateway.audit._feeds for it in found))
        for number in range(30):
            record(found[number % 3], number)
            record(found[number % 3], 99, tool="other")
        events = [await reader.next() for _ in range(30)]
        assert {event for event, _ in events} == {"record"}
        assert sorted(it["payload"]["number"] for _, it in events) == [*range(30)]


async def test_a_stream_reports_records_that_another_worker_lost() -> None:
    async with workers() as found, watching(found[0].http, ADMIN, tool="t") as reader:
        await until(lambda: bool(found[1].service.gateway.audit._feeds))
        for number in range(MAX_WAITING + 9):
            record(found[1], number)
        events = [await reader.next() for _ in range(MAX_WAITING + 1)]
        assert events[-1] == ("lost", {"records": 9})
        record(found[1], 1_000)
        assert (await reader.next())[1]["payload"]["number"] == 1_000


async def test_a_stream_reports_records_of_an_answer_that_came_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with workers() as found:
        group = found[0].service.gateway.workers
        ask, is_late = group.ask, False

        async def ask_late(question: str, value: object = None) -> Sequence[Any]:
            answers = await ask(question, value)
            return () if is_late else answers

        monkeypatch.setattr(group, "ask", ask_late)
        async with watching(found[0].http, ADMIN, tool="t") as reader:
            record(found[1], 1)
            assert (await reader.next())[1]["payload"]["number"] == 1
            is_late = True
            record(found[1], 2)
            (feed,) = found[1].service.gateway.audit._feeds
            await until(lambda: feed.room == MAX_WAITING)
            is_late = False
            record(found[1], 3)
            events = [await reader.next(), await reader.next()]
            assert ("lost", {"records": 1}) in events


async def test_a_worker_forgets_the_reader_of_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_audit, "FORGET_S", 0.5)
    async with workers() as found:
        trail = found[1].service.gateway.audit
        async with watching(found[0].http, ADMIN):
            await until(lambda: bool(trail._feeds))
            assert trail.followers == 0  # it is counted where it is connected
            assert found[0].service.gateway.audit.followers == 1
        await until(lambda: not trail._feeds)
