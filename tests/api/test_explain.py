"""Explain applies the same checks as the call and has no effects."""

from typing import Any

import pytest

from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.service import Service, running
from tests.support.tokens import bearer

EXPLAIN = "/internal/mcp/explain"
ADMIN = "correct-horse-battery"
USER = {"user_id": "u", "tenant_id": "tenant_1"}
METADATA = "read_doc_metadata"


async def explain(service: Service, tool: str, arguments: Any = None, **more: Any) -> Any:
    body = {"tool_name": tool, "arguments": arguments or {}, "user": USER, **more}
    answer = await service.http.post(EXPLAIN, json=body, headers=bearer(ADMIN))
    return answer.json()


CALLS: list[tuple[str, dict[str, object], dict[str, object]]] = [
    (METADATA, {"doc_id": "doc_1"}, {}),
    (METADATA, {"doc_id": "none"}, {}),
    (METADATA, {"doc_id": "foreign"}, {}),
    (METADATA, {}, {}),
    (METADATA, {"doc_id": "doc_1"}, {"agent": "nobody"}),
    (METADATA, {"doc_id": "doc_1"}, {"agent": "narrow"}),
    ("read_doc_pages", {"doc_id": "doc_1", "page_start": 1, "page_end": 99}, {}),
    ("read_chunk_window", {"doc_id": "doc_1", "anchor_chunk_id": "c"}, {}),
    ("nothing", {}, {}),
    ("notes:search", {}, {}),
    ("doc_local_search", {"doc_id": "doc_1", "query": "a leak here"}, {}),
]


@pytest.mark.parametrize(("tool", "arguments", "more"), CALLS)
async def test_the_explanation_matches_the_outcome_of_the_call(
    tool: str, arguments: dict[str, object], more: dict[str, object]
) -> None:
    config = Config(agents=[make_agent("narrow", exclude=[METADATA])])
    async with running(
        make_document(doc_id="foreign", tenant_id="tenant_2"),
        admin_token=ADMIN,
        blocklist_keywords="leak",
        require_agent=False,
        config=config,
    ) as service:
        shown = await explain(service, tool, arguments, **more)
        made = await service.code(tool, arguments, **more)
    assert shown["decision"] == ("pass" if made == "OK" else made)
    refusing = [it for it in shown["checks"] if it["verdict"] == made]
    assert [it["check"] for it in refusing] == ([shown["check"]] if made != "OK" else [])


async def test_the_explanation_of_an_allowed_call_has_target_arguments_and_budgets() -> None:
    async with running(unlimited=False, admin_token=ADMIN) as service:
        shown = await explain(service, METADATA, {"doc_id": "doc_1"})
    assert shown["sends"] == {"to": "documents", "arguments": ["doc_id"]}
    assert {it["verdict"] for it in shown["checks"]} == {"pass"}
    left = {it["name"]: (it["limit"], it["remaining"]) for it in shown["budgets"]}
    assert left["document_calls"] == (120, 120)
    assert left["tenant_calls"] == (6000, 6000)
    assert shown["budgets"][0]["rule"]["file"] == "settings"


async def test_explain_charges_and_runs_nothing() -> None:
    async with running(unlimited=False, rate_limit_calls=2, admin_token=ADMIN) as service:
        for _ in range(5):
            assert (await explain(service, METADATA, {"doc_id": "doc_1"}))["decision"] == "pass"
        codes = [await service.code(METADATA, {"doc_id": "doc_1"}) for _ in range(3)]
        assert codes == ["OK", "OK", "RATE_LIMIT_EXCEEDED"]
        shown = await explain(service, METADATA, {"doc_id": "doc_1"})
    assert (shown["decision"], shown["check"]) == ("RATE_LIMIT_EXCEEDED", "budget")
    assert shown["rule"] == {"file": "settings", "path": "MCP_PROXY_RATE_LIMIT_CALLS"}
    verdicts = [it["verdict"] for it in shown["checks"]]
    assert verdicts[-2:] == ["not_reached", "not_reached"]


async def test_the_rule_of_a_preset_is_named_with_its_file(service: Service) -> None:
    del service
    config = Config(
        servers={"notes": {"command": "true", "enabled": False}},
        presets=[make_preset("work", tools=[("notes", "add")])],
        more={"defaultPresetId": "work"},
    )
    async with running(admin_token=ADMIN, config=config) as started:
        shown = await explain(started, "notes:search")
    assert (shown["decision"], shown["rule"]) == (
        "TOOL_NOT_ALLOWED",
        {"file": "preset_work.json", "path": "$.tools"},
    )


async def test_argument_values_are_in_no_answer_or_record() -> None:
    async with running(admin_token=ADMIN) as service:
        with capture_logs() as lines:
            shown = await explain(
                service, "doc_local_search", {"doc_id": "doc_1", "query": "top secret"}
            )
    assert "top secret" not in str(shown)
    assert "top secret" not in str(lines)


async def test_explain_needs_the_right() -> None:
    async with running(admin_token=ADMIN) as service:
        answer = await service.http.post(EXPLAIN, json={"tool_name": METADATA, "user": USER})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHENTICATED")


async def test_a_user_is_required() -> None:
    async with running(admin_token=ADMIN) as service:
        shown = await explain(service, METADATA, user={"tenant_id": "tenant_1"})
    assert shown["error"]["details"] == {"field": "user.user_id"}
