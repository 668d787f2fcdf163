"""Filters of search_documents and list_documents: two tenants, with readers, in both stores."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.document_operator import LIST, Operator, operated, outcome
from tests.support.bounds import BOUND_S
from tests.support.postgres_databases import Databases
from tests.support.service import EXECUTE, eventually

FACTS: dict[str, dict[str, Any]] = {
    "plan": {"tags": ["hr"], "language": "en", "date": "2027-01-31", "metadata": {"year": 2027}},
    "old plan": {"tags": ["hr", "old"], "date": "2020-01-31", "metadata": {"year": 2020}},
    "secret plan": {
        "tags": ["hr"],
        "language": "en",
        "date": "2027-01-31",
        "metadata": {"year": 2027},
        "readers": {"users": ["ann"], "roles": ["audit"]},
    },
    "expired plan": {
        "tags": ["hr"],
        "language": "en",
        "date": "2027-01-31",
        "metadata": {"year": 2027},
        "expires_at": "2020-01-01T00:00:00Z",
    },
    "other": {"tags": ["law"], "metadata": {"year": "2027"}},
}
READABLE = "/internal/mcp/documents"
TENANTS = ("acme", "globex")
CALLERS: dict[str, dict[str, Any]] = {
    "bob": {"user_id": "bob"},
    "ann": {"user_id": "ann"},
    "auditor": {"user_id": "bob", "roles": ["audit"]},
}
FILTERS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "none": ({}, {"plan", "old plan", "secret plan", "other"}),
    "tag": ({"tags": {"any": ["HR"]}}, {"plan", "old plan", "secret plan"}),
    "without a tag": ({"tags": {"not": ["old", "law"]}}, {"plan", "secret plan"}),
    "all tags": ({"tags": {"all": ["hr", "old"]}}, {"old plan"}),
    "language": ({"language": "en"}, {"plan", "secret plan"}),
    "date": ({"date": {"from": "2027-01-01"}}, {"plan", "secret plan"}),
    "own field": ({"metadata": {"year": [2027]}}, {"plan", "secret plan", "other"}),
    "range": ({"metadata": {"year": {"min": 2021}}}, {"plan", "secret plan"}),
    "no match": ({"metadata": {"year": 1}}, set()),
}


@pytest.fixture(scope="module", params=["folder", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["copies", "different texts"])
def text(request: pytest.FixtureRequest) -> str:
    return "A certificate of {}." if request.param == "copies" else "A certificate of {}: {}."


@pytest.fixture
async def operator(store: str, text: str, databases: Databases) -> AsyncIterator[Operator]:
    settings: dict[str, object] = {}
    if store == "postgres":
        settings |= {"documents_url": (await databases.new()).url, "documents_timeout": BOUND_S}
    async with operated(mock_mode=False, **settings) as made:
        for tenant in TENANTS:
            for doc_id, facts in FACTS.items():
                query = {"tenant_id": tenant, "doc_id": doc_id}
                content = text.format(tenant, doc_id)
                assert (await made.put_json(content, query, more=facts)).status_code == 201
        yield made


async def result(
    operator: Operator, tool: str, arguments: dict[str, Any], user: dict[str, Any]
) -> Any:
    body = {"tool_name": tool, "arguments": arguments, "user": user}
    envelope = (await operator.service.http.post(EXECUTE, json=body)).json()
    return envelope.get("result") or envelope["error"]


async def indexed(operator: Operator, user: dict[str, Any]) -> None:
    async def is_indexed() -> bool:
        found = await result(operator, "search_documents", {"query": "certificate"}, user)
        return "indexing" not in found

    await eventually(is_indexed)


async def test_every_filter_shows_only_readable_documents_of_the_tenant(
    operator: Operator,
) -> None:
    for tenant in TENANTS:
        await indexed(operator, {"tenant_id": tenant, **CALLERS["ann"]})
        for who, caller in CALLERS.items():
            user = {"tenant_id": tenant, **caller}
            for name, (wanted, admitted) in FILTERS.items():
                expected = sorted(admitted - ({"secret plan"} if who == "bob" else set()))
                arguments = {"filter": wanted, "limit": 9}
                listed = await result(operator, "list_documents", arguments, user)
                ids = [it["doc_id"] for it in listed["documents"]]
                assert ids == expected, (tenant, who, name)
                arguments = {"filter": wanted, "query": "certificate", "max_results": 9}
                found = await result(operator, "search_documents", arguments, user)
                shown = [(it["doc_id"], *it.get("copies", ())) for it in found["places"]]
                assert sorted(doc_id for ids in shown for doc_id in ids) == expected, (who, name)
                query = {**user, "filter": json.dumps(wanted), "limit": 9}
                response = await operator.service.http.get(READABLE, params=query)
                ids = [it["doc_id"] for it in response.json()["documents"]]
                assert ids == expected, (tenant, who, name)
                assert all(tenant in it["snippet"] for it in found["places"])


async def test_other_narrowing_arguments_apply_with_the_filter(operator: Operator) -> None:
    user = {"tenant_id": "acme", "user_id": "ann"}
    await indexed(operator, user)
    arguments = {
        "query": "certificate",
        "max_results": 9,
        "tags": ["old", "law"],
        "doc_ids": ["old plan", "plan"],
        "filter": {"tags": {"any": ["hr"]}},
    }
    found = await result(operator, "search_documents", arguments, user)
    assert [it["doc_id"] for it in found["places"]] == ["old plan"]
    body = {
        "tool_name": "list_documents",
        "arguments": {"filter": {"tags": "hr"}},
        "user": user,
        "documents": ["plan", "other"],
    }
    listed = (await operator.service.http.post(EXECUTE, json=body)).json()["result"]
    assert [it["doc_id"] for it in listed["documents"]] == ["plan"]


@pytest.mark.parametrize("tool", ["list_documents", "search_documents"])
async def test_an_unknown_key_of_a_filter_is_refused(operator: Operator, tool: str) -> None:
    arguments: dict[str, Any] = {"filter": {"tagz": ["hr"]}}
    if tool == "search_documents":
        arguments["query"] = "certificate"
    error = await result(operator, tool, arguments, {"tenant_id": "acme", "user_id": "ann"})
    assert error["code"] == "INVALID_ARGUMENTS"
    assert error["message"].startswith("filter: tagz is not a key; the keys are tags (any, all")


async def test_operators_list_with_the_same_filter(operator: Operator) -> None:
    for wanted, admitted in FILTERS.values():
        query = {"tenant_id": "acme", "filter": json.dumps(wanted)}
        listed = await operator.send("GET", LIST, query)
        ids = {it["doc_id"] for it in listed.json()["documents"]} - {"expired plan"}
        assert ids == admitted
        assert {it["tenant_id"] for it in listed.json()["documents"]} <= {"acme"}
    for odd in ("{", '{"tagz": []}', "5"):
        listed = await operator.send("GET", LIST, {"tenant_id": "acme", "filter": odd})
        assert outcome(listed) == (422, "INVALID_REQUEST")
        assert listed.json()["error"]["details"]["field"] == "filter"


async def test_listed_documents_have_their_own_fields(operator: Operator) -> None:
    user = {"tenant_id": "acme", "user_id": "ann"}
    listed = await result(operator, "list_documents", {"query": "plan", "limit": 1}, user)
    (first,) = listed["documents"]
    assert (first["date"], first["metadata"]) == ("2020-01-31", {"year": 2020})


async def test_a_document_expires_without_a_job(operator: Operator) -> None:
    user = {"tenant_id": "acme", "user_id": "ann"}
    await indexed(operator, user)
    soon = datetime.now(UTC) + timedelta(seconds=2)
    query = {"tenant_id": "acme", "doc_id": "soon"}
    await operator.put_json(
        "A certificate.", query, more={"expires_at": soon.isoformat(), "tags": ["soon"]}
    )
    await indexed(operator, user)

    async def reads() -> list[object]:
        wanted = {"filter": {"tags": "soon"}}
        listed = await result(operator, "list_documents", wanted, user)
        found = await result(operator, "search_documents", {**wanted, "query": "certificate"}, user)
        read = await result(operator, "read_doc_metadata", {"doc_id": "soon"}, user)
        return [listed["count"], found["count"], read.get("code", "OK")]

    before = await reads()

    async def is_expired() -> bool:
        return datetime.now(UTC) >= soon

    await eventually(is_expired)
    assert before == [1, 1, "OK"] or datetime.now(UTC) > soon
    assert await reads() == [0, 0, "DOCUMENT_NOT_FOUND"]
