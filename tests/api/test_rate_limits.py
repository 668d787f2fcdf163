"""Budgets through the API (T-08, T-09)."""

import asyncio

import httpx
import pytest

from tests.support.builders import make_document
from tests.support.service import EXECUTE, Service, request_of, running

pytestmark = pytest.mark.requirement("T-08", "T-09")

METADATA = {"doc_id": "doc_1"}


async def codes(service: Service, count: int, doc_id: str = "doc_1") -> list[str]:
    return await asyncio.gather(
        *(service.code("read_doc_metadata", {"doc_id": doc_id}) for _ in range(count))
    )


async def test_exactly_n_of_m_parallel_calls_pass() -> None:
    async with running(rate_limit_calls=7) as service:
        assert (await codes(service, 30)).count("OK") == 7


async def test_the_default_for_a_document_is_120_calls_a_minute() -> None:
    async with running(unlimited=False) as service:
        assert (await codes(service, 122)).count("OK") == 120


async def test_the_default_for_a_tenant_is_6000_calls_and_unlimited_tokens() -> None:
    async with running(unlimited=False) as service:
        shown = await service.get("/internal/mcp/limits", tenant_id="tenant_1")
    budgets = {it["name"]: it["limit"] for it in shown["limits"]}
    assert budgets == {"tenant_calls": 6000}


async def test_a_refusal_names_the_budget_and_the_retry_time() -> None:
    async with running(rate_limit_calls=1) as service:
        await service.execute("read_doc_metadata", METADATA)
        response = await service.http.post(EXECUTE, json=request_of("read_doc_metadata", METADATA))
        error = response.json()["error"]
        assert (
            error["code"],
            error["retryable"],
            error["details"],
            0 < error["retry_after_s"] <= 60,
            1 <= int(response.headers["Retry-After"]) <= 60,
        ) == (
            "RATE_LIMIT_EXCEEDED",
            True,
            {"budget": "document_calls", "limit": 1, "window_s": 60},
            True,
            True,
        )


async def test_a_refusal_is_http_200() -> None:
    async with running(rate_limit_calls=1) as service:
        await service.execute("read_doc_metadata", METADATA)
        body = request_of("read_doc_metadata", METADATA)
        assert (await service.http.post(EXECUTE, json=body)).status_code == 200


async def test_another_document_has_its_own_budget() -> None:
    async with running(make_document(doc_id="other"), rate_limit_calls=1) as service:
        await codes(service, 2)
        assert await codes(service, 1, "other") == ["OK"]


async def test_exhausted_tokens_refuse_the_next_call() -> None:
    async with running(rate_limit_tokens=1) as service:
        first = await service.code("read_doc_metadata", METADATA)
        second = await service.execute("read_doc_metadata", METADATA)
        assert (first, second["error"]["details"]["budget"]) == ("OK", "document_tokens")


async def test_a_failing_call_is_charged() -> None:
    async with running(rate_limit_calls=1) as service:
        await service.execute("read_doc_section", {"doc_id": "doc_1", "section_id": "none"})
        assert await codes(service, 1) == ["RATE_LIMIT_EXCEEDED"]


async def test_a_call_without_a_document_is_charged_to_its_tenant() -> None:
    async with running(rate_limit_tenant_calls=2) as service:
        results = [await service.code("list_available_tools") for _ in range(3)]
        assert results == ["OK", "OK", "RATE_LIMIT_EXCEEDED"]


async def test_invented_documents_give_no_extra_budget() -> None:
    async with running(rate_limit_tenant_calls=5) as service:
        results = [(await codes(service, 1, f"invented-{n}"))[0] for n in range(8)]
        assert results.count("RATE_LIMIT_EXCEEDED") == 3


async def test_a_call_refused_by_the_documents_budget_is_not_charged_to_its_tenant() -> None:
    async with running(
        make_document(doc_id="other"), rate_limit_calls=1, rate_limit_tenant_calls=2
    ) as service:
        await codes(service, 5)
        assert await codes(service, 1, "other") == ["OK"]


async def test_a_call_refused_by_the_tenants_budget_is_not_charged_to_its_document() -> None:
    async with running(rate_limit_calls=2, rate_limit_tenant_calls=1) as service:
        await codes(service, 5)
        refusal = await service.execute("read_doc_metadata", METADATA)
        assert refusal["error"]["details"]["budget"] == "tenant_calls"


async def test_a_cancelled_call_stays_charged() -> None:
    arrived, never = asyncio.Event(), asyncio.Event()

    async def hang(_: httpx.Request) -> httpx.Response:
        arrived.set()
        await never.wait()
        return httpx.Response(500)

    async with running(
        rate_limit_calls=1,
        retrieval_transport=httpx.MockTransport(hang),
        retrieval_window_url="http://retrieval/window",
    ) as service:
        async with asyncio.TaskGroup() as group:
            call = group.create_task(
                service.code("read_chunk_window", {"doc_id": "doc_1", "anchor_chunk_id": "c"})
            )
            await arrived.wait()
            call.cancel()
        assert await codes(service, 1) == ["RATE_LIMIT_EXCEEDED"]


async def test_an_undelivered_result_costs_no_tokens() -> None:
    async with running(rate_limit_tenant_tokens=1, max_result_bytes=300) as service:
        codes = [await service.code("list_available_tools") for _ in range(2)]
        assert codes == ["RESULT_TOO_LARGE"] * 2


async def test_the_default_allows_120_full_windows_of_a_document_per_minute() -> None:
    """A caller of the original service reads 120 windows of one document in a chat."""
    long = make_document(doc_id="long", pages=["x" * 20480] * 3)
    window: dict[str, object] = {"doc_id": "long", "anchor_chunk_id": "p2-c3", "radius": 20}
    async with running(
        long, unlimited=False, retrieval_window_url="local", max_window_radius=20
    ) as service:
        seen = [await service.execute("read_chunk_window", window) for _ in range(121)]
    assert [one["result"]["tokens"] for one in seen[:120]] == [5120] * 120
    assert seen[120]["error"]["code"] == "RATE_LIMIT_EXCEEDED"
