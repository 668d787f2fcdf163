"""Uploads with ``Prefer: respond-async`` (RFC 7240)."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.http.api import shared_upload_statuses, upload_queue, upload_statuses
from mcp_tools_proxy.http.api.document_upload import Uploaded, Uploads
from mcp_tools_proxy.http.api.upload_queue import UploadQueue
from mcp_tools_proxy.http.api.upload_statuses import UploadStatus, UploadStatuses
from mcp_tools_proxy.storage.cache_folder import make_private
from mcp_tools_proxy.storage.files import write_atomically
from tests.api.document_operator import (
    CONTENT,
    DOC,
    MARKDOWN,
    NEW,
    NOTE,
    Operator,
    operated,
    outcome,
    tenant_operators,
)
from tests.support.bounds import BOUND_S
from tests.support.postgres_databases import Databases
from tests.support.redis_server import RedisServer, running_redis
from tests.support.service import eventually, running
from tests.support.tokens import token_settings

LATER = {"Prefer": "wait=1, respond-async"}
SLOW = "slow"
"""The id of documents whose import does not end."""


@pytest.fixture(autouse=True)
def _slow_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    read_later = Uploads.read_later

    @asynccontextmanager
    async def read(*arguments: Any) -> AsyncIterator[Uploaded]:
        if arguments[3].doc_id == SLOW:
            await asyncio.Event().wait()
        async with read_later(*arguments) as uploaded:
            yield uploaded

    monkeypatch.setattr(Uploads, "read_later", read)


@pytest.fixture
async def operator(tmp_path: Path) -> AsyncIterator[Operator]:
    async with operated(cache_dir=tmp_path / "cache") as made:
        yield made


async def status_of(operator: Operator, location: str) -> Any:
    response = await operator.service.http.get(location, headers=operator.headers)
    assert response.status_code == 200, response.text
    return response.json()


async def final_status(operator: Operator, location: str) -> Any:
    found: list[Any] = []

    async def is_finished() -> bool:
        found.append(await status_of(operator, location))
        return "finished_at" in found[-1]

    await eventually(is_finished)
    return found[-1]


async def put_later(operator: Operator, doc_id: str = "a", **more: Any) -> str:
    query = {"tenant_id": "acme", "doc_id": doc_id}
    response = await operator.put_json(query=query, **{**NEW, **LATER, **more})
    assert response.status_code == 202, response.text
    return str(response.headers["location"])


async def test_an_upload_is_answered_before_it_is_stored(operator: Operator) -> None:
    accepted = await operator.put_note(**NEW, **LATER, **MARKDOWN)
    assert (accepted.status_code, accepted.headers["preference-applied"]) == (202, "respond-async")
    body = accepted.json()
    assert (body["state"], body["doc_id"]) == ("queued", DOC["doc_id"])
    status = await final_status(operator, accepted.headers["location"])
    assert (status["state"], status["status_code"]) == ("succeeded", 201)
    head = (await operator.send("GET", CONTENT)).headers["etag"]
    assert head == f'"{status["answer"]["version"]}"'
    assert status["started_at"] <= status["finished_at"]


async def test_without_the_preference_the_answer_waits(operator: Operator) -> None:
    response = await operator.put_note(Prefer="return=minimal", **NEW)
    assert outcome(response) == (201, None)
    assert "preference-applied" not in response.headers


async def test_refusals_before_the_import_are_immediate(operator: Operator) -> None:
    assert outcome(await operator.put_note(**LATER))[1] == "VERSION_REQUIRED"
    assert outcome(await operator.put_note(If_Match='"x"', **LATER))[1] == "VERSION_MISMATCH"
    video = {"Content-Type": "video/mp4"}
    refused = await operator.send("PUT", CONTENT, DOC, NOTE, **video, **NEW, **LATER)
    assert outcome(refused)[1] == "UNSUPPORTED_FORMAT"


async def test_a_failed_import_has_the_status_and_body_of_an_immediate_one(
    operator: Operator,
) -> None:
    pdf = {"Content-Type": "application/pdf"}
    now = await operator.send("PUT", CONTENT, DOC, b"no PDF", **pdf, **NEW)
    later = await operator.send("PUT", CONTENT, DOC, b"no PDF", **pdf, **NEW, **LATER)
    status = await final_status(operator, later.headers["location"])
    assert (status["state"], status["status_code"]) == ("failed", now.status_code)
    assert status["answer"]["error"] == now.json()["error"]


async def test_the_version_is_checked_again_at_the_write(operator: Operator) -> None:
    first = await put_later(operator, SLOW)
    second = await put_later(operator, "b")
    assert (await operator.put_json("Other.", {"tenant_id": "acme", "doc_id": "b"})).is_success
    cancelled = await operator.service.http.delete(first, headers=operator.headers)
    assert cancelled.json()["state"] == "cancelled"
    status = await final_status(operator, second)
    assert (status["state"], status["status_code"]) == ("failed", 412)
    assert status["answer"]["error"]["code"] == "VERSION_MISMATCH"


async def test_uploads_of_a_tenant_wait_for_each_other_but_not_for_other_tenants(
    operator: Operator,
) -> None:
    first = await put_later(operator, SLOW)
    waiting = [await put_later(operator, f"a{number}") for number in range(3)]
    other = await operator.put_json(query={"tenant_id": "globex", "doc_id": "a"}, **NEW, **LATER)
    assert (await final_status(operator, other.headers["location"]))["state"] == "succeeded"
    shown = [await status_of(operator, it) for it in (first, *waiting)]
    assert [(it["state"], it.get("position")) for it in shown] == [
        ("running", None),
        ("queued", 1),
        ("queued", 2),
        ("queued", 3),
    ]
    for location in (waiting[1], first):
        await operator.service.http.delete(location, headers=operator.headers)
    ended = [(await final_status(operator, it))["state"] for it in waiting]
    assert ended == ["succeeded", "cancelled", "succeeded"]


async def test_a_second_cancellation_does_not_interrupt_the_first(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = await put_later(operator, SLOW)
    cancel = UploadQueue.cancel
    states: list[str] = []

    def slow_write(*arguments: Any, **options: Any) -> None:
        time.sleep(0.2)
        write_atomically(*arguments, **options)

    async def cancel_twice(queue: UploadQueue, upload_id: str) -> None:
        """Cancel as two workers do, each of which has seen an unfinished upload."""
        async with asyncio.TaskGroup() as group:
            group.create_task(cancel(queue, upload_id))
            await asyncio.sleep(0.1)
            await cancel(queue, upload_id)
            states.append((await status_of(operator, location))["state"])

    monkeypatch.setattr(f"{upload_statuses.__name__}.write_atomically", slow_write)
    monkeypatch.setattr(UploadQueue, "cancel", cancel_twice)
    await operator.service.http.delete(location, headers=operator.headers)
    assert states == ["cancelled"]


async def test_the_queue_is_bounded_and_a_tenant_has_a_share(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_queue, "MAX_QUEUED", 4)
    first = await put_later(operator, SLOW)
    for number in range(2):
        await put_later(operator, f"a{number}")
    body = json.dumps({"tenant_id": "acme", "doc_id": "c", "title": "c", "pages": ["x"]})
    refused = await operator.send(
        "PUT",
        CONTENT,
        {"tenant_id": "acme", "doc_id": "c"},
        body,
        Content_Type="application/json",
        **NEW,
        **LATER,
    )
    assert outcome(refused) == (409, "IMPORT_BUSY")
    assert refused.headers["retry-after"]
    other = await operator.put_json(query={"tenant_id": "globex", "doc_id": "a"}, **NEW, **LATER)
    assert other.status_code == 202
    await operator.service.http.delete(first, headers=operator.headers)


async def test_other_tenants_and_unknown_ids_find_nothing(operator: Operator) -> None:
    location = await put_later(operator)
    await final_status(operator, location)
    http, headers = operator.service.http, operator.headers
    upload_id = location.rpartition("=")[2]
    assert len(upload_id) == 32
    for wrong in (
        location.replace("acme", "globex"),
        location[:-1],
        location.replace(upload_id, "..%2F" * 6),
        location.replace(upload_id, "A" * 32),
    ):
        assert outcome(await http.get(wrong, headers=headers)) == (404, "NOT_FOUND")
        assert outcome(await http.delete(wrong, headers=headers)) == (404, "NOT_FOUND")
    assert (await http.get(location)).status_code == 401


async def test_an_unfinished_upload_of_an_ended_process_is_lost(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    async with operated(cache_dir=cache) as before:
        first = await put_later(before, SLOW)
        done = await before.put_json(query={"tenant_id": "b", "doc_id": "x"}, **NEW, **LATER)
        await final_status(before, done.headers["location"])
        waiting = await put_later(before)
    async with operated(cache_dir=cache) as after:
        for location in (first, waiting):
            status = await status_of(after, location)
            assert (status["state"], status["status_code"]) == ("failed", 503)
            assert status["answer"]["error"]["code"] == "SHUTTING_DOWN"
        assert (await status_of(after, done.headers["location"]))["status_code"] == 201


async def test_uploads_at_once_do_not_refuse_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(folder: Path) -> None:
        make_private(folder)
        time.sleep(0.05)  # the other uploads begin meanwhile

    def status() -> UploadStatus:
        return UploadStatus(
            upload_id=UploadStatuses.new_id(),
            tenant_id="acme",
            doc_id="a",
            state="queued",
            accepted_at=datetime.now(UTC),
        )

    folder = tmp_path / "cache" / "uploads"
    folder.mkdir(parents=True)
    (folder / "removed.json").symlink_to("a file that was removed after it was listed")
    monkeypatch.setattr(upload_statuses, "make_private", slowly)
    statuses = UploadStatuses(folder)
    kept = [status() for _ in range(4)]
    await asyncio.gather(*map(statuses.keep, kept))
    assert [await statuses.find(it.upload_id) for it in kept] == kept
    statuses.close()


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    (tmp_path / "redis").mkdir()
    with running_redis(tmp_path / "redis") as server:
        yield server


@asynccontextmanager
async def replicas(kind: str, folder: Path, **shared: Any) -> AsyncIterator[tuple[Operator, ...]]:
    """Run two services without a common cache."""
    async with (
        operated(cache_dir=folder / f"{kind} a", **shared) as first,
        operated(cache_dir=folder / f"{kind} b", **shared) as second,
    ):
        yield first, second


@pytest.mark.parametrize("kind", ["redis", "postgres"])
async def test_each_replica_knows_the_status(
    kind: str,
    databases: Databases,
    redis_server: RedisServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upload_queue, "RENEW_S", 0.05)
    shared: dict[str, Any] = {"state_url": redis_server.url}
    if kind == "postgres":
        shared = {"documents_url": (await databases.new()).url, "documents_timeout": BOUND_S}
    async with replicas(kind, tmp_path, **shared) as (first, second):
        done = await put_later(first, "done")
        status = await final_status(second, done)
        assert (status["state"], status["answer"]["doc_id"]) == ("succeeded", "done")

        running_there, waiting = await put_later(first, SLOW), await put_later(first, "a")
        assert "position" in await status_of(second, waiting)
        await eventually(lambda: _shows(second, running_there, state="running"))
        await eventually(lambda: _shows(second, waiting, position=1))
        http, headers = second.service.http, second.headers
        assert (await http.delete(running_there, headers=headers)).status_code == 200
        assert (await final_status(second, running_there))["state"] == "cancelled"
        assert (await final_status(second, waiting))["state"] == "succeeded"

        wrong = waiting.replace("acme", "globex")
        for method in ("GET", "DELETE"):
            refused = await http.request(method, wrong, headers=headers)
            assert outcome(refused) == (404, "NOT_FOUND")


async def _shows(operator: Operator, location: str, **expected: object) -> bool:
    status: dict[str, object] = await status_of(operator, location)
    return expected.items() <= status.items()


async def test_an_upload_of_a_replica_that_has_ended_is_lost(
    redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with operated(cache_dir=tmp_path / "b", state_url=redis_server.url) as second:
        async with operated(cache_dir=tmp_path / "a", state_url=redis_server.url) as first:
            location = await put_later(first, SLOW)
            assert (await status_of(second, location))["state"] in ("queued", "running")
        monkeypatch.setattr(shared_upload_statuses, "LOST_S", 0.0)
        status = await status_of(second, location)
        assert (status["state"], status["status_code"]) == ("failed", 503)
        redis_server.stop()
        try:
            unknown = await second.service.http.get(location, headers=second.headers)
            own = await put_later(second)
            assert (await final_status(second, own))["state"] == "succeeded"
        finally:
            redis_server.start()
    assert outcome(unknown) == (503, "DOCUMENTS_UNAVAILABLE")


async def test_old_statuses_are_removed(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_statuses, "MAX_KEPT", 2)
    monkeypatch.setattr(upload_statuses, "_CLEAN_EVERY_S", 0.0)
    locations = []
    for number in range(6):
        locations.append(await put_later(operator, f"a{number}"))
        await final_status(operator, locations[-1])
    http, headers = operator.service.http, operator.headers
    found = [(await http.get(it, headers=headers)).status_code for it in locations]
    assert found.count(404) >= 3


async def test_an_operator_of_one_tenant_sees_only_its_uploads(tmp_path: Path) -> None:
    async with running(**token_settings(), cache_dir=tmp_path / "cache") as service:
        mine, others, no_right = await tenant_operators(service)
        location = await put_later(mine)
        assert (await final_status(mine, location))["state"] == "succeeded"
        for method in ("GET", "DELETE"):
            for operator, address, expected in (
                (others, location, (403, "FORBIDDEN")),
                (others, location.replace("acme", "globex"), (404, "NOT_FOUND")),
                (no_right, location, (403, "FORBIDDEN")),
            ):
                answer = await service.http.request(method, address, headers=operator.headers)
                assert outcome(answer) == expected


async def test_an_upload_has_no_source(operator: Operator) -> None:
    """Otherwise ``documents import FOLDER --prune`` could remove it."""
    source = {"name": "share", "path": "a.md", "digest": "x", "importer": "1"}
    assert (await operator.put_json(more={"source": source})).status_code == 201
    stored = (await operator.send("GET", CONTENT)).json()
    assert "source" not in stored
