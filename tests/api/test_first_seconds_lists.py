"""Lists and readiness while a server is in its first connection attempt."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.api.blocked_service import UNREACHABLE_SERVER, WORK, held
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_agent, make_preset, write_json
from tests.support.mcp_servers.blocked_server import running_blocked
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import (
    ACTIVE,
    CONFIG_DIR,
    PROMPTS,
    READY,
    RESOURCES,
    TOOLS,
    Service,
    eventually,
    running,
)


@pytest.mark.parametrize("path", [TOOLS, PROMPTS, RESOURCES])
async def test_a_list_names_pending_servers(path: str) -> None:
    async with held() as it:
        first = await it.service.http.get(path)
        assert first.json()["pending"] == ["s1"]
        it.server.release()
        await it.service.discovered()
        again = await it.service.http.get(path, headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, "pending" in again.json()) == (200, False)


async def test_a_list_in_a_model_format_names_pending_servers() -> None:
    async with held() as it:
        shown = await it.service.get(TOOLS, format="openai", names="s1:echo")
        assert (shown["tools"], shown["pending"]) == ([], ["s1"])


@pytest.mark.parametrize(
    "narrowed",
    [
        {"client_ids": ["s2"]},
        {"preset": "other"},
        {"exclude": ["echo"]},
    ],
    ids=["client_ids", "preset", "exclude_components"],
)
async def test_a_list_names_no_server_hidden_from_the_caller(narrowed: Json) -> None:
    other = make_preset("other", tools=[("s2", "echo")])
    agents = [make_agent("a", **narrowed), make_agent("b")]
    preset = make_preset(tools=[("s1", "echo")], prompts=[], resources=[])
    async with running_blocked() as server:
        config = Config(servers={"s1": server.entry}, presets=[preset, other], agents=agents,
                        more={"defaultPresetId": "work"})  # fmt: skip
        async with running(config=config, discovered=False) as service:
            assert "pending" not in await service.get(TOOLS, agent="a")
            assert (await service.get(TOOLS, agent="b"))["pending"] == ["s1"]
            for path in (PROMPTS, RESOURCES):
                assert "pending" not in await service.get(path, agent="b")


async def test_a_server_out_of_scope_is_not_listed_as_pending() -> None:
    async with running_blocked() as server, running_raw() as known:
        config = Config(servers={"s1": known.entry, "s2": server.entry}, presets=[WORK])
        async with running(config=config, discovered=False) as service:

            async def is_connected() -> bool:
                return await service.listed() == ["s1:echo"]

            await eventually(is_connected)
            assert "pending" not in await service.get(TOOLS)


async def test_items_of_a_pending_server_are_not_missing() -> None:
    preset = make_preset(tools=[("s1", "gone")])
    async with held(preset=preset) as it:
        shown = await it.service.get(ACTIVE)
        assert (shown["missing"], shown["pending"]) == ([], ["s1"])
        it.server.release()
        await it.service.discovered()
        shown = await it.service.get(ACTIVE)
        assert [it["name"] for it in shown["missing"]] == ["gone"]
        assert "pending" not in shown


Lines = Sequence[Mapping[str, Any]]


def missing_in(lines: Lines) -> list[tuple[str, str, list[str]]]:
    """Return level, reason and names of each log line about missing items of the preset."""
    return [
        (line["log_level"], line["reason"], line["names"])
        for line in lines
        if line["event"] == "preset.missing"
    ]


async def wait_until_missing(lines: Lines) -> None:
    async def are_logged() -> bool:
        return bool(missing_in(lines))

    await eventually(are_logged)


async def test_missing_items_are_logged_once_after_their_server_was_tried() -> None:
    preset = make_preset(tools=[("s1", "echo"), ("s1", "gone")])
    with capture_logs() as lines:
        async with held(preset=preset) as it:
            before = missing_in(lines)
            it.server.release()
            await wait_until_missing(lines)
            await it.service.discovered()
    assert before == []
    assert missing_in(lines) == [("warning", 'server "s1" does not offer this tool', ["gone"])]


async def test_missing_items_of_a_server_that_is_down_are_logged_and_counted() -> None:
    config = Config(servers={"s1": UNREACHABLE_SERVER}, presets=[WORK])
    with capture_logs() as lines:
        async with running(config=config) as service:
            await wait_until_missing(lines)
            metrics = (await service.http.get("/metrics")).text
    assert "\nmcp_proxy_preset_missing 1.0\n" in metrics
    assert missing_in(lines) == [
        ("warning", "server s1 is unavailable: connection refused", ["echo"])
    ]


async def readiness(service: Service) -> tuple[int, str]:
    response = await service.http.get(READY)
    return response.status_code, response.json()["status"]


async def test_a_replica_is_starting_until_each_server_was_tried() -> None:
    async with held(startup_wait_s=300) as it:
        assert await readiness(it.service) == (503, "starting")
        it.server.release()
        await it.service.discovered()
        assert await readiness(it.service) == (200, "ready")


async def test_a_server_that_does_not_exist_was_tried() -> None:
    async with running(
        config=Config(servers={"s1": UNREACHABLE_SERVER}), startup_wait_s=300
    ) as service:
        assert await readiness(service) == (200, "degraded")


async def test_a_replica_waits_at_most_for_the_configured_time() -> None:
    async with held(startup_wait_s=0.2) as it:

        async def is_over() -> bool:
            return await readiness(it.service) == (200, "degraded")

        await eventually(is_over)


async def test_a_replica_without_servers_is_ready_immediately() -> None:
    async with running(config=Config(), startup_wait_s=300) as service:
        assert await readiness(service) == (200, "ready")


async def test_a_server_that_a_reload_adds_keeps_the_replica_ready() -> None:
    async with running_raw() as server, running_blocked() as later:
        entry = server.entry
        config = Config(servers={"s1": entry}, presets=[WORK])
        async with running(config=config, startup_wait_s=300) as service:
            assert await readiness(service) == (200, "ready")
            both = {"s1": entry, "s2": later.entry}
            write_json(CONFIG_DIR / "mcp.json", {"mcpServers": both})

            async def added() -> bool:
                return await readiness(service) == (200, "degraded")

            await eventually(added)
