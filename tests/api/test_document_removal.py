"""Removal of documents by tag or tenant over HTTP, and by their retention; all recorded."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.api.document_operator import LIST, Operator, operated, outcome
from tests.support.bounds import BOUND_S
from tests.support.captured_logs import capture_logs
from tests.support.postgres_databases import Databases
from tests.support.service import running
from tests.support.tokens import file_token, token_settings


@pytest.fixture(params=["folder", "postgres"])
async def operator(request: pytest.FixtureRequest, databases: Databases) -> AsyncIterator[Operator]:
    settings: dict[str, object] = {}
    if request.param == "postgres":
        settings |= {"documents_url": (await databases.new()).url, "documents_timeout": BOUND_S}
    async with operated(mock_mode=False, **settings) as made:
        for tenant in ("acme", "globex"):
            for doc_id, tags in (("a", ["Old"]), ("b", ["old", "x"]), ("c", ["x"])):
                query = {"tenant_id": tenant, "doc_id": doc_id}
                await made.put_json(query=query, more={"tags": tags})
        yield made


async def ids(operator: Operator, tenant: str) -> list[str]:
    listed = await operator.send("GET", LIST, {"tenant_id": tenant})
    return [it["doc_id"] for it in listed.json()["documents"]]


async def test_documents_with_a_tag_are_removed_after_a_dry_run(operator: Operator) -> None:
    wanted = {"tenant_id": "acme", "tag": "old"}
    named = await operator.send("DELETE", LIST, wanted)
    assert named.json() == {"dry_run": True, "doc_ids": ["a", "b"], "has_more": False}
    assert await ids(operator, "acme") == ["a", "b", "c"]
    with capture_logs() as lines:
        done = await operator.send("DELETE", LIST, {**wanted, "dry_run": "false"})
    assert done.json() == {"dry_run": False, "doc_ids": ["a", "b"], "has_more": False}
    assert (await ids(operator, "acme"), await ids(operator, "globex")) == (["c"], ["a", "b", "c"])
    (record,) = [line for line in lines if line["event"] == "documents.removed"]
    assert (record["tenant_id"], record["tag"], record["count"]) == ("acme", "old", 2)
    assert [it["doc_id"] for it in record["documents"]] == ["a", "b"]


async def test_all_documents_of_a_tenant_are_removed(operator: Operator) -> None:
    await operator.send("DELETE", LIST, {"tenant_id": "acme", "dry_run": "false"})
    assert (await ids(operator, "acme"), len(await ids(operator, "globex"))) == ([], 3)


async def test_a_tenant_is_required(operator: Operator) -> None:
    assert outcome(await operator.send("DELETE", LIST, {"tag": "x"})) == (422, "INVALID_REQUEST")


async def test_an_operator_of_one_tenant_removes_no_other_tenants_documents() -> None:
    token = file_token(tenant="acme", may=(OperatorRight.DOCUMENTS,))
    async with running(**token_settings()) as service:
        refused = await Operator(service, token).send(
            "DELETE", LIST, {"tenant_id": "globex", "dry_run": "false"}
        )
    assert outcome(refused) == (403, "FORBIDDEN")


async def test_removals_by_retention_are_recorded(operator: Operator) -> None:
    past = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    query = {"tenant_id": "acme", "doc_id": "past"}
    await operator.put_json(query=query, more={"expires_at": past})
    await operator.put_json(query={**query, "tenant_id": "globex"})
    with capture_logs() as lines:
        await operator.service.gateway.retention.remove_outdated()
    (record,) = [line for line in lines if line["event"] == "document.outdated_removed"]
    assert (record["tenant_id"], record["doc_id"], record["reason"]) == ("acme", "past", "expired")
    assert await ids(operator, "acme") == ["a", "b", "c"]
    assert await ids(operator, "globex") == ["a", "b", "c", "past"]
