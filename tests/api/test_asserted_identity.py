"""Unverified caller identity in body, query and headers."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.builders import make_document
from tests.support.configuration import Config, Json, make_agent, make_preset
from tests.support.service import EXECUTE, TOOLS, Service, running

READ = {"tool_name": "read_doc_metadata", "arguments": {"doc_id": "doc"}}
USER = {"user_id": "u", "tenant_id": "acme"}
HEADERS = {"X-Tenant-Id": "acme", "X-User-Id": "u"}


@pytest.fixture(scope="module")
async def service(shared_settings: Json) -> AsyncIterator[Service]:
    config = Config(
        presets=[make_preset()],
        agents=[make_agent("reader"), make_agent("blind", exclude=["read_doc_metadata"])],
    )
    document = make_document(tenant_id="acme")
    async with running(document, config=config, require_agent=False, **shared_settings) as started:
        yield started


async def read(
    service: Service, headers: dict[str, str] | list[tuple[bytes, bytes]] | None, **fields: object
) -> httpx.Response:
    return await service.http.post(EXECUTE, json={**READ, **fields}, headers=headers)


def outcome_of(response: httpx.Response) -> tuple[int, str, object]:
    body = response.json()
    if body["status"] == "ok":
        return response.status_code, "OK", None
    error = body["error"]
    return response.status_code, error["code"], error.get("details", {}).get("field")


@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        (HEADERS, {}),
        (HEADERS, {"user": None}),
        (HEADERS, {"user": {}}),
        (HEADERS, {"user": USER}),
        ({"X-Tenant-Id": "acme"}, {"user": {"user_id": "u"}}),
        ({"X-User-Id": "u"}, {"user": {"tenant_id": "acme", "user_id": None}}),
        ({"X-Agent-Id": "reader"}, {"user": USER, "agent": "reader"}),
        ({"X-Tenant-Id": "acme \t"}, {"user": USER}),
    ],
)
async def test_body_and_headers_complete_each_other(
    service: Service, headers: dict[str, str], fields: dict[str, object]
) -> None:
    assert outcome_of(await read(service, headers, **fields)) == (200, "OK", None)


@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        ({"X-Tenant-Id": "rival"}, {"user": USER}),
        ({"X-User-Id": "v"}, {"user": USER}),
        ({"X-Agent-Id": "reader"}, {"user": USER, "agent": "blind"}),
    ],
)
async def test_different_values_in_body_and_headers_are_forbidden(
    service: Service, headers: dict[str, str], fields: dict[str, object]
) -> None:
    assert outcome_of(await read(service, headers, **fields)) == (403, "FORBIDDEN", None)


@pytest.mark.parametrize(
    ("headers", "fields", "field"),
    [
        ({}, {}, "user"),
        ({}, {"user": {}}, "user.tenant_id"),
        ({"X-Tenant-Id": "acme"}, {}, "user.user_id"),
        ({"X-User-Id": "u"}, {}, "user.tenant_id"),
        ({}, {"user": {"tenant_id": "acme"}}, "user.user_id"),
    ],
)
async def test_the_error_names_a_missing_identity_field(
    service: Service, headers: dict[str, str], fields: dict[str, object], field: str
) -> None:
    assert outcome_of(await read(service, headers, **fields)) == (422, "INVALID_REQUEST", field)


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ([(b"X-Tenant-Id", b"acme"), (b"X-Tenant-Id", b"acme")], "X-Tenant-Id"),
        ([(b"X-User-Id", b"")], "X-User-Id"),
        ([(b"X-Agent-Id", b"x" * 257)], "X-Agent-Id"),
        ([(b"X-Tenant-Id", b"\xff")], "X-Tenant-Id"),
        ([(b"Authorization", b"Bearer a"), (b"Authorization", b"Bearer b")], "Authorization"),
    ],
)
async def test_the_error_names_a_header_that_is_not_an_identifier(
    service: Service, headers: list[tuple[bytes, bytes]], field: str
) -> None:
    assert outcome_of(await read(service, headers, user=USER)) == (422, "INVALID_REQUEST", field)


async def test_a_tenant_in_any_script_can_be_sent_in_a_header() -> None:
    async with running(make_document(tenant_id="ООО")) as service:
        raw = [(b"X-Tenant-Id", "ООО".encode()), (b"X-User-Id", b"u")]
        assert (await read(service, raw)).json()["result"]["tenant_id"] == "ООО"


@pytest.mark.parametrize("by", ["query", "header"])
async def test_the_list_is_for_the_agent_in_header_or_query(service: Service, by: str) -> None:
    listed = {}
    for agent in ("reader", "blind"):
        query = {"agent": agent} if by == "query" else {}
        headers = {"X-Agent-Id": agent} if by == "header" else {}
        response = await service.http.get(TOOLS, params=query, headers=headers)
        listed[agent] = {tool["name"] for tool in response.json()["tools"]}
    assert listed["reader"] - listed["blind"] == {"read_doc_metadata"}


@pytest.mark.parametrize(
    ("header", "parameter"),
    [("X-Tenant-Id", "tenant_id"), ("X-User-Id", "user_id"), ("X-Agent-Id", "agent")],
)
async def test_different_values_in_query_and_header_are_forbidden(
    service: Service, header: str, parameter: str
) -> None:
    response = await service.http.get(TOOLS, params={parameter: "a"}, headers={header: "b"})
    assert outcome_of(response) == (403, "FORBIDDEN", None)


async def test_a_token_is_ignored_without_authentication(service: Service) -> None:
    response = await read(service, {"Authorization": "Bearer whatever"}, user=USER)
    assert outcome_of(response) == (200, "OK", None)
