"""list_documents and GET /internal/mcp/documents: only documents that the caller may read."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.documents.document_file import document_path, write_document
from mcp_tools_proxy.domain.caller import NO_TENANT, Call, Caller
from mcp_tools_proxy.domain.document import Document, Readers
from mcp_tools_proxy.domain.outcome import Failed
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_agent
from tests.support.service import CONFIG_DIR, EXECUTE, Envelope, Service, eventually, running
from tests.support.tokens import bearer, file_token, token_settings

LIST = "list_documents"
ROUTE = "/internal/mcp/documents"
ADMIN = "correct-horse-battery"
PAYROLL = make_document(
    tenant_id="acme",
    doc_id="payroll",
    title="Salaries",
    readers=Readers(users=frozenset({"ann"}), roles=frozenset({"audit"})),
)
DOCUMENTS = (
    make_document(tenant_id="acme", doc_id="größe, 1%", title="Größen", tags=("Maße",)),
    make_document(tenant_id="acme", doc_id="handbook", title="Handbook", pages=("a", "b")),
    PAYROLL,
    make_document(tenant_id="other", doc_id="theirs", title="Merger"),
)
OPEN = ["größe, 1%", "handbook"]


@pytest.fixture(scope="module")
async def service(shared_settings: dict[str, Any]) -> AsyncIterator[Service]:
    async with running(*DOCUMENTS, **shared_settings) as started:
        yield started


async def called(
    service: Service,
    arguments: Mapping[str, object] | None = None,
    *,
    user_id: str = "bob",
    tenant_id: str = "acme",
    roles: list[str] | None = None,
    headers: dict[str, str] | None = None,
    **more: object,
) -> Envelope:
    user = {"tenant_id": tenant_id, "user_id": user_id, "roles": roles or []}
    body = {"tool_name": LIST, "arguments": arguments or {}, "user": user, **more}
    response = await service.http.post(EXECUTE, json=body, headers=headers)
    envelope: Envelope = response.json()
    return envelope


def ids(envelope: Envelope) -> list[str]:
    listed = envelope.get("result", envelope)
    assert listed["count"] == len(listed["documents"])
    return [it["doc_id"] for it in listed["documents"]]


async def got(service: Service, **query: Any) -> Envelope:
    params = {"tenant_id": "acme", "user_id": "bob", **query}
    envelope: Envelope = (await service.http.get(ROUTE, params=params)).json()
    return envelope


@pytest.mark.parametrize("hide", [False, True])
async def test_a_list_has_only_readable_documents(*, hide: bool) -> None:
    async with running(*DOCUMENTS, hide_foreign_documents=hide) as service:
        bob = await called(service)
        assert ids(bob) == OPEN
        assert not {"payroll", "Salaries", "theirs", "Merger"} & set(json.dumps(bob).split('"'))
        assert ids(await called(service, user_id="ann")) == [*OPEN, "payroll"]
        assert ids(await called(service, roles=["audit"])) == [*OPEN, "payroll"]
        assert ids(await called(service, tenant_id="other")) == ["theirs"]
        assert ids(await called(service, {"query": "salaries"})) == []
        assert ids(await called(service, {"query": "salaries"}, user_id="ann")) == ["payroll"]


async def test_the_route_lists_like_the_tool(service: Service) -> None:
    tool, route = await called(service), await got(service)
    assert route == tool["result"]
    assert ids(await got(service, user_id="ann", tag="MASSE", limit="1")) == ["größe, 1%"]
    assert ids(await got(service, roles=["x", "audit"])) == [*OPEN, "payroll"]
    assert ids(await got(service, documents=["handbook", "payroll"])) == ["handbook"]
    response = await service.http.get(ROUTE, params={"user_id": "u"})
    assert (response.status_code, response.json()["error"]["details"]) == (
        422,
        {"field": "tenant_id"},
    )
    refused = await got(service, cursor="garbage")
    assert refused["error"]["code"] == "INVALID_ARGUMENTS"
    twice = await service.http.get(f"{ROUTE}?tenant_id=acme&tenant_id=other")
    assert twice.json()["error"]["code"] == "INVALID_REQUEST"


async def test_an_entry_has_title_pages_tags_language_and_time() -> None:
    document = make_document(tenant_id="acme", title="T" * 400, tags=["t" * 200] * 30)
    async with running(replace(document, language="de")) as service:
        (entry,) = (await called(service))["result"]["documents"]
        shown = entry.pop("updated")
        assert (len(shown), shown[-1]) == (len("2026-11-26T03:04:05Z"), "Z")
        assert entry == {
            "doc_id": "doc",
            "title": "T" * 300,
            "pages": 1,
            "tags": ["t" * 100] * 20,
            "language": "de",
        }


async def test_only_bound_documents_are_listed() -> None:
    Config(agents=[make_agent(documents=["handbook", "payroll"])]).write(CONFIG_DIR)
    settings: dict[str, Any] = {"require_agent": False}
    async with running(*DOCUMENTS, **settings) as service:
        assert ids(await called(service, documents=["handbook", "theirs"])) == ["handbook"]
        assert ids(await called(service, documents=[])) == []
        assert ids(await called(service, headers={"X-Documents": "payroll"})) == []
        assert ids(await called(service, agent="reader")) == ["handbook"]
        assert ids(await called(service, agent="reader", user_id="ann")) == ["handbook", "payroll"]
        assert ids(await called(service, agent="reader", documents=[OPEN[0]])) == []


async def test_the_user_and_documents_of_a_token_apply() -> None:
    token = file_token(tenant="acme", user="ann", documents=("payroll", "handbook"))
    async with running(*DOCUMENTS, **token_settings()) as service:
        response = await service.http.get(ROUTE, headers=bearer(token))
        assert ids(response.json()) == ["handbook", "payroll"]
        assert (await service.http.get(ROUTE)).status_code == 401


@pytest.mark.parametrize("limit", [1, 7, 50])
async def test_pages_of_a_list_have_every_document_once(limit: int) -> None:
    made = [make_document(tenant_id="acme", doc_id=f"d {n:02} ä%/") for n in range(60)]
    async with running(*made) as service:
        seen: list[str] = []
        cursor: dict[str, object] = {}
        while True:
            result = (await called(service, {"limit": limit, **cursor}))["result"]
            seen += [it["doc_id"] for it in result["documents"]]
            if "next_cursor" not in result:
                break
            cursor = {"cursor": result["next_cursor"]}
        assert seen == [document.doc_id for document in made]
        assert len(ids(await called(service))) == 20
        assert len(ids(await called(service, {"limit": "500"}))) == 50


async def test_an_answer_is_at_most_one_text_long_and_has_a_cursor() -> None:
    made = [make_document(tenant_id="acme", doc_id=f"{n:03}", title="x" * 300) for n in range(9)]
    async with running(*made, max_text_bytes=1000) as service:
        first = (await called(service))["result"]
        assert [it["doc_id"] for it in first["documents"]] == ["000", "001"]
        assert ids(await called(service, {"cursor": first["next_cursor"]})) == ["002", "003"]


@pytest.mark.parametrize("cursor", ["", "x", "aGFuZGJvb2s", "=", "é", "A" * 3000, 7, "/+", "a" * 9])
async def test_an_invalid_cursor_is_refused(service: Service, cursor: object) -> None:
    error = (await called(service, {"cursor": cursor}))["error"]
    assert (error["code"], error["details"]) == (
        "INVALID_ARGUMENTS",
        {"arguments": ["cursor"]},
    )


@pytest.mark.parametrize("arguments", [{"limit": 0}, {"limit": "x"}, {"doc_id": "a"}, {"tag": 1}])
async def test_invalid_arguments_are_refused(
    service: Service, arguments: dict[str, object]
) -> None:
    assert (await called(service, arguments))["error"]["code"] == "INVALID_ARGUMENTS"


async def test_a_list_is_charged_only_to_the_tenant() -> None:
    settings: dict[str, Any] = {"rate_limit_tenant_calls": 2, "rate_limit_calls": 1}
    async with running(*DOCUMENTS, **settings) as service:
        response = await service.http.get(ROUTE, params={"tenant_id": "acme"})
        assert response.headers["RateLimit"].startswith('"tenant_calls"')
        codes = [(await called(service))["status"] for _ in range(2)]
        refused = await got(service)
        assert (codes, refused["error"]["details"]["budget"]) == (["ok", "error"], "tenant_calls")
        assert (await called(service, tenant_id="other"))["status"] == "ok"


async def test_a_profile_can_exclude_lists() -> None:
    Config(agents=[make_agent(exclude=[LIST])]).write(CONFIG_DIR)
    async with running(*DOCUMENTS) as service:
        by_tool, by_route = (
            await called(service, agent="reader"),
            await got(service, agent="reader"),
        )
        assert by_tool["error"]["code"] == by_route["error"]["code"] == "TOOL_NOT_ALLOWED"


async def test_without_a_tenant_nothing_is_listed(service: Service) -> None:
    call = Call(name=LIST, caller=Caller(tenant_id=NO_TENANT, user_id=""), trace_id="t")
    outcome = await service.gateway.executor.execute(call)
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "TOOL_NOT_ALLOWED"


async def test_a_record_names_the_tool_and_the_route_but_no_document(service: Service) -> None:
    with capture_logs() as lines:
        await got(service, query="handbook", agent="")
        await got(service, query="handbook")
    (record,) = [line for line in lines if line["event"] == "tool.call"]
    assert (record["tool"], record["route"], record["arguments"]) == (
        LIST,
        f"GET {ROUTE}",
        ["query"],
    )
    assert "handbook" not in json.dumps(record)
    metrics = (await service.http.get("/metrics")).text
    assert f'tool="{LIST}"' in metrics


async def test_an_explanation_is_allowed_and_names_no_documents_budget() -> None:
    settings: dict[str, Any] = {
        "admin_token": ADMIN,
        "rate_limit_calls": 9,
        "rate_limit_tenant_calls": 9,
    }
    async with running(*DOCUMENTS, **settings) as service:
        body = {"tool_name": LIST, "user": {"tenant_id": "acme", "user_id": "bob"}}
        response = await service.http.post(
            "/internal/mcp/explain", json=body, headers={"Authorization": f"Bearer {ADMIN}"}
        )
        explained = response.json()
        assert (explained["decision"], explained["sends"]) == (
            "pass",
            {"to": "documents", "arguments": []},
        )
        assert [budget["name"] for budget in explained["budgets"]] == ["tenant_calls"]


async def test_the_list_of_a_folder_follows_its_files() -> None:
    folder = Path("documents")
    for number in range(4):
        write_document(folder, filed(f"d{number}"), replace=False)
    async with running(documents_path=folder) as service:
        first = (await called(service, {"limit": 2}))["result"]
        document_path(folder, "acme", "d1").unlink()
        write_document(folder, filed("d15"), replace=False)

        async def is_known() -> bool:
            return ids(await called(service)) == ["d0", "d15", "d2", "d3"]

        await eventually(is_known)
        assert ids(await called(service, {"cursor": first["next_cursor"]})) == ["d15", "d2", "d3"]


def filed(doc_id: str) -> Document:
    return make_document(tenant_id="acme", doc_id=doc_id)
