"""Budgets that callers see: in envelopes, in headers, and at /internal/mcp/limits."""

import httpx
import pytest

from tests.support.builders import make_document
from tests.support.configuration import Config, make_rule
from tests.support.service import (
    BATCH,
    EXECUTE,
    Service,
    request_of,
    running,
)

LIMITS = "/internal/mcp/limits"
METADATA = {"doc_id": "doc_1"}
RULE = make_rule("per_user", {"tenant": "tenant_1"}, each=["user"], calls=3)


async def sent(service: Service, **more: str) -> httpx.Response:
    return await service.http.post(EXECUTE, json=request_of("read_doc_metadata", METADATA, **more))


async def shown(service: Service, **query: str) -> dict[str, int]:
    answer = await service.get(LIMITS, **query)
    return {f"{it['name']} {it['unit']}": it["remaining"] for it in answer["limits"]}


def rate_limit(response: httpx.Response) -> tuple[str | None, str | None]:
    return response.headers.get("RateLimit"), response.headers.get("RateLimit-Policy")


async def test_an_answer_shows_the_budget_with_the_smallest_remaining_share() -> None:
    async with running(rate_limit_calls=10, rate_limit_tenant_calls=600) as service:
        response = await sent(service)
        assert (response.json()["budget"], *rate_limit(response)) == (
            {"name": "document_calls", "remaining_calls": 9, "reset_s": 60},
            '"document_calls";r=9;t=60',
            '"document_calls";q=10;w=60',
        )


async def test_remaining_tokens_are_shown_after_charging_the_answer_itself() -> None:
    async with running(rate_limit_tenant_tokens=1000) as service:
        response = await sent(service)
        left = response.json()["budget"]["remaining_tokens"]
        assert await shown(service, tenant_id="tenant_1") == {"tenant_tokens tokens": left}
        assert rate_limit(response) == (
            f'"tenant_tokens";r={left};t=60',
            '"tenant_tokens";q=1000;qu="tokens";w=60',
        )


async def test_a_rule_for_calls_and_tokens_is_two_policies() -> None:
    rule = make_rule("both", calls=10, tokens=100_000, window_s=5)
    async with running(config=Config(limits=[rule])) as service:
        response = await sent(service)
        budget = response.json()["budget"]
        assert (budget["remaining_calls"], budget["remaining_tokens"] > 99_000) == (9, True)
        assert rate_limit(response) == ('"both.calls";r=9;t=5', '"both.calls";q=10;w=5')


async def test_without_budgets_nothing_is_shown() -> None:
    async with running() as service:
        response = await sent(service)
        assert ("budget" in response.json(), *rate_limit(response)) == (False, None, None)


async def test_a_refusal_shows_the_exhausted_budget_and_its_headers() -> None:
    async with running(config=Config(limits=[RULE])) as service:
        answers = [await sent(service) for _ in range(4)]
        last = answers[-1]
        assert [it.json()["budget"]["remaining_calls"] for it in answers] == [2, 1, 0, 0]
        assert last.json()["error"]["details"] == {"budget": "per_user", "limit": 3, "window_s": 60}
        reset_s = last.json()["budget"]["reset_s"]
        assert rate_limit(last) == (f'"per_user";r=0;t={reset_s}', '"per_user";q=3;w=60')
        assert int(last.headers["Retry-After"]) == reset_s


async def test_a_call_that_fails_after_admission_shows_its_budget() -> None:
    async with running(rate_limit_calls=10) as service:
        arguments = {"doc_id": "doc_1", "section_id": "none"}
        envelope = await service.execute("read_doc_section", arguments)
        assert (envelope["error"]["code"], envelope["budget"]["remaining_calls"]) == (
            "SECTION_NOT_FOUND",
            9,
        )


async def test_a_call_for_a_missing_document_shows_the_tenants_budget() -> None:
    async with running(rate_limit_calls=10, rate_limit_tenant_calls=600) as service:
        envelope = await service.execute("read_doc_metadata", {"doc_id": "none"})
        assert envelope["budget"]["name"] == "tenant_calls"


async def test_a_call_that_is_refused_before_admission_shows_no_budget() -> None:
    async with running(rate_limit_calls=10) as service:
        for tool in ("none", "read_doc_metadata"):
            response = await service.http.post(EXECUTE, json=request_of(tool))
            assert ("budget" in response.json(), *rate_limit(response)) == (False, None, None)


async def test_a_replayed_answer_shows_no_budget() -> None:
    async with running(rate_limit_calls=10) as service:
        first, second = [await sent(service, idempotency_key="k" * 16) for _ in range(2)]
        assert "budget" in first.json()
        assert second.json()["replayed"] is True
        assert ("budget" in second.json(), *rate_limit(second)) == (False, None, None)


async def test_batch_envelopes_show_their_own_budgets_and_the_response_has_no_headers() -> None:
    async with running(make_document(doc_id="other"), rate_limit_calls=2) as service:
        calls = [
            {"tool_name": "read_doc_metadata", "arguments": {"doc_id": doc_id}}
            for doc_id in ("doc_1", "doc_1", "doc_1", "other", "none")
        ]
        body = {"calls": calls, "user": {"user_id": "u", "tenant_id": "tenant_1"}}
        response = await service.http.post(BATCH, json=body)
        budgets = [it.get("budget") for it in response.json()["results"]]
        left = [it and it["remaining_calls"] for it in budgets]
        assert (sorted(left[:3]), left[3:], rate_limit(response)) == (
            [0, 0, 1],
            [1, None],
            (None, None),
        )


async def test_limits_shows_each_applicable_budget_and_charges_nothing() -> None:
    rules = [
        RULE,
        make_rule("tool", {"tool": "read_doc_metadata"}, tokens=500, window_s=30),
        make_rule("other", {"tenant": "tenant_2"}, calls=1),
    ]
    async with running(config=Config(limits=rules), rate_limit_calls=10) as service:
        await sent(service)
        query = {"tenant_id": "tenant_1", "user_id": "user_1"}
        assert await shown(service, **query) == {"per_user calls": 2}
        assert await shown(service, tenant_id="tenant_1", user_id="other") == {"per_user calls": 3}
        query |= {"doc_id": "doc_1", "tool": "read_doc_metadata"}
        answers = [await service.get(LIMITS, **query) for _ in range(3)]
        limits = answers[-1]["limits"]
        assert [it.pop("reset_s") > 0 for it in limits] == [True] * 3
        assert limits.pop().items() > {"name": "tool", "unit": "tokens", "limit": 500}.items()
        assert limits == [
            {
                "name": "document_calls",
                "unit": "calls",
                "limit": 10,
                "remaining": 9,
                "window_s": 60,
            },
            {"name": "per_user", "unit": "calls", "limit": 3, "remaining": 2, "window_s": 60},
        ]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({}, "INVALID_REQUEST"),
        ({"tenant_id": ""}, "INVALID_REQUEST"),
        ({"tenant_id": "a", "tool": "none"}, "TOOL_NOT_FOUND"),
    ],
)
async def test_an_invalid_limits_request_is_refused(query: dict[str, str], code: str) -> None:
    async with running(rate_limit_calls=1) as service:
        assert (await service.get(LIMITS, **query))["error"]["code"] == code


async def test_a_duplicate_parameter_is_refused() -> None:
    async with running(rate_limit_calls=1) as service:
        response = await service.http.get(f"{LIMITS}?tenant_id=a&tenant_id=b")
        assert (response.status_code, response.json()["error"]["details"]) == (
            422,
            {"field": "tenant_id"},
        )
