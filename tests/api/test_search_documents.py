"""search_documents: results from all documents that the caller may read, and no others."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from mcp_tools_proxy.domain.document import Readers
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_agent
from tests.support.service import CONFIG_DIR, EXECUTE, Envelope, Service, running

SEARCH = "search_documents"
ANN = Readers(users=frozenset({"ann"}), roles=frozenset({"audit"}))
DOCUMENTS = (
    make_document(
        tenant_id="acme",
        doc_id="größe, 1%",
        title="VPN handbook",
        tags=("Maße",),
        pages=("About this book.", "The tunnel needs a certificate."),
    ),
    make_document(tenant_id="acme", doc_id="faq", pages=("How to renew a certificate.",)),
    make_document(
        tenant_id="acme",
        doc_id="payroll",
        title="Salaries",
        pages=("certificate certificate tunnel salary",),
        readers=ANN,
    ),
    make_document(tenant_id="other", doc_id="theirs", pages=("A certificate of the merger.",)),
)


async def called(
    service: Service,
    arguments: Mapping[str, object],
    *,
    user_id: str = "bob",
    tenant_id: str = "acme",
    roles: list[str] | None = None,
    **more: object,
) -> Envelope:
    user = {"tenant_id": tenant_id, "user_id": user_id, "roles": roles or []}
    body = {"tool_name": SEARCH, "arguments": arguments, "user": user, **more}
    envelope: Envelope = (await service.http.post(EXECUTE, json=body)).json()
    return envelope


async def found(service: Service, query: str = "certificate", **more: Any) -> list[str]:
    arguments = {"query": query, **more.pop("narrowed", {})}
    result = (await called(service, arguments, **more))["result"]
    assert result["count"] == len(result["places"])
    assert "indexing" not in result
    return sorted(place["doc_id"] for place in result["places"])


@pytest.mark.parametrize("hide", [False, True])
async def test_only_readable_documents_are_found(*, hide: bool) -> None:
    async with running(*DOCUMENTS, hide_foreign_documents=hide) as service:
        bob = await called(service, {"query": "certificate tunnel salary"})
        assert not {"payroll", "Salaries", "theirs"} & set(json.dumps(bob).split('"'))
        assert await found(service) == ["faq", "größe, 1%"]
        assert await found(service, user_id="ann") == ["faq", "größe, 1%", "payroll"]
        assert await found(service, roles=["audit"]) == ["faq", "größe, 1%", "payroll"]
        assert await found(service, tenant_id="other") == ["theirs"]
        assert await found(service, "salary") == []
        assert await found(service, tenant_id="nobody") == []


async def test_a_result_has_the_fields_for_reading_on_and_citing() -> None:
    async with running(*DOCUMENTS) as service:
        (place,) = (await called(service, {"query": "tunnels"}))["result"]["places"]
        assert place.pop("score") > 0
        (source,) = place.pop("sources")
        assert source.pop("version")
        text = "The tunnel needs a certificate."
        assert source == {
            "doc_id": "größe, 1%",
            "page": 2,
            "start_char": 0,
            "end_char": len(text),
        }
        assert place == {
            "doc_id": "größe, 1%",
            "title": "VPN handbook",
            "page": 2,
            "chunk_id": "p2-c1",
            "snippet": text,
        }


async def test_tags_ids_and_bounds_narrow_a_search() -> None:
    Config(agents=[make_agent(documents=["faq", "payroll"])]).write(CONFIG_DIR)
    settings: dict[str, Any] = {"require_agent": False}
    async with running(*DOCUMENTS, **settings) as service:
        assert await found(service, narrowed={"tags": ["MASSE", "none"]}) == ["größe, 1%"]
        assert await found(service, narrowed={"tags": []}) == []
        assert await found(service, narrowed={"doc_ids": ["faq", "payroll", "x"]}) == ["faq"]
        assert await found(service, narrowed={"doc_ids": []}) == []
        assert await found(service, documents=["faq", "payroll"]) == ["faq"]
        assert await found(service, documents=[]) == []
        assert await found(service, agent="reader") == ["faq"]
        assert await found(service, agent="reader", user_id="ann") == ["faq", "payroll"]
        narrowed = {"doc_ids": ["größe, 1%"]}
        assert await found(service, agent="reader", narrowed=narrowed) == []


async def test_no_match_returns_the_searched_words() -> None:
    async with running(*DOCUMENTS) as service:
        result = (await called(service, {"query": "xylophone zebra"}))["result"]
        assert result == {"places": [], "count": 0, "searched_for": ["xylophone", "zebra"]}


async def test_a_search_is_charged_only_to_the_tenant_and_can_be_excluded() -> None:
    Config(agents=[make_agent(exclude=[SEARCH])]).write(CONFIG_DIR)
    settings: dict[str, Any] = {
        "rate_limit_tenant_calls": 2,
        "rate_limit_calls": 1,
        "require_agent": False,
    }
    async with running(*DOCUMENTS, **settings) as service:
        denied = await called(service, {"query": "certificate"}, agent="reader", tenant_id="other")
        assert denied["error"]["code"] == "TOOL_NOT_ALLOWED"
        found_twice = [await found(service), await found(service, narrowed={"doc_ids": ["faq"]})]
        assert found_twice == [["faq", "größe, 1%"], ["faq"]]
        refused = await called(service, {"query": "certificate"})
        assert refused["error"]["details"]["budget"] == "tenant_calls"


async def test_a_record_has_neither_query_nor_results() -> None:
    async with running(*DOCUMENTS) as service:
        with capture_logs() as lines:
            await found(service, "tunnel", narrowed={"tags": ["maße"]})
        (record,) = [line for line in lines if line["event"] == "tool.call"]
        assert (record["tool"], record["arguments"]) == (SEARCH, ["query", "tags"])
        assert not {"tunnel", "maße", "größe, 1%"} & set(json.dumps(lines).split('"'))


async def test_max_results_and_the_text_limit_bound_an_answer() -> None:
    made = [
        make_document(tenant_id="acme", doc_id=f"{n:02}", pages=("x " * 88 + f"y{n:02}",))
        for n in range(12)
    ]
    async with running(*made) as service:
        assert len(await found(service, "x")) == 5
        assert len(await found(service, "x", narrowed={"max_results": "50"})) == 10
    async with running(*made, max_text_bytes=400) as service:
        result = (await called(service, {"query": "x"}))["result"]
        lengths = [len(place["snippet"]) for place in result["places"]]
        assert (sum(lengths), len(lengths)) == (400, 3)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": " "},
        {"query": "a", "max_results": 0},
        {"query": "a", "tags": "b"},
        {"query": "a", "doc_ids": [""]},
        {"query": "a", "doc_ids": ["d"] * 101},
    ],
)
async def test_invalid_arguments_are_refused(arguments: dict[str, object]) -> None:
    async with running(*DOCUMENTS) as service:
        assert (await called(service, arguments))["error"]["code"] == "INVALID_ARGUMENTS"


async def test_copies_of_a_document_are_named_with_its_hit() -> None:
    pages = ("The tunnel needs a certificate.",)
    made = [
        make_document(tenant_id="acme", doc_id="a", pages=pages),
        make_document(tenant_id="acme", doc_id="b", title="Another title", pages=pages),
        make_document(tenant_id="acme", doc_id="c", pages=("A certificate, and more.",)),
        make_document(tenant_id="acme", doc_id="d", pages=pages, readers=ANN),
    ]
    async with running(*made) as service:
        result = (await called(service, {"query": "certificate"}))["result"]
        groups = [{it["doc_id"], *it.get("copies", ())} for it in result["places"]]
        assert sorted(map(sorted, groups)) == [["a", "b"], ["c"]]
