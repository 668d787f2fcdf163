"""Bound documents: each place that names documents only narrows access."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.caller import narrow_documents
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_agent, write_json
from tests.support.service import (
    BATCH,
    CONFIG_DIR,
    EXECUTE,
    TOOLS,
    Envelope,
    Service,
    eventually,
    running,
)
from tests.support.tokens import bearer, file_token, jwt_settings, signed_token, token_settings

ADMIN = "correct-horse-battery"
EXPLAIN = "/internal/mcp/explain"
METADATA = "read_doc_metadata"
BOUND = ("größe, 1%", "handbook")
DOCUMENTS = (
    *(make_document(tenant_id="acme", doc_id=it, pages=("Text.",)) for it in (*BOUND, "payroll")),
    make_document(tenant_id="other", doc_id="theirs"),
)
OUTSIDE = {"another of the tenant": "payroll", "another tenant's": "theirs", "none": "nowhere"}
CATALOG: dict[str, dict[str, object]] = {"list_available_tools": {"format": "mcp"}}
CALLS: dict[str, dict[str, object]] = {
    "read_doc_pages": {"page_start": 1, "page_end": 1},
    METADATA: {},
    "doc_local_search": {"query": "text"},
    "read_doc_section": {"section_id": "none"},
    "read_chunk_window": {"anchor_chunk_id": "p1-c1"},
    "verify_quote": {"quote": "more text"},
}


class Request(NamedTuple):
    body: Json
    headers: Mapping[str, str] = {}


def in_body(documents: Sequence[str]) -> Request:
    return Request({"documents": documents})


def in_header(documents: Sequence[str]) -> Request:
    listed = ", ".join(it.replace("%", "%25").replace(",", "%2C") for it in documents)
    return Request({}, {"X-Documents": listed.replace("ö", "%C3%B6").replace("ß", "%c3%9f")})


def in_profile(documents: Sequence[str]) -> Request:
    agents = [make_agent(documents=documents)]
    Config(agents=agents).write(CONFIG_DIR)
    return Request({"agent": "reader"})


def in_token(documents: Sequence[str]) -> Request:
    token = file_token(tenant="acme", user="ann", documents=tuple(documents))
    return Request({}, bearer(token))


def in_jwt(documents: Sequence[str]) -> Request:
    token = signed_token(tenant="acme", user="ann", documents=list(documents))
    return Request({}, bearer(token))


class Source(NamedTuple):
    """A place that names documents, and the settings that enable it."""

    request_of: Callable[[Sequence[str]], Request]
    settings_of: Callable[[], dict[str, Any]] = dict


SOURCES = {
    "body": Source(in_body),
    "header": Source(in_header),
    "profile": Source(in_profile),
    "token": Source(in_token, token_settings),
    "jwt": Source(in_jwt, lambda: {**jwt_settings(), "jwt_documents_claim": "documents"}),
}
sources = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Service]:
    defaults: dict[str, Any] = {
        "retrieval_window_url": "local",
        "admin_token": ADMIN,
        "require_agent": False,
    }
    async with running(*DOCUMENTS, **defaults | settings) as service:
        yield service


async def call(
    service: Service,
    request: Request,
    tool: str = METADATA,
    *,
    doc_id: object = ...,
    path: str = EXECUTE,
) -> Envelope:
    arguments = (
        CALLS.get(tool, CATALOG.get(tool, {}))
        if doc_id is ...
        else {**CALLS[tool], "doc_id": doc_id}
    )
    user = {"tenant_id": "acme", "user_id": "ann"}
    body = {"tool_name": tool, "arguments": arguments, "user": user, **request.body}
    response = await service.http.post(path, json=body, headers=request.headers)
    envelope: Envelope = response.json()
    return envelope


def code_of(envelope: Envelope) -> str:
    return "OK" if envelope["status"] == "ok" else str(envelope["error"]["code"])


async def code(
    service: Service, request: Request, tool: str = METADATA, *, doc_id: object = ...
) -> str:
    return code_of(await call(service, request, tool, doc_id=doc_id))


@sources
@pytest.mark.parametrize("hide", [False, True])
async def test_a_document_outside_the_binding_is_refused_whether_or_not_it_exists(
    source: Source, *, hide: bool
) -> None:
    request = source.request_of(BOUND)
    async with serving(**source.settings_of(), hide_foreign_documents=hide) as service:
        inside = {await code(service, request, doc_id=it) for it in BOUND}
        refusals = [
            (tool, doc_id, await call(service, request, tool, doc_id=doc_id))
            for tool in CALLS
            for doc_id in OUTSIDE.values()
        ]
    assert inside == {"OK"}
    expected = "DOCUMENT_NOT_FOUND" if hide else "ACCESS_DENIED"
    assert [code_of(it) for _, _, it in refusals] == [expected] * len(CALLS) * len(OUTSIDE)
    texts = {json.dumps(it["error"]).replace(doc_id, "ID") for _, doc_id, it in refusals}
    assert len(texts) == 1


@pytest.mark.parametrize("hide", [False, True])
async def test_a_refusal_equals_that_for_another_tenants_document(*, hide: bool) -> None:
    async with serving(hide_foreign_documents=hide) as service:
        foreign = await call(service, Request({}), doc_id="theirs")
        outside = await call(service, in_body(BOUND), doc_id="theirs")
    assert foreign["error"] == outside["error"]


@sources
async def test_a_single_remaining_document_is_filled_in(source: Source) -> None:
    request = source.request_of(["handbook"])
    async with serving(**source.settings_of()) as service:
        for tool in CALLS:
            left_out, given, null = [
                await call(service, request, tool, doc_id=it) for it in (..., "handbook", None)
            ]
            other = await code(service, request, tool, doc_id="payroll")
            expected = "SECTION_NOT_FOUND" if tool == "read_doc_section" else "OK"
            assert [code_of(it) for it in (left_out, given, null)] == [expected] * 3, tool
            assert left_out.get("result") == given.get("result") == null.get("result"), tool
            assert other == "ACCESS_DENIED", tool


@sources
async def test_with_several_remaining_documents_the_call_has_to_name_one(source: Source) -> None:
    request = source.request_of(BOUND)
    async with serving(**source.settings_of()) as service:
        assert await code(service, request) == "INVALID_ARGUMENTS"


@sources
@pytest.mark.parametrize("hide", [False, True])
async def test_without_remaining_documents_every_document_is_denied(
    source: Source, *, hide: bool
) -> None:
    request = source.request_of([])
    async with serving(**source.settings_of(), hide_foreign_documents=hide) as service:
        codes = {await code(service, request, doc_id=it) for it in ("handbook", *OUTSIDE.values())}
        assert codes == {"ACCESS_DENIED"}
        assert await code(service, request, "list_available_tools") == "OK"


@sources
async def test_lists_hide_doc_id_if_only_one_document_remains(source: Source) -> None:
    for documents, shown in ((["handbook"], False), (BOUND, True), ([], True)):
        request = source.request_of(documents)
        async with serving(**source.settings_of()) as service:
            listed = await service.http.get(
                TOOLS, params=query_of(request), headers=request.headers
            )
            own = (await call(service, request, "list_available_tools"))["result"]
        schemas = {it["name"]: it["inputSchema"] for it in listed.json()["tools"]}
        assert {"doc_id" in schemas[tool]["properties"] for tool in CALLS} == {shown}
        by_tool = dict(zip(own["tools"], own["definitions"], strict=True))
        assert {"doc_id" in by_tool[it]["input_schema"]["properties"] for it in CALLS} == {shown}


def query_of(request: Request) -> Any:
    """Return the query that corresponds to a body."""
    return httpx.QueryParams({k: v for k, v in request.body.items() if v != []})


async def test_all_sources_are_intersected() -> None:
    Config(agents=[make_agent(documents=["a", "b", "c", "d"])]).write(CONFIG_DIR)
    token = file_token(tenant="acme", documents=("b", "c", "d", "e"))
    held = [make_document(tenant_id="acme", doc_id=it) for it in "abcdef"]
    async with running(*held, **token_settings()) as service:

        async def readable(headers: dict[str, str], **body: Any) -> str:
            request = Request({"agent": "reader", **body}, bearer(token, **headers))
            codes = [await code(service, request, doc_id=it) for it in "abcdef"]
            return "".join(it for it, found in zip("abcdef", codes, strict=True) if found == "OK")

        assert await readable({}) == "bcd"
        assert await readable({"X-Documents": "c,d,e,f"}) == "cd"
        assert await readable({"X-Documents": "c,d"}, documents=["b", "d"]) == "d"
        assert await readable({"X-Documents": "a"}, documents=["f"]) == ""
        assert await readable({}, documents=None) == "bcd"


@given(
    st.lists(
        st.none() | st.frozensets(st.sampled_from("abcd")),
        min_size=1,
    )
)
def test_each_set_only_narrows_in_any_order(sets: list[frozenset[str] | None]) -> None:
    def left(order: Sequence[frozenset[str] | None]) -> set[str]:
        found: frozenset[str] | None = None
        for one in order:
            found = narrow_documents(found, one)
        return set("abcd") if found is None else set(found)

    assert left(sets) == {it for it in "abcd" if all(one is None or it in one for one in sets)}
    assert left(sets) == left(sets[::-1])


async def test_a_body_with_an_invalid_list_is_refused() -> None:
    wrong: tuple[object, ...] = ("x", [1], [""], ["a\n"], ["x" * 257], ["x"] * 1001, {})
    async with serving() as service:
        for documents in wrong:
            envelope = await call(service, Request({"documents": documents}), doc_id="handbook")
            assert code_of(envelope) == "INVALID_REQUEST", documents
            assert envelope["error"]["details"]["field"].startswith("documents"), documents


async def test_a_header_with_an_invalid_list_is_refused() -> None:
    async with serving() as service:
        for header in ("a,,b", ",", "%00", "%ff", "x" * 257, ",".join("a" * 1001)):
            envelope = await call(service, Request({}, {"X-Documents": header}), doc_id="handbook")
            assert envelope["error"]["details"] == {"field": "X-Documents"}, header


async def test_an_empty_header_denies_every_document() -> None:
    async with serving() as service:
        request = Request({}, {"X-Documents": ""})
        assert await code(service, request, doc_id="handbook") == "ACCESS_DENIED"


async def test_all_calls_of_a_batch_are_bound() -> None:
    calls = [{"tool_name": METADATA, "arguments": it} for it in ({}, {"doc_id": "payroll"})]
    body = {"calls": calls, "user": {"tenant_id": "acme", "user_id": "ann"}}
    async with serving() as service:
        answer = await service.http.post(BATCH, json={**body, "documents": ["handbook"]})
    assert [code_of(it) for it in answer.json()["results"]] == ["OK", "ACCESS_DENIED"]


@pytest.mark.parametrize("request_of", [in_body, in_profile])
@pytest.mark.parametrize("documents", [BOUND, ["handbook"], []])
async def test_explain_agrees_with_the_call(
    request_of: Callable[[Sequence[str]], Request], documents: Sequence[str]
) -> None:
    request = request_of(documents)
    async with serving() as service:
        for doc_id in (..., "handbook", *OUTSIDE.values()):
            made = await code(service, request, doc_id=doc_id)
            by_operator = Request(request.body, bearer(ADMIN))
            explained = await call(service, by_operator, doc_id=doc_id, path=EXPLAIN)
            assert explained["decision"] == ("pass" if made == "OK" else made)


async def test_refused_calls_charge_the_tenant_but_not_the_document() -> None:
    async with serving(unlimited=False, rate_limit_calls=2) as service:
        refused = [await code(service, in_body(["handbook"]), doc_id="payroll") for _ in range(5)]
        others = [await code(service, Request({}), doc_id="payroll") for _ in range(3)]
        filled_in = [await code(service, in_body(["handbook"])) for _ in range(3)]
    assert refused == ["ACCESS_DENIED"] * 5
    assert others == filled_in == ["OK", "OK", "RATE_LIMIT_EXCEEDED"]


async def test_a_stored_outcome_is_refused_without_access_to_the_document() -> None:
    async with serving() as service:

        async def under_key(documents: Sequence[str], **more: Any) -> str:
            request = Request({"documents": documents, "idempotency_key": "k"})
            return await code(service, request, **more)

        assert await under_key(["handbook"]) == "OK"
        assert await under_key(["handbook"]) == "OK"
        assert await under_key(["payroll"]) == "IDEMPOTENCY_CONFLICT"
        assert await under_key(["payroll"], doc_id="handbook") == "ACCESS_DENIED"
        assert await under_key([], doc_id="handbook") == "ACCESS_DENIED"


@pytest.mark.parametrize("doc_id", [..., None, "handbook"])
async def test_the_record_names_a_filled_in_document(doc_id: object) -> None:
    async with serving() as service:
        with capture_logs() as logs:
            await call(service, in_body(["handbook"]), doc_id=doc_id)
    (record,) = [it for it in logs if it["event"] == "tool.call"]
    assert (record["doc_id"], record["arguments"]) == ("handbook", ["doc_id"])


async def test_a_changed_profile_binds_the_next_call() -> None:
    request = in_profile(["handbook"])
    async with serving() as service:
        assert await code(service, request, doc_id="payroll") == "ACCESS_DENIED"
        write_json(CONFIG_DIR / "agents.json", {"agents": [make_agent(documents=["payroll"])]})

        async def is_rebound() -> bool:
            return await code(service, request, doc_id="payroll") == "OK"

        await eventually(is_rebound)
        assert await code(service, request, doc_id="handbook") == "ACCESS_DENIED"


async def test_retrieval_is_not_called_for_a_document_outside_the_binding() -> None:
    received: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        received.append(json.loads(request.content)["doc_id"])
        chunk = {"chunk_id": "p1-c1", "page": 1, "chunk_index": 0, "text": "t"}
        return httpx.Response(200, json={"chunks": [chunk]})

    async with serving(
        retrieval_window_url="http://retrieval",
        retrieval_transport=httpx.MockTransport(answer),
        mock_mode=False,
    ) as service:
        codes = [
            await code(service, in_body(["elsewhere"]), "read_chunk_window", doc_id=doc_id)
            for doc_id in ("elsewhere", ..., "handbook", "nowhere")
        ]
    assert codes == ["OK", "OK", "ACCESS_DENIED", "ACCESS_DENIED"]
    assert received == ["elsewhere", "elsewhere"]


@pytest.mark.parametrize("claim", ["x\n", [1], {}, None, ["x"] * 1001])
async def test_a_token_with_an_invalid_claim_is_refused(claim: object) -> None:
    token = signed_token(tenant="acme", user="ann", documents=claim)
    async with serving(**jwt_settings(), jwt_documents_claim="documents") as service:
        envelope = await call(service, Request({}, bearer(token)), doc_id="handbook")
    assert code_of(envelope) == "UNAUTHENTICATED"
    assert "documents" in envelope["error"]["message"]


async def test_a_claim_can_be_one_document_or_absent() -> None:
    async with serving(**jwt_settings(), jwt_documents_claim="documents") as service:
        one = Request({}, bearer(signed_token(tenant="acme", user="ann", documents="handbook")))
        assert await code(service, one) == "OK"
        assert await code(service, one, doc_id="payroll") == "ACCESS_DENIED"
        free = Request({}, bearer(signed_token(tenant="acme", user="ann")))
        assert await code(service, free, doc_id="payroll") == "OK"


async def test_no_claim_binds_without_the_setting() -> None:
    token = signed_token(tenant="acme", user="ann", documents=["handbook"])
    async with serving(**jwt_settings()) as service:
        assert await code(service, Request({}, bearer(token)), doc_id="payroll") == "OK"
