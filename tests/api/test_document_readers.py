"""Documents restricted to readers of a tenant: on each entry point, with each way to identify the
caller."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from mcp_tools_proxy.domain.document import Readers
from tests.support.builders import make_document
from tests.support.service import EXECUTE, TOOLS, Envelope, Service, running
from tests.support.tokens import bearer, file_token, token_settings

READERS = Readers(users=frozenset({"ann"}), roles=frozenset({"audit", "größe, 1%"}))
PAYROLL = make_document(
    tenant_id="acme", doc_id="payroll", pages=("Salaries of all.",), readers=READERS
)
OPEN = make_document(tenant_id="acme", doc_id="handbook", pages=("Opening hours.",))
CALLS: dict[str, dict[str, object]] = {
    "read_doc_pages": {"page_start": 1, "page_end": 1},
    "read_doc_metadata": {},
    "doc_local_search": {"query": "salaries"},
    "read_doc_section": {"section_id": "none"},
    "read_chunk_window": {"anchor_chunk_id": "p1-c1"},
    "verify_quote": {"quote": "Salaries of all."},
}


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with running(PAYROLL, OPEN, retrieval_window_url="local") as started:
        yield started


async def called(
    service: Service,
    tool: str = "read_doc_metadata",
    *,
    doc_id: str = "payroll",
    headers: dict[str, str] | None = None,
    **user: object,
) -> Envelope:
    body = {
        "tool_name": tool,
        "arguments": {"doc_id": doc_id, **CALLS[tool]},
        "user": {"tenant_id": "acme", "user_id": "bob", **user},
    }
    response = await service.http.post(EXECUTE, json=body, headers=headers)
    envelope: Envelope = response.json()
    return envelope


def code(envelope: Envelope) -> str:
    return "OK" if envelope["status"] == "ok" else str(envelope["error"]["code"])


@pytest.mark.parametrize("tool", CALLS)
async def test_every_tool_is_limited_to_readers(service: Service, tool: str) -> None:
    assert code(await called(service, tool)) == "ACCESS_DENIED"
    assert code(await called(service, tool, user_id="ann")) in ("OK", "SECTION_NOT_FOUND")
    assert code(await called(service, tool, roles=["x", "audit"])) in ("OK", "SECTION_NOT_FOUND")
    assert code(await called(service, tool, doc_id="handbook")) in ("OK", "SECTION_NOT_FOUND")


async def test_a_refusal_equals_that_for_another_tenants_document(service: Service) -> None:
    own, foreign = await called(service), await called(service, tenant_id="other", user_id="ann")
    assert own["error"] == foreign["error"]
    assert "alaries" not in json.dumps(own)


@pytest.mark.parametrize(
    "header",
    ["audit", "x, audit", "gr%C3%B6%C3%9Fe%2C 1%25", "x,gr%c3%b6%c3%9fe%2c%201%25"],
)
async def test_roles_can_be_sent_in_a_header(service: Service, header: str) -> None:
    headers = {"X-User-Roles": header}
    assert code(await called(service, headers=headers)) == "OK"
    assert code(await called(service, headers={"X-User-Roles": "x"})) == "ACCESS_DENIED"


async def test_roles_of_body_and_header_can_be_in_different_order(service: Service) -> None:
    headers = {"X-User-Roles": "x,audit"}
    assert code(await called(service, headers=headers, roles=["audit", "x", "x"])) == "OK"
    assert code(await called(service, headers=headers, roles=["audit"])) == "FORBIDDEN"


@pytest.mark.parametrize("header", ["a,,b", ",", "%00", "%ff", "x" * 257])
async def test_malformed_roles_are_refused(service: Service, header: str) -> None:
    envelope = await called(service, headers={"X-User-Roles": header})
    assert envelope["error"]["details"] == {"field": "X-User-Roles"}


async def test_an_empty_header_has_no_roles(service: Service) -> None:
    assert code(await called(service, headers={"X-User-Roles": ""})) == "ACCESS_DENIED"


async def test_lists_accept_roles_in_the_query(service: Service) -> None:
    query: Any = [("roles", "audit"), ("roles", "x"), ("tenant_id", "acme")]
    assert (await service.http.get(TOOLS, params=query)).status_code == 200
    contradiction = await service.http.get(TOOLS, params=query, headers={"X-User-Roles": "other"})
    assert contradiction.status_code == 403


@pytest.mark.parametrize("has_caller", [False, True])
async def test_retrieval_is_called_only_for_a_reader_or_receives_the_caller(
    *, has_caller: bool
) -> None:
    received: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        received.append(json.loads(request.content))
        chunk = {"chunk_id": "p1-c1", "page": 1, "chunk_index": 0, "text": "t"}
        return httpx.Response(200, json={"chunks": [chunk]})

    async with running(
        PAYROLL,
        OPEN,
        retrieval_window_url="http://retrieval",
        retrieval_transport=httpx.MockTransport(answer),
        retrieval_send_caller=has_caller,
        mock_mode=False,
    ) as service:
        codes = {
            "reader": code(await called(service, "read_chunk_window", roles=["audit"])),
            "other": code(await called(service, "read_chunk_window")),
            "unknown": code(await called(service, "read_chunk_window", doc_id="elsewhere")),
            "tenant without readers": code(
                await called(service, "read_chunk_window", tenant_id="t", doc_id="elsewhere")
            ),
        }
    assert codes == {
        "reader": "OK",
        "other": "OK" if has_caller else "ACCESS_DENIED",
        "unknown": "OK" if has_caller else "DOCUMENT_NOT_FOUND",
        "tenant without readers": "OK",
    }
    callers = [(it["user_id"], it["roles"]) for it in received if "user_id" in it]
    assert callers == ([("bob", ["audit"]), *[("bob", [])] * 3] if has_caller else [])


async def test_a_refused_reader_is_charged_to_the_tenant_but_not_to_the_document() -> None:
    async with running(PAYROLL, unlimited=False, rate_limit_calls=2) as service:
        refused = [code(await called(service)) for _ in range(5)]
        allowed = [code(await called(service, user_id="ann")) for _ in range(3)]
    assert refused == ["ACCESS_DENIED"] * 5
    assert allowed == ["OK", "OK", "RATE_LIMIT_EXCEEDED"]


async def test_a_removed_reader_gets_no_stored_outcome(service: Service) -> None:
    body = {
        "tool_name": "read_doc_metadata",
        "arguments": {"doc_id": "payroll"},
        "user": {"tenant_id": "acme", "user_id": "bob", "roles": ["audit"]},
        "idempotency_key": "k",
    }
    assert (await service.http.post(EXECUTE, json=body)).json()["status"] == "ok"
    body["user"] = {"tenant_id": "acme", "user_id": "bob"}
    assert code((await service.http.post(EXECUTE, json=body)).json()) == "ACCESS_DENIED"


@pytest.mark.parametrize(
    ("token", "asserted", "expected"),
    [
        ({"roles": ("audit",)}, {}, "OK"),
        ({"roles": ("x",)}, {}, "ACCESS_DENIED"),
        ({"roles": ("x",)}, {"roles": ["audit"]}, "FORBIDDEN"),
        ({"user": "ann"}, {"user_id": "ann"}, "OK"),
        ({"user": "bob"}, {"user_id": "ann"}, "FORBIDDEN"),
        ({}, {"roles": ["audit"]}, "FORBIDDEN"),
        ({"asserts_users": True}, {"roles": ["audit"]}, "OK"),
        ({"asserts_users": True}, {"user_id": "ann"}, "OK"),
        ({"asserts_users": True}, {}, "ACCESS_DENIED"),
    ],
    ids=str,
)
async def test_a_token_proves_its_roles_unless_it_asserts_users(
    token: dict[str, Any], asserted: dict[str, object], expected: str
) -> None:
    headers = bearer(file_token(tenant="acme", **token))
    user = {"user_id": token.get("user", "bob")} | asserted
    async with running(PAYROLL, **token_settings()) as service:
        assert code(await called(service, headers=headers, **user)) == expected
