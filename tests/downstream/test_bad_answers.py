import asyncio
from functools import partial

import pytest

from tests.downstream.faulty_servers import SERVER_KINDS, Scene, scene
from tests.support.service import eventually

every_kind = pytest.mark.parametrize("kind", SERVER_KINDS)
MEGABYTES = 10_000_000
LONGER_THAN_SLEEP = {"requestTimeoutSeconds": 5.0}
"""Long enough for calls that sleep for less than a second."""


@every_kind
async def test_garbage_fails_only_its_own_call(kind: str) -> None:
    async with scene(kind, entry=LONGER_THAN_SLEEP) as it:
        other = it.start("sleep", seconds=0.3)
        await it.has_seen("sleep")
        code = "SERVER_UNAVAILABLE" if kind.startswith("http") else "TOOL_TIMEOUT"
        assert await it.call("garbage") == code, "over a stream it belongs to no call"
        assert (await other)["status"] == "ok"
        assert (await it.answers(), (await it.status())["reconnects"]) == (True, 0)


@every_kind
async def test_a_truncated_answer_is_reported_and_the_server_recovers(kind: str) -> None:
    async with scene(kind) as it:
        error = (await it.envelope("half"))["error"]
        assert (error["code"], "server bad" in error["message"]) == ("SERVER_UNAVAILABLE", True)
        await it.recovered()


@pytest.mark.parametrize("kind", ["http-legacy", "http-modern"])
@pytest.mark.parametrize("fault", ["crash", "half"])
async def test_a_truncated_answer_over_http_fails_no_other_call(kind: str, fault: str) -> None:
    async with scene(kind) as it:
        other = it.start("sleep", seconds=0.3)
        await it.has_seen("sleep")
        assert await it.call(fault) == "SERVER_UNAVAILABLE"
        assert (await other)["status"] == "ok"


@every_kind
async def test_slow_failing_and_timed_out_calls_fail_no_other_call(kind: str) -> None:
    async with scene(kind, entry=LONGER_THAN_SLEEP) as it:
        other = it.start("sleep", seconds=0.5)
        late = it.start("hang")
        await it.has_seen("hang")
        codes = [await it.call(tool) for tool in ("error", "is_error", "undecodable")]
        assert codes == ["TOOL_FAILED", "TOOL_FAILED", "OK"]
        assert (await other)["status"] == "ok"
        assert (await late)["error"]["code"] == "TOOL_TIMEOUT"
        assert (await it.answers(), (await it.status())["reconnects"]) == (True, 0)


@every_kind
async def test_a_text_of_ten_megabytes_is_cut(kind: str) -> None:
    async with scene(kind) as it:
        envelope = await it.envelope("big", bytes=MEGABYTES)
        (block,) = envelope["result"]["content"]
        assert (len(block["text"]), envelope["result"]["truncated"]) == (20_480, True)


@every_kind
async def test_ten_megabytes_of_other_content_are_too_large(kind: str) -> None:
    async with scene(kind) as it:
        other = it.start("sleep", seconds=0.3)
        error = (await it.envelope("big_image", bytes=MEGABYTES))["error"]
        assert (error["code"], error["details"]["max_result_bytes"]) == (
            "RESULT_TOO_LARGE",
            1_048_576,
        )
        assert ((await other)["status"], await it.answers()) == ("ok", True)


@every_kind
async def test_a_servers_own_limit_of_results_applies(kind: str) -> None:
    async with scene(kind, entry={"maxResultBytes": 3_000}) as it:
        envelope = await it.envelope("big_image", bytes=5_000)
        assert envelope["error"]["code"] == "RESULT_TOO_LARGE"
        assert envelope["error"]["details"]["max_result_bytes"] == 3_000
        assert await it.call("big_image", bytes=2_000) == "OK"
        assert await it.call("big_image", "good", bytes=5_000) == "OK"


@every_kind
async def test_a_flood_of_list_changes_is_handled_together(kind: str) -> None:
    async with scene(kind) as it:
        await it.has_seen("tools/list")
        before = it.bad.seen("tools/list")
        codes = await asyncio.gather(
            *(it.call("flood", count=500) for _ in range(4)),
            *(it.call("echo") for _ in range(20)),
            *(it.call("echo", "good") for _ in range(20)),
        )
        assert set(codes) == {"OK"}
        await it.has_seen("tools/list", before + 1)
        assert it.bad.seen("tools/list") - before <= 10, "2000 changes, a few looks"


@every_kind
async def test_a_flood_of_calls_is_answered_or_refused_by_the_limit(kind: str) -> None:
    limits = {"maxCallsInFlight": 10, "maxCallsInFlightPerTenant": 10}
    async with scene(kind, entry=limits) as it:
        codes = await asyncio.gather(*(it.call("sleep", seconds=0.3) for _ in range(30)))
        assert (codes.count("OK"), codes.count("SERVER_BUSY")) == (10, 20)
        assert await it.answers()


@every_kind
@pytest.mark.requirement("P-07", "P-16")
async def test_a_changed_list_applies_automatically(kind: str) -> None:
    async with scene(kind, tools=["tools_swap", "swapped"]) as it:
        assert (await it.call("swapped"), "bad:swapped" in await it.missing()) == (
            "TOOL_NOT_ALLOWED",
            True,
        )
        for code in ("OK", "TOOL_NOT_ALLOWED"):
            await it.call("tools_swap")
            await eventually(partial(_answers, it, "swapped", code))
            assert ("bad:swapped" in await it.service.listed()) == (code == "OK")


async def _answers(it: Scene, tool: str, code: str) -> bool:
    return await it.call(tool) == code
