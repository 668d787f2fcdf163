"""Key sources: a watched file, and a URL that can fail."""

import asyncio
import gzip
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx

from mcp_tools_proxy.auth.claims import ALGORITHMS
from mcp_tools_proxy.auth.jwks import JwksFile
from mcp_tools_proxy.auth.jwks_url import MAX_BYTES, MIN_REFRESH_GAP_S, JwksUrl
from tests.support.bounds import until
from tests.support.captured_logs import capture_logs
from tests.support.file_descriptors import none_left
from tests.support.signing import key_set, make_key
from tests.support.tables import each_row
from tests.support.virtual_time import ManualClock

URL = "http://127.0.0.1/jwks?secret=hush"
OLD, NEW = make_key("EdDSA", "old"), make_key("EdDSA", "new")
Answer = httpx.Response | Exception


class Issuer:
    """Returns scripted responses and counts requests."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests = 0
        self.hangs = False

    async def __call__(self, _request: httpx.Request) -> httpx.Response:
        self.requests += 1
        if self.hangs:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def no_sleep(_seconds: float) -> None:
    await asyncio.Event().wait()


def keys_from(
    issuer: Issuer, clock: ManualClock | None = None, *, timeout_s: float = 5.0
) -> JwksUrl:
    return JwksUrl(
        URL,
        ALGORITHMS,
        transport=httpx.MockTransport(issuer),
        timeout_s=timeout_s,
        clock=clock or ManualClock(0.0),
        sleep=no_sleep,
    )


def good(*keys: object) -> httpx.Response:
    return httpx.Response(200, content=key_set(*keys))  # type: ignore[arg-type]


async def test_the_first_load_returns_the_keys() -> None:
    keys = keys_from(Issuer(good(OLD)))
    await keys.refresh()
    assert (keys.state()["status"], keys.keys.find("old", "EdDSA") is not None) == ("ok", True)


async def test_a_second_refresh_within_the_interval_sends_no_request() -> None:
    issuer, clock = Issuer(good(OLD)), ManualClock(0.0)
    keys = keys_from(issuer, clock)
    await keys.refresh()
    clock.now = MIN_REFRESH_GAP_S - 1
    await keys.refresh()
    assert issuer.requests == 1


@each_row("later", [MIN_REFRESH_GAP_S, MIN_REFRESH_GAP_S + 1])
async def test_a_refresh_after_the_interval_finds_a_new_key(later: float) -> None:
    issuer, clock = Issuer(good(OLD)), ManualClock(0.0)
    keys = keys_from(issuer, clock)
    await keys.refresh()
    issuer.answer, clock.now = good(NEW), later
    await keys.refresh()
    assert [kid for kid, _ in keys.keys.by_kid] == ["new"]


async def test_concurrent_refreshes_share_one_request() -> None:
    issuer = Issuer(good(OLD))
    keys = keys_from(issuer)
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(keys.refresh)
    assert issuer.requests == 1


async def test_changed_keys_of_a_url_are_logged() -> None:
    issuer, clock = Issuer(good(OLD)), ManualClock(0.0)
    keys = keys_from(issuer, clock)
    with capture_logs() as lines:
        for answer in (good(OLD), good(OLD), good(NEW), good(NEW, OLD), good(NEW)):
            issuer.answer = answer
            await keys.refresh()
            clock.now += MIN_REFRESH_GAP_S
    assert [(line["event"], line["keys"]) for line in lines] == [
        ("jwks.loaded", count) for count in (1, 1, 2, 1)
    ]


BAD: dict[str, Answer] = {
    "down": httpx.ConnectError("refused"),
    "server error": httpx.Response(500),
    "redirect": httpx.Response(302, headers={"Location": "http://127.0.0.1/evil"}),
    "garbage": httpx.Response(200, content=b"<html>"),
    "huge": httpx.Response(200, content=b" " * (MAX_BYTES + 1)),
    "compressed": httpx.Response(
        200, headers={"Content-Encoding": "gzip"}, content=gzip.compress(key_set(NEW))
    ),
    "encoded": httpx.Response(200, headers={"Content-Encoding": "other"}, content=key_set(NEW)),
}


@each_row("answer", BAD.values(), ids=BAD)
async def test_the_last_valid_keys_stay_while_the_url_fails(answer: Answer) -> None:
    issuer, clock = Issuer(good(OLD)), ManualClock(0.0)
    keys = keys_from(issuer, clock)
    await keys.refresh()
    issuer.answer, clock.now = answer, MIN_REFRESH_GAP_S
    await keys.refresh()
    kept = keys.keys.find("old", "EdDSA") is not None
    assert (keys.state()["status"], kept, issuer.requests) == ("degraded", True, 2)


async def test_a_response_of_a_key_url_can_have_one_megabyte() -> None:
    content = key_set(OLD).ljust(1024 * 1024)
    keys = keys_from(Issuer(httpx.Response(200, content=content)))
    await keys.refresh()
    assert keys.keys.count == 1


async def test_a_request_to_an_unresponsive_key_url_times_out() -> None:
    issuer = Issuer(good(OLD))
    issuer.hangs = True
    keys = keys_from(issuer, timeout_s=0.05)
    await keys.refresh()
    assert keys.state()["failure"] == "did not answer within 0.05 s"


async def test_the_timeout_of_the_issuer_is_five_seconds() -> None:
    timeouts: list[object] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        timeouts.append(request.extensions["timeout"]["read"])
        return good(OLD)

    await JwksUrl(URL, ALGORITHMS, transport=httpx.MockTransport(answer)).refresh()
    assert timeouts == [5.0]


async def test_an_empty_key_set_removes_the_keys() -> None:
    issuer, clock = Issuer(good(OLD)), ManualClock(0.0)
    keys = keys_from(issuer, clock)
    await keys.refresh()
    issuer.answer, clock.now = good(), MIN_REFRESH_GAP_S
    await keys.refresh()
    assert (keys.keys.count, keys.state()["status"]) == (0, "degraded")


async def test_run_refreshes_periodically() -> None:
    keys = keys_from(Issuer(good(OLD)))
    async with anyio.create_task_group() as group:
        group.start_soon(keys.run)
        await until(lambda: keys.keys.count == 1)
        group.cancel_scope.cancel()


async def test_log_and_state_do_not_show_the_url() -> None:
    keys = keys_from(Issuer(httpx.ConnectError("http://127.0.0.1/jwks?secret=hush")))
    with capture_logs() as lines:
        await keys.refresh()
    assert "hush" not in f"{lines}{keys.state()}"


@asynccontextmanager
async def followed(path: Path) -> AsyncIterator[JwksFile]:
    keys = JwksFile(path, ALGORITHMS)
    await keys.load()
    async with anyio.create_task_group() as group:
        group.start_soon(keys.run)
        yield keys
        group.cancel_scope.cancel()


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


async def test_changes_of_a_key_file_are_loaded(tmp_path: Path) -> None:
    path = write(tmp_path / "jwks.json", key_set(OLD))
    async with followed(path) as keys:
        write(path, key_set(NEW))
        await until(lambda: keys.keys.find("new", "EdDSA") is not None)
        assert keys.keys.find("old", "EdDSA") is None


async def test_an_invalid_key_file_keeps_the_previous_keys(tmp_path: Path) -> None:
    path = write(tmp_path / "jwks.json", key_set(OLD))
    async with followed(path) as keys:
        write(path, key_set(NEW)[:-9])
        await until(lambda: keys.state()["status"] == "degraded")
        assert keys.keys.find("old", "EdDSA") is not None


async def test_a_missing_key_file_means_zero_keys(tmp_path: Path) -> None:
    path = write(tmp_path / "jwks.json", key_set(OLD))
    async with followed(path) as keys:
        path.unlink()
        await until(lambda: keys.state()["status"] == "degraded")
        assert keys.keys.count == 0


async def test_reading_is_retried_after_a_temporary_error(tmp_path: Path) -> None:
    path = write(tmp_path / "jwks.json", key_set(OLD))
    async with followed(path) as keys:
        with none_left():
            os.utime(path)
            await until(lambda: keys.state()["status"] == "degraded")
        await until(lambda: keys.state()["status"] == "ok")
        assert keys.keys.find("old", "EdDSA") is not None


async def test_changed_keys_of_a_file_are_logged(tmp_path: Path) -> None:
    keys = JwksFile(tmp_path / "jwks.json", ALGORITHMS)
    with capture_logs() as lines:
        for content in ([OLD], [OLD], [NEW], [NEW, OLD], [NEW]):
            write(tmp_path / "jwks.json", key_set(*content))
            await keys.load()
    assert [(line["event"], line["keys"]) for line in lines] == [
        ("jwks.loaded", count) for count in (1, 1, 2, 1)
    ]
