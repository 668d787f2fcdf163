"""The version of a document in a call (contract §2)."""

from typing import Any

import pytest

from tests.api.document_operator import NEW, Operator, operated

QUERY = {"tenant_id": "acme", "doc_id": "manual"}
TEXTS = {"The old manual": "Turn the valve to 12 bar.", "The new manual": "Turn it to 14."}
CALLS: dict[str, dict[str, Any]] = {
    "read_doc_pages": {"page_start": 1, "page_end": 1},
    "read_doc_section": {"section_id": "the-old-manual"},
    "read_doc_metadata": {},
    "doc_local_search": {"query": "valve"},
    "verify_quote": {"quote": "Turn the valve to 12 bar."},
}


async def put(operator: Operator) -> list[str]:
    versions: list[str] = []
    for title, text in TEXTS.items():
        expected = {"If-Match": f'"{versions[0]}"'} if versions else NEW
        section_id = title.lower().replace(" ", "-")
        section = {"section_id": section_id, "title": title, "page_start": 1, "page_end": 1}
        more = {"title": title, "sections": [section]}
        put = await operator.put_json(text, QUERY, more=more, **expected)
        versions.append(put.json()["version"])
    return versions


async def call(operator: Operator, tool: str, **arguments: Any) -> Any:
    body = {
        "tool_name": tool,
        "arguments": {"doc_id": "manual", **CALLS[tool], **arguments},
        "user": {"user_id": "bob", "tenant_id": "acme"},
    }
    response = await operator.service.http.post("/internal/mcp/execute", json=body)
    assert response.status_code == 200
    return response.json()


def named(result: Any) -> set[str]:
    sources = result.get("sources", result.get("matches"))
    if sources is None:
        sources = [it for snippet in result["snippets"] for it in snippet["sources"]]
    return {source["version"] for source in sources}


@pytest.mark.parametrize("tool", sorted(CALLS.keys() - {"read_doc_metadata"}))
async def test_a_tool_reads_the_requested_version(tool: str) -> None:
    async with operated() as operator:
        old, new = await put(operator)
        envelope = await call(operator, tool, version=old)
        assert envelope["status"] == "ok", envelope
        assert named(envelope["result"]) == {old}
        assert old != new


async def test_metadata_belong_to_the_requested_version() -> None:
    async with operated() as operator:
        old, new = await put(operator)
        seen = [
            (await call(operator, "read_doc_metadata", version=version))["result"]["title"]
            for version in (old, new, None)
        ]
        assert seen == ["The old manual", "The new manual", "The new manual"]


@pytest.mark.parametrize("tool", CALLS)
async def test_a_version_that_is_not_kept_is_gone(tool: str) -> None:
    async with operated(documents_keep_versions=1) as operator:
        old, new = await put(operator)
        error = (await call(operator, tool, version=old))["error"]
        assert (error["code"], error["details"]) == ("VERSION_GONE", {"version": new})
        assert error["message"] == (
            f'version "{old}" of document "manual" is not kept; the current version is {new}: '
            "leave out version to read it, and check your citations again"
        )


@pytest.mark.parametrize("version", ["", "latest", "A" * 64, "0" * 63, "0" * 65, 1, []], ids=repr)
async def test_a_malformed_version_is_an_invalid_argument(version: object) -> None:
    async with operated() as operator:
        await put(operator)
        error = (await call(operator, "read_doc_metadata", version=version))["error"]
        assert (error["code"], error["details"]) == (
            "INVALID_ARGUMENTS",
            {"arguments": ["version"]},
        )


async def test_a_missing_version_charges_only_the_tenant() -> None:
    async with operated(rate_limit_calls=1, rate_limit_tenant_calls=4) as operator:
        await put(operator)
        seen = [
            (await call(operator, "read_doc_metadata", version=version))["status"]
            for version in ("0" * 64, "1" * 64, None)
        ]
        assert seen == ["error", "error", "ok"]
        error = (await call(operator, "read_doc_metadata", version="2" * 64))["error"]
        assert error["code"] == "VERSION_GONE"
        error = (await call(operator, "read_doc_metadata", version="2" * 64))["error"]
        assert error["code"] == "RATE_LIMIT_EXCEEDED"
