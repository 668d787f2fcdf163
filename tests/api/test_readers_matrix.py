"""Two tenants, three users, three sets of roles: visibility of each document in both stores.

Each document contains a unique word, which every tool shows to its readers and to no other caller:
over HTTP, in a batch, and over MCP in both eras."""

import itertools
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document, Readers, Section
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document
from tests.support.mcp_endpoint import Served, serving
from tests.support.postgres_databases import Databases
from tests.support.service import BATCH

TENANTS = ("acme", "globex")
USERS = ("ann", "bob", "eve")
ROLES: tuple[tuple[str, ...], ...] = ((), ("audit",), ("it", "hr"))
READERS: Mapping[str, Readers | None] = {
    "open": None,
    "of-ann": Readers(users=frozenset({"ann"})),
    "of-audit": Readers(roles=frozenset({"audit"})),
    "of-bob-or-hr": Readers(users=frozenset({"bob"}), roles=frozenset({"hr"})),
    "of-nobody": Readers(),
}
CALLS: Mapping[str, Mapping[str, object]] = {
    "read_doc_pages": {"page_start": 1, "page_end": 1},
    "read_doc_metadata": {},
    "read_doc_section": {"section_id": "s"},
    "doc_local_search": {"query": "ladders"},
    "read_chunk_window": {"anchor_chunk_id": "p1-c1"},
    "verify_quote": {"quote": "Some text on ladders, word"},
}
CALLERS = [
    Caller(tenant_id=tenant, user_id=user, roles=roles)
    for tenant, user, roles in itertools.product(TENANTS, USERS, ROLES)
]


def word_of(tenant_id: str, doc_id: str) -> str:
    return f"word-{tenant_id}-{doc_id}"


def document(tenant_id: str, doc_id: str) -> Document:
    word = word_of(tenant_id, doc_id)
    return make_document(
        tenant_id=tenant_id,
        doc_id=doc_id,
        title=f"Title {word}",
        pages=(f"Some text on ladders, {word}.",),
        sections={"s": Section(section_id="s", title=word, page_start=1, page_end=1)},
        readers=READERS[doc_id],
    )


def is_reader(caller: Caller, doc_id: str) -> bool:
    """Return whether the caller is a reader; does not use the code under test."""
    readers = READERS[doc_id]
    if readers is None:
        return True
    return caller.user_id in readers.users or any(role in readers.roles for role in caller.roles)


@pytest.fixture(params=["folder", "postgres"])
async def served(request: pytest.FixtureRequest, databases: Databases) -> AsyncIterator[Served]:
    settings: dict[str, Any] = {"retrieval_window_url": "local"}
    if request.param == "postgres":
        settings |= {"documents_url": (await databases.new()).url, "documents_timeout": BOUND_S}
    async with serving(**settings) as made:
        for tenant, doc_id in itertools.product(TENANTS, READERS):
            await made.service.gateway.documents.writer.put(
                document(tenant, doc_id), expected=Expected.NOTHING, keep_readers=False
            )
        yield made


def check(answer: str, caller: Caller, doc_id: str, *, is_error: bool) -> None:
    """Check that an answer has this document's word if the caller is a reader, and no other."""
    words = {
        word_of(tenant, other)
        for tenant, other in itertools.product(TENANTS, READERS)
        if word_of(tenant, other) in answer
    }
    allowed = is_reader(caller, doc_id)
    assert words == ({word_of(caller.tenant_id, doc_id)} if allowed else set())
    assert is_error is not allowed
    assert ("ACCESS_DENIED" in answer) is not allowed


async def test_readers_see_their_documents_over_http(served: Served) -> None:
    for caller, _ in itertools.product(CALLERS, range(2)):  # cold, then in memory
        wanted = list(itertools.product(CALLS.items(), READERS))
        body = {
            "calls": [
                {"tool_name": tool, "arguments": {"doc_id": doc_id, **arguments}}
                for (tool, arguments), doc_id in wanted
            ],
            "user": {
                "tenant_id": caller.tenant_id,
                "user_id": caller.user_id,
                "roles": caller.roles,
            },
        }
        response = await served.http.post(BATCH, json=body)
        for (_, doc_id), result in zip(wanted, response.json()["results"], strict=True):
            check(json.dumps(result), caller, doc_id, is_error=result["status"] == "error")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_readers_see_their_documents_over_mcp(served: Served, mode: str) -> None:
    for caller in CALLERS:
        headers = {"X-Tenant-Id": caller.tenant_id, "X-User-Id": caller.user_id}
        if caller.roles:
            headers["X-User-Roles"] = ",".join(caller.roles)
        async with served.client("/mcp", mode=mode, headers=headers) as client:
            for doc_id in ("open", "of-audit", "of-bob-or-hr"):
                arguments = {"doc_id": doc_id, **CALLS["read_doc_pages"]}
                result = await client.call_tool("read_doc_pages", arguments)
                check(str(result.content), caller, doc_id, is_error=bool(result.is_error))
