"""Request bodies: strict JSON within limits."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.captured_logs import capture_logs
from tests.support.service import BATCH, EXECUTE, Service, request_of, running

LIMIT = 1000


@pytest.fixture(scope="module")
async def service(shared_settings: dict[str, Any]) -> AsyncIterator[Service]:
    async with running(max_request_bytes=LIMIT, **shared_settings) as started:
        yield started


async def status_and_code(service: Service, content: bytes) -> tuple[int, str]:
    response = await service.http.post(EXECUTE, content=content)
    return response.status_code, response.json().get("error", {}).get("code", "OK")


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e400}',
        b'{"a": [-1E+999]}',
        b'{"a": "\\ud800"}',
        b'{"a": "\xff"}',
        b"\xef\xbb\xbf{}",
        b"{'a': 1}",
        b'{"a": 1} trailing',
        b'{"a": ' + b"1" * 5000 + b"}",
        nested(500),
        '{"a": 1}'.encode("utf-16"),
    ],
)
async def test_anything_but_a_strict_json_object_is_refused(
    service: Service, content: bytes
) -> None:
    assert await status_and_code(service, content[:LIMIT]) == (422, "INVALID_REQUEST")


def body_of_depth(depth: int) -> bytes:
    body = b'{"tool_name": "nope", "user": {"user_id": "u", "tenant_id": "t"}, "arguments": {"a": '
    return body + nested(depth - 2) + b"}}"


async def test_64_levels_are_accepted(service: Service) -> None:
    assert await status_and_code(service, body_of_depth(64)) == (200, "TOOL_NOT_FOUND")


async def test_65_levels_are_refused(service: Service) -> None:
    assert await status_and_code(service, body_of_depth(65)) == (422, "INVALID_REQUEST")


async def test_many_shallow_lists_are_accepted(service: Service) -> None:
    lists = b", ".join([b"[]"] * 100)
    body = body_of_depth(3).replace(b"[]", b"[" + lists + b"]")
    assert await status_and_code(service, body) == (200, "TOOL_NOT_FOUND")


def padded_to(size: int) -> bytes:
    body = b'{"tool_name": "nope", "user": {"user_id": "u", "tenant_id": "t"}}'
    return body + b" " * (size - len(body))


async def test_a_body_of_the_maximum_size_is_accepted(service: Service) -> None:
    assert await status_and_code(service, padded_to(LIMIT)) == (200, "TOOL_NOT_FOUND")


async def test_a_body_over_the_limit_is_refused(service: Service) -> None:
    assert await status_and_code(service, padded_to(LIMIT + 1)) == (413, "PAYLOAD_TOO_LARGE")


async def test_chunks_of_a_body_are_counted_together(service: Service) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 20

    response = await service.http.post(EXECUTE, content=chunks())
    assert response.status_code == 413


async def test_a_chunked_body_within_the_limit_is_accepted(service: Service) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for byte in padded_to(100):
            yield bytes([byte])

    response = await service.http.post(EXECUTE, content=chunks())
    assert response.json()["error"]["code"] == "TOOL_NOT_FOUND"


async def test_the_content_type_does_not_matter(service: Service) -> None:
    response = await service.http.post(
        EXECUTE, content=padded_to(100), headers={"Content-Type": "text/plain"}
    )
    assert response.json()["error"]["code"] == "TOOL_NOT_FOUND"


async def test_a_large_valid_body_is_answered() -> None:
    async with running() as service:
        body = request_of("list_available_tools", {"format": "y" * 900_000})
        response = await service.http.post(EXECUTE, json=body)
        assert response.json()["error"]["code"] == "INVALID_ARGUMENTS"


@pytest.mark.parametrize("key", ["calls", "roles"])
async def test_a_long_invalid_list_is_refused_at_its_first_entry(key: str) -> None:
    async with running() as service:
        user: dict[str, object] = {"user_id": "u", "tenant_id": "t"}
        nonsense = [0] * 300_000
        body: dict[str, object] = {"tool_name": "x", "calls": nonsense, "user": user}
        if key == "roles":
            user["roles"] = nonsense
            body["calls"] = [{"tool_name": "x"}]
        response = await service.http.post(BATCH, json=body)
        assert response.status_code == 422


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('"tool_name"', '"tool_name": "x", "tool_name"', "tool_name"),
        ('"tenant_id"', '"tenant_id": "tenant_2", "tenant_id"', "user.tenant_id"),
        ('"doc_id"', '"doc_id": "doc_2", "doc_id"', "arguments.doc_id"),
        ('"doc_id"', '"a": [1, {"b": 1, "b": 1}], "doc_id"', "arguments.a.1.b"),
        ('"doc_id"', '"\\u0064oc_id": "doc_2", "doc_id"', "arguments.doc_id"),
    ],
)
async def test_a_duplicate_key_is_refused_with_its_place(
    service: Service, old: str, new: str, field: str
) -> None:
    """An earlier inspection may have used the other value."""
    body = json.dumps(request_of("read_doc_metadata", {"doc_id": "doc_1"})).replace(old, new, 1)
    response = await service.http.post(EXECUTE, content=body.encode())
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["details"]) == (
        422,
        "INVALID_REQUEST",
        {"field": field},
    )


async def test_among_many_keys_the_duplicate_is_not_named() -> None:
    """The search took longer than other calls may wait."""
    body = json.dumps(request_of("nope", {f"k{number}": 1 for number in range(11_000)}))
    content = body.replace('"k7"', '"k7": 2, "k7"').encode()
    async with running() as service:
        error = (await service.http.post(EXECUTE, content=content)).json()["error"]
    assert (error["code"], error["message"], error["details"]) == (
        "INVALID_REQUEST",
        "an object in the body has the same key twice; keep one of them",
        {"field": "body"},
    )


@pytest.mark.parametrize("more", [0, 1])
async def test_a_body_can_have_exactly_the_maximum_number_of_values(more: int) -> None:
    async with running(max_json_items=100) as service:
        body = request_of("nope", {"a": [{"x": "1,2,[{"}] * 46 + [[]] * (1 + more)})
        response = await service.http.post(EXECUTE, json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (
        (422, "INVALID_REQUEST") if more else (200, "TOOL_NOT_FOUND")
    )


async def test_an_endless_list_is_refused_by_its_number_of_values(service: Service) -> None:
    async with running() as service:
        body = request_of("list_available_tools", {"a": [0] * 300_000})
        error = (await service.http.post(EXECUTE, json=body)).json()["error"]
    assert (error["code"], error["details"]) == (
        "INVALID_REQUEST",
        {"field": "body", "max_json_items": 100_000},
    )


async def test_some_of_many_unknown_arguments_are_named_and_declared_ones_are_accepted() -> None:
    async with running() as service:
        arguments = {f"k{n}": 1 for n in range(80_000)} | {"doc_id": True}
        error = (await service.execute("read_doc_metadata", arguments))["error"]
    assert (error["code"], "doc_id" in error["details"]["arguments"]) == ("INVALID_ARGUMENTS", True)
    assert len(error["message"]) < 2000


async def test_brackets_in_strings_do_not_count_as_levels(service: Service) -> None:
    body = body_of_depth(3).replace(b"[]", b'"' + b'[{\\"' * 100 + b'"')
    assert await status_and_code(service, body) == (200, "TOOL_NOT_FOUND")


async def test_a_refused_request_is_logged(service: Service) -> None:
    with capture_logs() as lines:
        await service.http.post(EXECUTE, content=b"{", headers={"X-Trace-Id": "t-1"})
    assert [(line["event"], line["trace_id"], line["code"]) for line in lines] == [
        ("request.refused", "t-1", "INVALID_REQUEST")
    ]


async def test_a_refused_request_is_counted() -> None:
    async with running(max_request_bytes=LIMIT) as fresh:
        await fresh.http.post(EXECUTE, content=b" " * (LIMIT + 1))
        exposition = (await fresh.http.get("/metrics")).text
    assert 'mcp_proxy_requests_refused_total{code="PAYLOAD_TOO_LARGE"} 1.0' in exposition


async def test_an_oversized_body_closes_the_connection(service: Service) -> None:
    response = await service.http.post(EXECUTE, content=b" " * (LIMIT + 1))
    assert response.headers["Connection"] == "close"
