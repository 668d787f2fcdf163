"""``details.field`` of an error is a field name or path, never prose."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.api.document_operator import ADMIN, CONTENT, DOC, LIST, NEW, RIGHTS, Operator, operated
from tests.support.service import ACTIVE, BATCH, EXECUTE, TOOLS
from tests.support.tokens import bearer

PATH = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
USER = {"user_id": "u", "tenant_id": "acme"}
CALL = {"tool_name": "read_doc_metadata", "arguments": {}, "user": USER}
PAGE = {**DOC, "title": "t", "pages": ["x"]}


def as_bytes(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


@pytest.fixture(scope="module")
async def operator(shared_settings: dict[str, Any]) -> AsyncIterator[Operator]:
    async with operated(**shared_settings) as started:
        yield started


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", "body"),
        (b"NaN", "body"),
        (b'{"title": "\xff"}', "body"),
        (b"[" * 100_000, "body"),
        (b'{"pages": [' + b"0," * 1_000_000 + b"0]}", "body"),
        ([1], "body"),
        (b'{"title": "t", "title": "u"}', "title"),
        (b'{"sections": [{"a": 1, "a": 2}]}', "sections.0.a"),
        ({**DOC, "pages": ["x"]}, "title"),
        ({**PAGE, "pages": "x"}, "pages"),
        ({**PAGE, "pages": ["x", 5]}, "pages.1"),
        ({**PAGE, "readers": None}, "body"),
        ({**PAGE, "readers": {"users": [1]}}, "readers.users.0"),
        ({**PAGE, "raeders": {}}, "body"),
        ({**PAGE, "tenant_id": "globex"}, "doc_id"),
    ],
)  # fmt: skip
async def test_the_field_of_a_refused_document(operator: Operator, body: Any, field: str) -> None:
    headers = {"Content-Type": "application/json"} | NEW
    refused = await operator.send("PUT", CONTENT, DOC, as_bytes(body), **headers)
    assert refused.json()["error"]["code"] == "INVALID_REQUEST"
    assert refused.json()["error"]["details"]["field"] == field


@pytest.mark.parametrize(
    ("path", "headers", "field"),
    [
        (TOOLS, {"Host": "evil.example"}, "Host"),
        (TOOLS, {"Origin": "https://evil.example"}, "Origin"),
        (TOOLS, {"Host": "evil.example", "Origin": "https://evil.example"}, "Host"),
        (TOOLS, {"X-Tenant-Id": "\u00ff" * 300}, "X-Tenant-Id"),
        (f"{TOOLS}?tenant_id=a&tenant_id=b", {}, "tenant_id"),
        (f"{TOOLS}?name_style=odd", {}, "name_style"),
        ("/internal/mcp/audit?limit=x", {}, "limit"),
        (f"{LIST}?cursor=odd&tenant_id=acme", {}, "cursor"),
        ("/internal/mcp/limits?user_id=u", {}, "tenant_id"),
    ],
)
async def test_the_field_of_a_refused_request(
    operator: Operator, path: str, headers: dict[str, str], field: str
) -> None:
    sent = httpx.Headers({**bearer(ADMIN), **headers}, encoding="latin-1")
    answered = await operator.service.http.get(path, headers=sent)
    assert answered.json()["error"]["details"]["field"] == field


OWN_KEY = "a key: of the caller's own"
BODIES: list[Any] = [
    b"{", b"NaN", b"[1]", b'{"user": {"user_id": "u", "user_id": "v"}}', b"[" * 1_000, {},
    {"user": 5}, {"user": {"user_id": 5}}, {"user": {"user_id": "u", "roles": "x"}}, {OWN_KEY: 1},
    {**CALL, "arguments": []}, {**CALL, "idempotency_key": "a b"}, {**CALL, "user": {}},
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", EXECUTE),
        ("POST", BATCH),
        ("POST", "/internal/mcp/explain"),
        ("POST", "/internal/mcp/prompts/get"),
        ("POST", "/internal/mcp/resources/read"),
        ("POST", "/internal/mcp/try"),
        ("POST", "/internal/mcp/tokens"),
        ("PUT", "/internal/mcp/log-level"),
        ("PUT", ACTIVE),
        ("PUT", f"{RIGHTS}?tenant_id=acme&doc_id=d"),
    ],
)
async def test_the_field_of_a_refused_body(operator: Operator, method: str, path: str) -> None:
    for body in BODIES:
        answered = await operator.service.http.request(
            method, path, content=as_bytes(body), headers=bearer(ADMIN)
        )
        details = answered.json().get("error", {}).get("details") or {}
        found = details.get("field", "body")
        assert found == OWN_KEY or PATH.fullmatch(found), body


@pytest.mark.parametrize(
    "calls",
    [[{"agent": "a"}], [5], "x", [{"type": "function"}], [{"tool_name": 5}], [{}] * 1_000],
    ids=lambda it: json.dumps(it)[:30],
)  # fmt: skip
async def test_the_field_of_a_refused_batch(operator: Operator, calls: Any) -> None:
    answered = await operator.service.http.post(BATCH, json={"calls": calls, "user": USER})
    assert PATH.fullmatch(answered.json()["error"]["details"]["field"])
