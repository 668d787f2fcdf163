"""Documents marked untrusted: runs that read them have read text of strangers."""

from dataclasses import replace
from typing import Any

import httpx
import pytest

from mcp_tools_proxy.domain.errors import StateUnavailable
from mcp_tools_proxy.storage.runs.run_store import RunStore
from tests.api.mail_service import a_run, write_policies
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.configuration import write_json
from tests.support.service import CONFIG_DIR, Service, running

NO_READ = """
@id("no-read")
forbid(principal, action == Action::"list_available_tools", resource) when {
  context has run && context.run.seen.contains("label:reads_untrusted")
};
"""
PAGES = ("Pumps need oil.", "Valves need care.")
FOREIGN = replace(make_document(doc_id="foreign", pages=PAGES), is_untrusted=True)
OWN = make_document(doc_id="own", pages=("Filters need water.",))
CHUNK = {"chunk_id": "c1", "page": 1, "chunk_index": 0, "text": "Pumps need oil."}
READS: list[tuple[str, dict[str, Any]]] = [
    ("read_doc_pages", {"page_start": 1, "page_end": 1}),
    ("doc_local_search", {"query": "oil"}),
    ("read_doc_metadata", {}),
    ("verify_quote", {"quote": "Pumps need oil."}),
    ("read_doc_section", {"section_id": "none"}),
]


async def has_read(service: Service, run: Any) -> bool:
    """Return whether the run has read untrusted text, as the policy sees it."""
    return await service.code("list_available_tools", run=run) == "POLICY_DENIED"


@pytest.mark.parametrize(("tool", "arguments"), READS)
async def test_each_tool_over_a_marked_document_marks_its_run(
    tool: str, arguments: dict[str, Any]
) -> None:
    write_policies(NO_READ)
    async with running(FOREIGN, OWN) as service:
        run, other = a_run(), a_run()
        await service.execute(tool, {"doc_id": "own", **arguments}, run=run)
        assert not await has_read(service, run)
        await service.execute(tool, {"doc_id": "foreign", **arguments}, run=run)
        assert await has_read(service, run)
        assert not await has_read(service, other)


async def test_one_untrusted_excerpt_marks_a_search() -> None:
    write_policies(NO_READ)
    async with running(FOREIGN, OWN) as service:
        run = a_run()
        assert await service.code("search_documents", {"query": "water"}, run=run) == "OK"
        assert not await has_read(service, run)
        with capture_logs() as lines:
            found = await service.result("search_documents", {"query": "need"}, run=run)
        assert {it["doc_id"] for it in found["places"]} >= {"own", "foreign"}
        assert await has_read(service, run)
        (line,) = (it for it in lines if it["event"] == "tool.call")
        assert sorted(line["labels"]) == ["reads_private", "reads_untrusted"]
        read = {it["doc_id"]: it for it in line["read"]}
        assert (read["foreign"]["untrusted"], "untrusted" in read["own"]) == (True, False)


async def test_the_id_of_an_untrusted_copy_marks_a_search() -> None:
    write_policies(NO_READ)
    copies = [make_document(doc_id=it, pages=PAGES) for it in ("a", "b")]
    async with running(copies[0], replace(copies[1], is_untrusted=True)) as service:
        run = a_run()
        found = await service.result("search_documents", {"query": "oil"}, run=run)
        (place,) = (it for it in found["places"] if it["doc_id"] in ("a", "b"))
        assert len(place["copies"]) == 1
        assert await has_read(service, run)


async def test_a_list_with_an_untrusted_title_marks_its_run() -> None:
    write_policies(NO_READ)
    async with running(FOREIGN, OWN) as service:
        run = a_run()
        filtered = {"query": "own"}
        assert await service.code("list_documents", filtered, run=run) == "OK"
        assert not await has_read(service, run)
        assert await service.code("list_documents", run=run) == "OK"
        assert await has_read(service, run)


async def test_resources_are_marked_like_the_tools_if_labels_say_that_they_are_trusted() -> None:
    write_policies(NO_READ)
    reads = {"labels": ["reads_private"]}
    write_json(CONFIG_DIR / "labels.json", {"tools": {"resources/read": reads}})
    async with running(FOREIGN, OWN) as service:
        run = a_run()
        for doc_id, expected in (("own", False), ("foreign", True)):
            body = {
                "uri": f"doc://{doc_id}",
                "user": {"user_id": "user_1", "tenant_id": "tenant_1"},
            }
            answer = await service.http.post(
                "/internal/mcp/resources/read", json={**body, "run": run}
            )
            assert answer.json()["status"] == "ok", answer.text
            assert await has_read(service, run) is expected


async def test_a_window_of_a_marked_document_marks_its_run_even_if_retrieval_decides() -> None:
    write_policies(NO_READ)
    async with running(
        FOREIGN,
        retrieval_transport=httpx.MockTransport(
            lambda _: httpx.Response(200, json={"chunks": [CHUNK]})
        ),
        retrieval_window_url="http://retrieval/window",
        mock_mode=False,
    ) as service:
        run = a_run()
        for doc_id, expected in (("elsewhere", False), ("foreign", True)):
            window = {"doc_id": doc_id, "anchor_chunk_id": "c1"}
            assert await service.code("read_chunk_window", window, run=run) == "OK"
            assert await has_read(service, run) is expected


async def test_an_answer_does_not_leave_if_its_run_cannot_be_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_policies(NO_READ)
    async with running(FOREIGN, OWN) as service:
        run = a_run()
        store = type(service.gateway.runs)
        update = store.update

        async def fails(self: RunStore, *values: Any, may_begin: bool = True) -> Any:
            if not may_begin:
                raise StateUnavailable("the store is down")
            return await update(self, *values, may_begin=may_begin)

        monkeypatch.setattr(store, "update", fails)
        pages = {"page_start": 1, "page_end": 1}
        assert await service.code("read_doc_pages", {"doc_id": "own", **pages}, run=run) == "OK"
        code = await service.code("read_doc_pages", {"doc_id": "foreign", **pages}, run=run)
        assert code == "STATE_UNAVAILABLE"
        code = await service.code("search_documents", {"query": "oil"}, run=run)
        assert code == "STATE_UNAVAILABLE"
        code = await service.code(
            "read_doc_section", {"doc_id": "foreign", "section_id": "x"}, run=run
        )
        assert code == "STATE_UNAVAILABLE"
        assert await service.code("list_available_tools", run=run) == "OK"
