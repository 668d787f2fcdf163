"""Access to budgets, and reloading of limits.json."""

from pathlib import Path

import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.configuration import Config, Json, make_rule, write_json
from tests.support.service import CONFIG_DIR, READY, Service, eventually, running
from tests.support.tokens import MODES, bearer, file_token, token_settings

LIMITS = "/internal/mcp/limits"
METADATA = {"doc_id": "doc_1"}
AUDIT = (OperatorRight.AUDIT,)
RULE = make_rule("per_user", each=["user"], calls=3)


async def code(service: Service, token: str, **query: str) -> str:
    if service.gateway.tokens is not None:
        await service.gateway.tokens.load()
    answer = (await service.http.get(LIMITS, params=query, headers=bearer(token))).json()
    return str(answer["error"]["code"]) if "error" in answer else "OK"


@pytest.mark.parametrize("mode", MODES)
async def test_a_token_can_read_only_the_budgets_of_its_tenant(mode: str) -> None:
    settings, mint = MODES[mode]
    async with running(rate_limit_tenant_calls=5, **settings()) as service:
        token = mint(user="ann")
        found = [
            await code(service, token, **query)
            for query in (
                {},
                {"tenant_id": "tenant_1"},
                {"tenant_id": "tenant_2"},
                {"tenant_id": "tenant_1", "user_id": "bob"},
            )
        ]
        assert found == ["OK", "OK", "FORBIDDEN", "FORBIDDEN"]


RIGHTS: list[tuple[Json, dict[str, str], str]] = [
    ({"tenant": None, "may": AUDIT}, {"tenant_id": "tenant_2"}, "OK"),
    ({"tenant": None, "may": AUDIT}, {"tenant_id": "tenant_2", "user_id": "u"}, "OK"),
    ({"tenant": None, "may": AUDIT}, {}, "FORBIDDEN"),
    ({"tenant": "tenant_1", "may": AUDIT}, {"tenant_id": "tenant_2"}, "FORBIDDEN"),
    ({"tenant": "tenant_1", "user": "a", "may": AUDIT}, {"tenant_id": "tenant_1"}, "OK"),
    (
        {"tenant": "tenant_1", "user": "a", "may": AUDIT},
        {"tenant_id": "tenant_1", "user_id": "b"},
        "OK",
    ),
    (
        {"tenant": None, "may": (OperatorRight.PRESETS, OperatorRight.DOCUMENTS)},
        {"tenant_id": "tenant_2"},
        "FORBIDDEN",
    ),
]


@pytest.mark.parametrize(("token", "query", "expected"), RIGHTS)
async def test_another_tenant_needs_the_right_audit(
    token: Json, query: dict[str, str], expected: str
) -> None:
    async with running(rate_limit_tenant_calls=5, **token_settings()) as service:
        assert await code(service, file_token(**token), **query) == expected


async def test_an_operator_sees_the_remaining_budgets_of_a_tenant() -> None:
    async with running(rate_limit_tenant_calls=5, **token_settings()) as service:
        operator = file_token(tenant=None, may=AUDIT)
        caller = file_token(user="ann")
        assert await code(service, operator, tenant_id="tenant_1") == "OK"
        await service.http.post(
            "/internal/mcp/execute",
            json={"tool_name": "read_doc_metadata", "arguments": METADATA},
            headers=bearer(caller),
        )
        answer = await service.http.get(
            LIMITS, params={"tenant_id": "tenant_1"}, headers=bearer(operator)
        )
        assert [it["remaining"] for it in answer.json()["limits"]] == [4]


async def test_changed_rules_apply_at_runtime() -> None:
    async with running(config=Config()) as service:
        write_json(CONFIG_DIR / "limits.json", {"rules": [RULE]})

        async def refuses() -> bool:
            return await service.code("read_doc_metadata", METADATA) == "RATE_LIMIT_EXCEEDED"

        await eventually(refuses)


async def test_an_invalid_file_leaves_the_rules_active_and_is_reported() -> None:
    async with running(config=Config(limits=[RULE])) as service:
        (CONFIG_DIR / "limits.json").write_text('{"rules": [{"name": "x"}]}', encoding="utf-8")

        async def is_reported() -> bool:
            return "limits.json" in str((await service.get(READY))["checks"]["config"])

        await eventually(is_reported)
        codes = [await service.code("read_doc_metadata", METADATA) for _ in range(4)]
        assert codes == ["OK"] * 3 + ["RATE_LIMIT_EXCEEDED"]


async def test_a_file_that_is_invalid_at_the_start_refuses_calls_until_it_is_fixed(
    tmp_path: Path,
) -> None:
    del tmp_path
    CONFIG_DIR.mkdir(parents=True, exist_ok=True)
    (CONFIG_DIR / "limits.json").write_text("{", encoding="utf-8")
    async with running() as service:
        envelope = await service.execute("read_doc_metadata", METADATA)
        assert envelope["error"] == {
            "code": "LIMITS_UNAVAILABLE",
            "message": "limits.json is invalid, so budgets are unknown; ask an operator to fix it",
            "retryable": True,
        }
        listed = await service.get(LIMITS, tenant_id="tenant_1")
        assert listed["error"]["code"] == "LIMITS_UNAVAILABLE"
        report = await service.get(READY)
        assert report["status"] == "degraded"
        assert ("until it is fixed, all calls are refused") in str(
            report["checks"]["config"]["problems"]
        )
        write_json(CONFIG_DIR / "limits.json", {"rules": [RULE]})

        async def is_taken() -> bool:
            return await service.code("read_doc_metadata", METADATA) == "OK"

        await eventually(is_taken)


async def test_a_rule_for_an_agent_or_tool_counts_only_its_calls() -> None:
    rules = [make_rule("sections", {"tool": "read_doc_section"}, calls=1)]
    async with running(config=Config(limits=rules)) as service:
        section = {"doc_id": "doc_1", "section_id": "none"}
        codes = [await service.code("read_doc_section", section) for _ in range(2)]
        codes += [await service.code("read_doc_metadata", METADATA) for _ in range(2)]
        assert codes == ["SECTION_NOT_FOUND", "RATE_LIMIT_EXCEEDED", "OK", "OK"]
