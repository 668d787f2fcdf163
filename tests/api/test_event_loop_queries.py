"""Queries and headers of up to 64 kB delay no other call."""

import itertools
import string
from collections.abc import Collection, Mapping
from functools import partial

import pytest

from tests.support.configuration import Config, make_preset
from tests.support.loop_turns import in_short_turns
from tests.support.mcp_servers.raw_thread import running_raw_in_thread
from tests.support.service import BATCH, EXECUTE, TOOLS, running

KEYS = [
    "".join(it)
    for it in itertools.islice(itertools.product(string.ascii_letters, repeat=3), 15_000)
]
QUERIES = {
    "distinct keys": "&".join(KEYS),
    "distinct keys with values": "&".join(f"{key}={key}" for key in KEYS[:7_500]),
    "one key": "&".join(["a"] * 30_000),
    "2,900 distinct keys": "&".join(f"{key}={key * 5}" for key in KEYS[:2_900]),
    "roles": "&".join(f"roles={key}" for key in KEYS[:6_000]),
}
ROUTES = (
    *("/internal/mcp/limits", "/internal/mcp/audit", "/internal/mcp/documents", TOOLS),
    *("/internal/documents", "/internal/documents/rights", "/internal/mcp/overview"),
)


@pytest.mark.parametrize("path", ROUTES)
async def test_a_long_query_does_not_block_the_event_loop(path: str) -> None:
    async with running() as service:
        await service.http.get(path)  # first imports and caches
        for query in QUERIES.values():
            request = partial(service.http.get, f"{path}?{query}")
            assert (await in_short_turns(request)).status_code < 500


HEADERS: Mapping[str, Mapping[str, str]] = {
    "roles": {"X-User-Roles": ",".join(KEYS)},
    "documents": {"X-Documents": ",".join(KEYS)},
    "proxies": {"X-Forwarded-For": "127.0.0.1," * 6_000},
    "media types": {"Accept": "a/b;q=1," * 7_500},
}


@pytest.mark.parametrize("name", HEADERS)
async def test_a_long_header_does_not_block_the_event_loop(name: str) -> None:
    async with running(trusted_proxies=("127.0.0.0/8",)) as service:
        await service.http.post(EXECUTE, json={})
        for path in (EXECUTE, "/mcp"):
            request = partial(service.http.post, path, json={}, headers=HEADERS[name])
            assert (await in_short_turns(request)).status_code < 500


@pytest.mark.parametrize("path", [TOOLS, "/internal/mcp/documents"])
async def test_a_request_with_over_1000_roles_is_refused(path: str) -> None:
    roles = KEYS[:1_001]
    query = {"tenant_id": "tenant_1"}
    async with running() as service:
        sent = {"X-User-Roles": ",".join(roles)}
        by_header = await service.http.get(path, params=query, headers=sent)
        by_query = await service.http.get(path, params={**query, "roles": roles})
        just_as_many = await service.http.get(path, params={**query, "roles": roles[1:]})
    assert by_header.json()["error"]["details"] == {"field": "X-User-Roles"}
    assert by_query.json()["error"]["details"] == {"field": "roles"}
    assert just_as_many.is_success


async def test_a_description_of_all_routes_does_not_block_the_event_loop() -> None:
    async def describe() -> Collection[str]:
        async with running() as service:
            paths: Collection[str] = (await service.http.get("/openapi.json")).json()["paths"]
            return paths

    assert EXECUTE in await in_short_turns(describe)


async def test_metrics_of_many_tools_do_not_block_the_event_loop() -> None:
    names = [f"t{number}" for number in range(700)]
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    async with running_raw_in_thread(only=(), extra={"tools": tools}) as server:
        preset = make_preset(tools=[("raw", name) for name in names])
        config = Config(
            servers={"raw": server.entry}, presets=[preset], more={"defaultPresetId": "work"}
        )
        async with running(config=config) as service:
            for start in range(0, len(names), 32):
                calls = [{"tool_name": f"raw:{it}"} for it in names[start : start + 32]]
                user = {"user_id": "user_1", "tenant_id": "tenant_1"}
                await service.http.post(BATCH, json={"user": user, "calls": calls})
            metrics = await in_short_turns(partial(service.http.get, "/metrics"))
    assert metrics.text.count("mcp_proxy_call_seconds_count{") == len(names)
    assert metrics.text.count("# TYPE mcp_proxy_call_seconds ") == 1


ZEROS = "[" + ",".join(["0"] * 99_000) + "]"
LISTS = {
    "rights": ("POST", "/internal/mcp/tokens", f'{{"rights":{ZEROS}}}'),
    "roles": ("POST", "/internal/mcp/tokens", f'{{"roles":{ZEROS}}}'),
    "scopes": ("POST", "/internal/mcp/logins", f'{{"server_id":"a","scopes":{ZEROS}}}'),
    "readers": ("PUT", "/internal/documents/rights", f'{{"readers":{{"users":{ZEROS}}}}}'),
    "tags": ("PUT", "/internal/documents/facts", f'{{"tags":{ZEROS}}}'),
    "own fields": ("PUT", "/internal/documents/facts", f'{{"metadata":{{"a":{ZEROS}}}}}'),
}


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_of_invalid_values_does_not_block_the_event_loop(name: str) -> None:
    method, path, content = LISTS[name]
    query = {"tenant_id": "tenant_1", "doc_id": "doc_1"}
    sent = {"Content-Type": "application/json", "If-Match": "*"}
    async with running() as service:
        await service.http.request(method, path, params=query, content="{}", headers=sent)
        request = partial(service.http.request, method, path, params=query, headers=sent)
        response = await in_short_turns(partial(request, content=content))
    assert response.status_code in (403, 422)
