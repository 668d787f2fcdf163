"""Reasons in the operators' view and in records: readers, switched presets, explain."""

import re
from typing import Any

import pytest

from mcp_tools_proxy.domain.document import Readers
from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.console_browser import ADMIN, running_console
from tests.support.service import ACTIVE, Service, request_of, running
from tests.support.tokens import bearer, file_token, token_settings

EXPLAIN = "/internal/mcp/explain"
AUDIT = "/internal/mcp/audit"
PRESETS = [make_preset("one"), make_preset("two")]
PAYROLL = make_document(
    tenant_id="acme", doc_id="payroll", readers=Readers(users=frozenset({"ann"}))
)
READERS = {"file": "document", "path": "$.readers"}
PROFILE_DOCUMENTS = {"file": "agents.json", "path": '$.agents[?@.name=="desk"].documents'}


async def records(service: Service, **query: str) -> list[dict[str, Any]]:
    answer = await service.http.get(AUDIT, params=query, headers=bearer(ADMIN))
    found: list[dict[str, Any]] = answer.json()["records"]
    return found


# Readers of a document


@pytest.mark.parametrize("hides", [False, True], ids=["denied", "hidden"])
async def test_operators_see_that_the_readers_decided_and_callers_do_not(*, hides: bool) -> None:
    async with running(PAYROLL, admin_token=ADMIN, hide_foreign_documents=hides) as service:
        body = request_of("read_doc_metadata", {"doc_id": "payroll"}, tenant_id="acme")
        error = (await service.http.post("/internal/mcp/execute", json=body)).json()["error"]
        assert error["code"] == ("DOCUMENT_NOT_FOUND" if hides else "ACCESS_DENIED")
        assert "reader" not in str(error)
        answer = (await service.http.post(EXPLAIN, json=body, headers=bearer(ADMIN))).json()
        (check,) = (it for it in answer["checks"] if it["check"] == "document")
        assert ("readers do not include" in check["reason"], answer["rule"]) == (True, READERS)
        (record,) = await records(service, tool="read_doc_metadata")
        payload = record["payload"]
        assert (payload["rule"], payload["doc_id"]) == (READERS, "payroll")
        assert "readers do not include" in payload["reason"]


@pytest.mark.parametrize("hides", [False, True], ids=["denied", "hidden"])
@pytest.mark.parametrize("doc_id", ["payroll", "missing"])
async def test_operators_see_that_the_document_does_not_exist(doc_id: str, *, hides: bool) -> None:
    async with running(PAYROLL, admin_token=ADMIN, hide_foreign_documents=hides) as service:
        body = request_of("read_doc_metadata", {"doc_id": doc_id}, tenant_id="other")
        error = (await service.http.post("/internal/mcp/execute", json=body)).json()["error"]
        assert "tenant" not in str(error)
        answer = (await service.http.post(EXPLAIN, json=body, headers=bearer(ADMIN))).json()
        (check,) = (it for it in answer["checks"] if it["check"] == "document")
        (record,) = await records(service, tool="read_doc_metadata")
        for reason in (check["reason"], record["payload"]["reason"]):
            assert reason.startswith("the tenant does not have a document with this id")
            assert ("another tenant has one" in reason) == (doc_id == "payroll" and not hides)
        assert "rule" not in answer


@pytest.mark.parametrize("tool", ["read_doc_metadata", "read_chunk_window"])
async def test_operators_see_that_the_agents_profile_names_other_documents(tool: str) -> None:
    config = Config(agents=[make_agent("desk", documents=["handbook", "prices"])])
    async with running(
        PAYROLL, admin_token=ADMIN, config=config, retrieval_window_url="local"
    ) as service:
        arguments = {"doc_id": "payroll"}
        if tool == "read_chunk_window":
            arguments |= {"anchor_chunk_id": "p1-c1"}
        body = {**request_of(tool, arguments, user_id="ann", tenant_id="acme"), "agent": "desk"}
        error = (await service.http.post("/internal/mcp/execute", json=body)).json()["error"]
        assert (error["code"], "profile" in str(error)) == ("ACCESS_DENIED", False)
        answer = (await service.http.post(EXPLAIN, json=body, headers=bearer(ADMIN))).json()
        assert answer["rule"] == PROFILE_DOCUMENTS
        (record,) = await records(service, tool=tool)
        assert record["payload"]["rule"] == PROFILE_DOCUMENTS
        narrower = {**body, "documents": ["handbook"]}
        answer = (await service.http.post(EXPLAIN, json=narrower, headers=bearer(ADMIN))).json()
        assert (answer["decision"], "rule" in answer) == ("ACCESS_DENIED", False)


async def test_the_page_of_a_call_links_to_the_readers() -> None:
    async with running_console() as console:
        console.service.gateway.repository.hold(PAYROLL)
        await console.service.execute("read_doc_metadata", {"doc_id": "payroll"}, tenant_id="acme")
        calls = await console.browser.open("/console/calls?tool=read_doc_metadata")
        (link,) = {it for it in calls.links if re.match(r"/console/calls/\d+\?at=", it)}
        page = await console.browser.open(link)
        assert "/console/documents/manage?tenant_id=acme&doc_id=payroll" in page.links


# Changes of the configuration


async def test_a_preset_switch_is_recorded_with_its_actor() -> None:
    token = file_token(tenant=None, may=[OperatorRight.PRESETS, OperatorRight.AUDIT])
    config = Config(presets=PRESETS, more={"defaultPresetId": "one"})
    async with running(config=config, **token_settings()) as service:
        headers = bearer(token)
        body = {"preset_id": "two", "persist": False}
        await service.http.put(ACTIVE, json=body, headers=headers)
        answer = await service.http.get(AUDIT, params={"event": "preset.switched"}, headers=headers)
        (record,) = answer.json()["records"]
        payload = record["payload"]
        assert (payload["preset_id"], payload["before"], payload["persisted"]) == (
            "two",
            "one",
            False,
        )
        assert len(payload["token_id"]) == 8


async def test_without_tokens_the_actor_is_loopback() -> None:
    config = Config(presets=PRESETS, more={"defaultPresetId": "one"})
    async with running(config=config) as service:
        with capture_logs() as lines:
            await service.http.put(ACTIVE, json={"preset_id": "two"})
        (record,) = (it for it in lines if it["event"] == "preset.switched")
        assert (record["token_id"], record["code"]) == ("(loopback)", "OK")


async def test_a_failed_switch_is_recorded() -> None:
    async with running(config=Config(presets=PRESETS, more={"defaultPresetId": "one"})) as service:
        with capture_logs() as lines:
            await service.http.put(ACTIVE, json={"preset_id": "three"})
        codes = {it["code"] for it in lines if it.get("preset_id") == "three"}
        assert codes == {"PRESET_NOT_FOUND"}


# Explain without a token


async def test_explain_needs_no_token_if_switching_presets_needs_none() -> None:
    async with running() as service:
        body = request_of("read_doc_metadata", {"doc_id": "doc_1"})
        with capture_logs() as lines:
            answer = await service.http.post(EXPLAIN, json=body)
        assert (answer.status_code, answer.json()["decision"]) == (200, "pass")
        assert [it for it in lines if it.get("code") == "FORBIDDEN"] == []


@pytest.mark.parametrize(
    ("settings", "headers", "status"),
    [
        ({"admin_token": ADMIN}, {}, 401),
        ({"host": "0.0.0.0", "allowed_hosts": ("*",)}, {}, 403),  # noqa: S104
        ({}, {"Origin": "http://elsewhere"}, 403),
    ],
    ids=["an admin token", "beyond loopback", "a browser"],
)
async def test_explain_needs_a_token_elsewhere(
    settings: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    async with running(**settings) as service:
        body = request_of("read_doc_metadata", {"doc_id": "doc_1"})
        answer = await service.http.post(EXPLAIN, json=body, headers=headers)
        assert answer.status_code == status
