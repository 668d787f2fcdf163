"""Budgets charged for a document that is missing or not accessible to the caller (§1)."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.builders import make_document
from tests.support.local_tools import document_calls
from tests.support.redis_server import running_redis
from tests.support.service import Service, running

pytestmark = [
    pytest.mark.requirement("T-08", "T-09"),
    pytest.mark.usefixtures("patient_limits"),
]

FOREIGN = make_document(tenant_id="tenant_2", doc_id="foreign")
WINDOW = {"anchor_chunk_id": "c"}


@pytest.fixture(params=["memory", "redis"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    if request.param == "memory":
        yield {}
        return
    with running_redis(tmp_path) as server:
        yield {"rate_limit_storage_url": server.url}


async def codes(service: Service, count: int, doc_id: str) -> list[str]:
    return await asyncio.gather(
        *(service.code("read_doc_metadata", {"doc_id": doc_id}) for _ in range(count))
    )


async def budget_named(service: Service, doc_id: str) -> str:
    envelope = await service.execute("read_doc_metadata", {"doc_id": doc_id})
    return str(envelope["error"]["details"]["budget"])


async def test_polling_for_an_import_does_not_charge_the_documents_budget(
    storage: dict[str, Any],
) -> None:
    async with running(rate_limit_calls=2, rate_limit_tokens=1, **storage) as service:
        before = await codes(service, 5, "coming")
        service.gateway.repository.hold(make_document(doc_id="coming"))
        assert (before, await codes(service, 1, "coming")) == (["DOCUMENT_NOT_FOUND"] * 5, ["OK"])


@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize("doc_id", ["foreign", "nobody's"])
async def test_a_missing_document_charges_only_the_tenant(
    storage: dict[str, Any], doc_id: str, *, hide: bool
) -> None:
    expected = "DOCUMENT_NOT_FOUND" if hide or doc_id != "foreign" else "ACCESS_DENIED"
    async with running(
        FOREIGN,
        rate_limit_calls=1,
        rate_limit_tenant_calls=7,
        hide_foreign_documents=hide,
        **storage,
    ) as service:
        seen = await codes(service, 20, doc_id)
        assert (seen.count(expected), seen.count("RATE_LIMIT_EXCEEDED")) == (7, 13)
        assert await budget_named(service, doc_id) == "tenant_calls"


async def test_the_tenants_budgets_are_checked_before_the_document(storage: dict[str, Any]) -> None:
    async with running(FOREIGN, rate_limit_tenant_calls=1, **storage) as service:
        await service.execute("list_available_tools")
        for doc_id in ("foreign", "nobody's", "doc_1"):
            assert await codes(service, 1, doc_id) == ["RATE_LIMIT_EXCEEDED"]


async def test_the_tenants_budgets_are_checked_before_the_documents_budget() -> None:
    async with running(rate_limit_calls=1, rate_limit_tenant_tokens=1) as service:
        await codes(service, 1, "doc_1")
        assert await budget_named(service, "doc_1") == "tenant_tokens"


async def test_a_call_refused_by_the_documents_budget_does_not_charge_the_tenant(
    storage: dict[str, Any],
) -> None:
    async with running(rate_limit_calls=1, rate_limit_tenant_calls=3, **storage) as service:
        own = await codes(service, 10, "doc_1")
        assert (own.count("OK"), sorted(await codes(service, 3, "nobody's"))) == (
            1,
            ["DOCUMENT_NOT_FOUND"] * 2 + ["RATE_LIMIT_EXCEEDED"],
        )


async def test_a_missing_section_is_charged_to_the_document() -> None:
    arguments = {"doc_id": "doc_1", "section_id": "none"}
    async with running(rate_limit_calls=1) as service:
        seen = [await service.code("read_doc_section", arguments) for _ in range(2)]
        assert seen == ["SECTION_NOT_FOUND", "RATE_LIMIT_EXCEEDED"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    list(document_calls()),
)
async def test_every_document_tool_checks_the_document_before_its_budget(
    tool: str, arguments: Mapping[str, object]
) -> None:
    async with running(rate_limit_calls=1) as service:
        seen = [await service.code(tool, {"doc_id": "nobody's", **arguments}) for _ in range(3)]
        assert seen == ["DOCUMENT_NOT_FOUND"] * 3


@pytest.mark.requirement("T-04")
async def test_if_retrieval_decides_the_documents_budget_is_charged() -> None:
    async with running(
        rate_limit_calls=1,
        mock_mode=False,
        retrieval_window_url="http://retrieval/window",
        retrieval_transport=httpx.MockTransport(lambda _: httpx.Response(403)),
    ) as service:
        arguments = {"doc_id": "elsewhere"} | WINDOW
        seen = [await service.code("read_chunk_window", arguments) for _ in range(2)]
        assert seen == ["ACCESS_DENIED", "RATE_LIMIT_EXCEEDED"]
