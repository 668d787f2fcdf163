"""No request of up to 1 MiB blocks the event loop for more than 50 ms of CPU time."""

import asyncio
import json
import time
from functools import partial

import pytest

from tests.api.hostile_requests import (
    BODIES,
    COSTLY,
    MEBIBYTE,
    PASSWORD,
    SHORT_CHECKS,
    Json,
    serving,
    text,
)
from tests.support.configuration import Config, make_preset, write_json
from tests.support.loop_turns import MEASUREMENTS, in_short_turns
from tests.support.mcp_servers.raw_thread import running_raw_in_thread
from tests.support.service import CONFIG_DIR, EXECUTE, Service, eventually, request_of, running


def body_of(arguments: Json) -> bytes:
    body = json.dumps(request_of("raw:checked", arguments)).encode()
    assert len(body) <= MEBIBYTE
    return body


@pytest.mark.parametrize("name", COSTLY)
async def test_validating_arguments_does_not_block_the_event_loop(name: str) -> None:
    schema, arguments = COSTLY[name]
    body = body_of(arguments)
    async with serving(schema, worker=SHORT_CHECKS) as service:
        response = await in_short_turns(partial(service.http.post, EXECUTE, content=body))
    assert response.json()["error"]["code"] == "INVALID_ARGUMENTS"


@pytest.mark.parametrize(
    "keywords", [pytest.param("", marks=pytest.mark.full), "drop table,secret"]
)
async def test_a_request_does_not_block_the_event_loop(keywords: str) -> None:
    assert max(map(len, BODIES.values())) <= MEBIBYTE
    long: dict[str, str] = {}
    async with serving({"type": "object"}, blocklist_keywords=keywords) as service:
        for name, body in BODIES.items():
            try:
                response = await in_short_turns(partial(service.http.post, EXECUTE, content=body))
            except AssertionError as error:
                long[name] = str(error)
            else:
                assert response.json()["status"] in ("ok", "error"), name
    assert long == {}


FACTS = """@id("p") forbid(principal, action, resource) when {
  context has run && (context.target.contains("claimed") || context.embedded.contains("claimed"))
};"""


@pytest.mark.parametrize(
    "value",
    [
        [f"{n:x}" for n in range(99_000)],
        [f"{n} {'de89 3704 ' * 1_600}" for n in range(60)],
        "1.2/" * 260_000,
        {f"name {n}.5": 1 for n in range(45_000)},
    ],
    ids=["many", "long", "address", "names"],
)
@pytest.mark.parametrize("targets", [["value"], []], ids=["target", "embedded"])
async def test_looking_up_origins_does_not_block_the_event_loop(
    value: object, targets: list[str]
) -> None:
    (CONFIG_DIR / "policies").mkdir(parents=True)
    entry = {"labels": ["sends"], "targets": targets}
    write_json(CONFIG_DIR / "labels.json", {"tools": {"raw:checked": entry}})
    (CONFIG_DIR / "policies" / "p.cedar").write_text(FACTS)
    request = request_of("raw:checked", {"value": value}, run={"id": "r", "task": "a b"})
    body = json.dumps(request).encode()
    assert len(body) <= MEBIBYTE
    async with serving({"type": "object"}) as service:
        response = await in_short_turns(partial(service.http.post, EXECUTE, content=body))
    assert response.json()["status"] in ("ok", "error")


async def test_identifiers_of_a_long_result_do_not_block_the_event_loop() -> None:
    """The tool answers with its arguments."""
    CONFIG_DIR.mkdir()
    entry = {"labels": ["reads_private"], "identifiers": ["arguments.values[]"]}
    write_json(CONFIG_DIR / "labels.json", {"tools": {"raw:checked": entry}})
    values = [f"{n:x}" for n in range(60_000)]
    body = json.dumps(request_of("raw:checked", {"values": values}, run={"id": "r"})).encode()
    async with serving({"type": "object"}) as service:
        response = await in_short_turns(partial(service.http.post, EXECUTE, content=body))
    assert response.json()["status"] == "ok"


EVERY_GUARD = dict.fromkeys(
    ("hiddenCharacters", "hiddenHtml", "images", "links", "instructions"), "flag"
)


@pytest.mark.parametrize("guards", [{}, EVERY_GUARD], ids=["no-guards", "guards"])
async def test_a_server_with_many_tools_does_not_block_the_event_loop(guards: Json) -> None:
    properties = {f"p{n}": {"type": "string", "description": "words " * 9} for n in range(9)}
    slow = {f"t{n}": {"pattern": rf"^\p{{L}}{{1,{n + 1}}}$"} for n in range(20)}
    schemas = [{"type": "object", "properties": properties}] * 4_000
    schemas += [{"type": "object", "properties": slow | {f"q{n}": {}}} for n in range(20)]
    tools = [
        {"name": f"tool{n}", "inputSchema": schema, "description": f"the {n}th"}
        for n, schema in enumerate(schemas)
    ]
    async with running_raw_in_thread(only=(), extra={"tools": tools}) as server:
        config = Config(servers={"raw": {**server.entry, "guards": guards}})

        async def discover() -> int:
            async with running(config=config, discovered=False) as service:
                await service.discovered()
                return len(service.gateway.pool.statuses)

        assert await in_short_turns(discover) == 1


async def test_a_new_list_for_many_sessions_does_not_block_the_event_loop() -> None:
    properties = {f"p{n}": {"type": "string", "description": "words " * 9} for n in range(9)}
    region = {"type": "string", "x-mcp-header": "Region"}
    headers = {"inputSchema": {"type": "object", "properties": {"region": region}}}
    tools = [
        {"name": f"tool{n}", "inputSchema": {"type": "object", "properties": properties}}
        for n in range(2_000)
    ]
    async with running_raw_in_thread(only=("flood",), extra={"tools": tools}) as server:
        entry = {**server.entry, "isolation": "tenant"}
        new = ["headers", *(f"new{n}" for n in range(1, MEASUREMENTS))]
        names = ["flood", *new]
        preset = make_preset(tools=[("raw", name) for name in names])
        config = Config(
            servers={"raw": entry}, presets=[preset], more={"defaultPresetId": preset["id"]}
        )
        async with running(config=config) as service:
            tenants = [f"tenant_{n}" for n in range(24)]
            for tenant in tenants:
                await service.result("raw:flood", {"count": 0}, tenant_id=tenant)
            left = iter(new)

            async def send_new_list() -> None:
                name = next(left)
                server.script.tools[name] = {"name": name, **headers}
                await service.result("raw:flood", {"count": 1}, tenant_id=tenants[0])
                await eventually(lambda: _offers(service, f"raw:{name}"))

            await in_short_turns(send_new_list)
            found = await service.result("raw:headers", {"region": "eu"}, tenant_id=tenants[1])
    assert found["structured_content"]["mcp-param-region"] == "eu"


async def _offers(service: Service, tool: str) -> bool:
    return tool in await service.listed()


async def test_a_validation_that_exceeds_its_time_is_charged_as_a_call() -> None:
    async with serving(
        text(PASSWORD), worker=SHORT_CHECKS, unlimited=False, rate_limit_tenant_calls=2
    ) as service:
        errors = [
            (await service.execute("raw:checked", {"text": "a" * 100_000}))["error"]
            for _ in range(3)
        ]
    assert [error["code"] for error in errors] == [
        *["INVALID_ARGUMENTS"] * 2,
        "RATE_LIMIT_EXCEEDED",
    ]
    assert "shorten arguments.text, which has 100000 characters" in errors[0]["message"]


async def test_an_invalid_value_found_by_a_process_is_charged_as_a_call() -> None:
    schema = text(r"^(?!a)")
    async with serving(schema, unlimited=False, rate_limit_tenant_calls=1) as service:
        first = await service.code("raw:checked", {"text": "a" * 10_000})
        second = await service.code("raw:checked", {"text": "a" * 10_000})
    assert (first, second) == ("INVALID_ARGUMENTS", "RATE_LIMIT_EXCEEDED")


@pytest.mark.parametrize("pattern", [r"^(?!\s*$)", r"^[\s\S]*$", "^(a?){1,20}"])
async def test_a_long_text_that_matches_a_pattern_is_forwarded_and_charged_once(
    pattern: str,
) -> None:
    async with serving(text(pattern), unlimited=False, rate_limit_tenant_calls=2) as service:
        codes = [await service.code("raw:checked", {"text": "a" * 500_000}) for _ in range(3)]
    assert [code == "RATE_LIMIT_EXCEEDED" for code in codes] == [False, False, True]
    assert "INVALID_ARGUMENTS" not in codes


async def test_slow_validations_of_one_tenant_do_not_delay_other_tenants() -> None:
    async with serving(text(PASSWORD)) as service, asyncio.TaskGroup() as group:
        costly = group.create_task(service.code("raw:checked", {"text": "a" * 100_000}))
        others = [
            await service.code("raw:checked", {"text": "Abcdefg1" * times}, tenant_id="other")
            for times in (20, 200)
        ]
        assert not costly.done()
        assert "INVALID_ARGUMENTS" not in others


async def test_a_blocked_event_loop_is_counted_in_the_metrics() -> None:
    counted = "mcp_proxy_event_loop_blocked_seconds_count"

    async def is_counted() -> bool:
        lines = (await service.http.get("/metrics")).text.splitlines()
        return any(line.startswith(counted) and float(line.split()[1]) >= 1 for line in lines)

    async with running() as service:
        await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251 - blocks the loop on purpose
        await eventually(is_counted)
