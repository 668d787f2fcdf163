"""Presets: listing, switching, and permission to switch (contract §1, §6)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_web import RawServer
from tests.support.service import ACTIVE, CONFIG_DIR, PRESETS, Service, running

TOKEN = "correct-horse-battery"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def config_of(server: RawServer) -> Config:
    """Return two presets; ``work`` is the default and names a missing tool."""
    return Config(
        servers={"s1": server.entry},
        presets=[
            make_preset("work", tools=[("s1", "echo"), ("s1", "gone"), ("s2", "echo")]),
            make_preset("play", tools=[("s1", "whoami")]),
        ],
        more={"defaultPresetId": "work"},
    )


@pytest.fixture
async def service(server: RawServer) -> AsyncIterator[Service]:
    async with running(config=config_of(server)) as started:
        yield started


async def put(
    service: Service, preset_id: object, headers: dict[str, str] | None = None, **more: object
) -> httpx.Response:
    body = {"preset_id": preset_id, **more}
    return await service.http.put(ACTIVE, json=body, headers=headers)


async def test_presets_are_listed_with_the_active_one(service: Service) -> None:
    answer = await service.get(PRESETS)
    presets = sorted(answer["presets"], key=lambda preset: preset["id"])
    assert (presets, answer["active"]) == (
        [{"id": "play", "name": "Preset play"}, {"id": "work", "name": "Preset work"}],
        "work",
    )


@pytest.mark.requirement("P-07")
async def test_the_active_preset_shows_missing_items(service: Service) -> None:
    shown = await service.get(ACTIVE)
    assert shown["preset"] == {"id": "work", "name": "Preset work"}
    assert [(it["server_id"], it["name"], it["reason"]) for it in shown["missing"]] == [
        ("s1", "gone", "not_offered"),
        ("s2", "echo", "no_server"),
    ]


@pytest.mark.requirement("P-13")
async def test_the_active_preset_shows_shadowed_items(server: RawServer) -> None:
    config = Config(
        servers={"a": server.entry, "b": server.entry},
        presets=[make_preset(tools=[("a", "echo"), ("b", "echo")], resources=[])],
    )
    async with running(config=config) as service:
        shadowed = (await service.get(ACTIVE))["shadowed"]
        assert shadowed[0] == {"kind": "prompt", "server_id": "b", "name": "greet", "winner": "a"}


@pytest.mark.requirement("P-17")
async def test_switching_changes_the_view_immediately(service: Service) -> None:
    answer = (await put(service, "play")).json()
    assert (answer, await service.listed()) == (
        {"preset": {"id": "play", "name": "Preset play"}, "missing": []},
        ["s1:whoami"],
    )


@pytest.mark.requirement("P-22", "F-12")
async def test_every_list_shows_the_view_after_a_switch(
    service: Service,
) -> None:
    await service.listed()
    await put(service, "play")
    from_the_tool = (await service.result("list_available_tools"))["tools"]
    remote = [name for name in from_the_tool if ":" in name]
    assert (remote, await service.listed(), await service.code("s1:whoami")) == (
        ["s1:whoami"],
        ["s1:whoami"],
        "OK",
    )


@pytest.mark.requirement("P-18")
async def test_a_tool_of_the_previous_preset_is_refused(service: Service) -> None:
    before = await service.code("s1:echo")
    await put(service, "play")
    assert (before, await service.code("s1:echo")) == ("OK", "TOOL_NOT_ALLOWED")


@pytest.mark.requirement("P-20")
async def test_a_switch_is_saved_as_the_default(service: Service) -> None:
    await put(service, "play")
    assert json.loads((CONFIG_DIR / "mcp.json").read_text())["defaultPresetId"] == "play"


async def test_a_switch_without_persist_leaves_the_file_unchanged(service: Service) -> None:
    before = (CONFIG_DIR / "mcp.json").read_bytes()
    await put(service, "play", persist=False)
    assert ((CONFIG_DIR / "mcp.json").read_bytes(), await service.listed()) == (
        before,
        ["s1:whoami"],
    )


async def test_null_persists(service: Service) -> None:
    await put(service, "play", persist=None)
    assert json.loads((CONFIG_DIR / "mcp.json").read_text())["defaultPresetId"] == "play"


@pytest.mark.parametrize("preset_id", ["nowhere", "../work", "a/b", "x" * 300])
async def test_an_unknown_preset_is_not_found_and_nothing_changes(
    service: Service, preset_id: str
) -> None:
    response = await put(service, preset_id)
    assert (response.status_code, response.json()["error"]["code"], await service.listed()) == (
        404,
        "PRESET_NOT_FOUND",
        ["s1:echo"],
    )


async def test_an_invalid_preset_is_not_found_with_its_problems(service: Service) -> None:
    (CONFIG_DIR / "preset_bad.json").write_text('{"id": "bad", "tools": 1}')
    response = await put(service, "bad")
    error = response.json()["error"]
    assert (response.status_code, error["code"], "problems" in error["details"]) == (
        404,
        "PRESET_NOT_FOUND",
        True,
    )


async def test_a_pinned_preset_cannot_be_switched(server: RawServer) -> None:
    async with running(config=config_of(server), preset="play") as service:
        response = await put(service, "work")
        assert (response.status_code, response.json()["error"]["code"]) == (409, "PRESET_PINNED")
        assert (await service.get(PRESETS))["active"] == "play"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"preset_id": 1}', "preset_id"),
        (b'{"preset_id": ""}', "preset_id"),
        (b"{}", "preset_id"),
        (b'{"preset_id": "play", "persist": "perhaps"}', "persist"),
        (b'{"preset_id": NaN}', "body"),
        (b"[" * 65 + b"]" * 65, "body"),
        (b"[]", "body"),
    ],
)
async def test_the_error_for_a_malformed_choice_names_the_field(
    service: Service, body: bytes, field: str
) -> None:
    response = await service.http.put(ACTIVE, content=body)
    assert (response.status_code, response.json()["error"]["details"]) == (422, {"field": field})


async def test_an_oversized_choice_is_refused(server: RawServer) -> None:
    async with running(config=config_of(server), max_request_bytes=100) as service:
        assert (await put(service, "x" * 100)).status_code == 413


async def test_a_refusal_has_the_trace_id(service: Service) -> None:
    response = await put(service, "nowhere", trace_id="t-1")
    assert (response.json()["trace_id"], response.headers["X-Trace-Id"]) == ("t-1", "t-1")


# Permission to switch


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
async def test_without_a_token_loopback_can_switch(host: str) -> None:
    async with running(config=Config(presets=[make_preset()]), host=host) as service:
        assert (await put(service, "work")).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.example"])  # noqa: S104
async def test_without_a_token_other_addresses_cannot_switch_and_the_error_names_the_setting(
    host: str,
) -> None:
    async with running(config=Config(presets=[make_preset()]), host=host) as service:
        response = await put(service, "work")
        error = response.json()["error"]
        assert (
            response.status_code,
            error["code"],
            "MCP_PROXY_ADMIN_TOKEN" in error["message"],
        ) == (
            403,
            "FORBIDDEN",
            True,
        )


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:3000"])
async def test_without_a_token_no_web_page_can_switch(service: Service, origin: str) -> None:
    """Not even a page of this machine, whose other requests are answered."""
    response = await put(service, "play", {"Origin": origin})
    assert (response.status_code, await service.listed()) == (403, ["s1:echo"])


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104
async def test_with_a_token_its_bearer_can_switch_everywhere(host: str) -> None:
    config = Config(presets=[make_preset()])
    async with running(config=config, host=host, admin_token=TOKEN) as service:
        assert (await put(service, "work", BEARER)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"X-Api-Key": TOKEN},
    ],
)
async def test_a_wrong_or_missing_token_is_unauthenticated(
    headers: dict[str, str],
) -> None:
    async with running(config=Config(presets=[make_preset()]), admin_token=TOKEN) as service:
        response = await put(service, "work", headers)
        assert (
            response.status_code,
            response.json()["error"]["code"],
            response.headers["WWW-Authenticate"].partition(" ")[0],
            TOKEN in response.text,
        ) == (401, "UNAUTHENTICATED", "Bearer", False)


async def test_a_token_that_is_not_ascii_is_invalid() -> None:
    async with running(config=Config(presets=[make_preset()]), admin_token=TOKEN) as service:
        request = service.http.build_request("PUT", ACTIVE, json={"preset_id": "work"})
        request.headers = httpx.Headers(
            [*request.headers.raw, (b"authorization", b"Bearer \xff\xfe")]
        )
        assert (await service.http.send(request)).status_code == 401


async def test_the_sender_is_checked_before_the_choice() -> None:
    async with running(admin_token=TOKEN) as service:
        assert (await service.http.put(ACTIVE, content=b"{")).status_code == 401
        accepted = await service.http.put(ACTIVE, content=b"{", headers=BEARER)
        assert accepted.status_code == 422


async def test_an_unwritable_folder_is_reported_and_nothing_changes(
    service: Service,
) -> None:
    (CONFIG_DIR / "mcp.json").unlink()
    (CONFIG_DIR / "mcp.json").mkdir()  # even root cannot write a file here
    response = await put(service, "play")
    assert (response.status_code, response.json()["error"]["code"]) == (409, "CONFIG_READ_ONLY")


async def test_a_switch_without_a_folder_asks_to_create_it(tmp_path: Path) -> None:
    async with running(config_dir=tmp_path / "nowhere", admin_token=TOKEN) as service:
        error = (await put(service, "__empty__", BEARER)).json()["error"]
    assert (error["code"], "does not exist; create it" in error["message"]) == (
        "CONFIG_READ_ONLY",
        True,
    )


async def test_without_a_configuration_the_empty_preset_is_active(tmp_path: Path) -> None:
    async with running(config_dir=tmp_path / "nowhere") as service:
        assert await service.get(PRESETS) == {"presets": [], "active": "__empty__"}
