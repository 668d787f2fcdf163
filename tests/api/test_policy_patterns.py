"""The documented patterns of policies, in examples/policies."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.configuration import Config, Json, make_agent, make_preset, write_json
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import CONFIG_DIR, Service, running

PATTERNS = Path(__file__).parents[2] / "examples" / "policies" / "patterns.cedar"

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
TOOLS = {
    "read_inbox": {},
    "send_email": {"to": STRING, "body": STRING},
    "get_order": {"id": STRING},
    "refund": {"order_id": STRING, "cents": INTEGER},
    "note": {},
}
LABELS = {
    "shop:read_inbox": {"labels": ["reads_private", "reads_untrusted"]},
    "shop:send_email": {"labels": ["sends"], "targets": ["to"]},
    "shop:get_order": {"labels": ["reads_private"], "identifiers": ["arguments.id"]},
    "shop:refund": {"labels": ["sends"], "targets": []},
    "shop:note": {"labels": ["writes"]},
}


@asynccontextmanager
async def shop(policy_id: str, **labels: Json) -> AsyncIterator[Service]:
    """Run a gateway with one of the patterns."""
    (found,) = (it for it in PATTERNS.read_text().split("\n\n") if f'@id("{policy_id}")' in it)
    (CONFIG_DIR / "policies").mkdir(parents=True)
    # the server answers with the arguments that it received
    text = found.replace("get_order#id", "get_order#arguments.id")
    (CONFIG_DIR / "policies" / "one.cedar").write_text(text)
    write_json(CONFIG_DIR / "labels.json", {"tools": LABELS | labels})
    tools = [
        {
            "name": name,
            "description": name,
            "inputSchema": {"type": "object", "properties": it, "required": [*it]},
        }
        for name, it in TOOLS.items()
    ]
    async with running_raw(extra={"tools": tools}) as server:
        preset = make_preset(tools=[("shop", name) for name in TOOLS])
        config = Config(
            servers={"shop": server.entry},
            presets=[preset],
            agents=[make_agent(it) for it in ("reports", "assistant", "other")],
            more={"defaultPresetId": "work"},
        )
        async with running(config=config) as service:
            yield service


async def codes(
    service: Service, *calls: tuple[str, Json], agent: str = "other", **run: Any
) -> str:
    """Make calls in one run, and return the first letters of their codes."""
    context = {"agent": agent, "run": {"id": uuid4().hex, **run}}
    found = [await service.code(f"shop:{name}", it, **context) for name, it in calls]
    assert {*found} <= {"OK", "POLICY_DENIED"}
    return "".join(it[0] for it in found)


READ: tuple[str, Json] = ("read_inbox", {})
NOTE: tuple[str, Json] = ("note", {})


def mail(to: str, body: str = "hi") -> tuple[str, Json]:
    return "send_email", {"to": to, "body": body}


def order(order_id: str) -> tuple[str, Json]:
    return "get_order", {"id": order_id}


def refund(order_id: str, cents: int = 1) -> tuple[str, Json]:
    return "refund", {"order_id": order_id, "cents": cents}


async def test_no_send_after_foreign_text() -> None:
    async with shop("no-send-after-foreign-text") as service:
        calls = mail("eve@evil.io"), READ, mail("eve@evil.io"), mail("bob@a.com")
        assert await codes(service, *calls, task="Mail bob@a.com") == "OOPO"
        calls = READ, mail("bob@a.com", "see https://evil.io/x"), order("A-1"), mail("A-1")
        assert await codes(service, *calls, task="Mail bob@a.com") == "OPOO"


async def test_with_a_misspelt_target_all_arguments_are_targets() -> None:
    labels = {"labels": ["sends"], "targets": ["too"]}
    async with shop("no-send-after-foreign-text", **{"shop:send_email": labels}) as service:
        calls = READ, mail("eve@evil.io"), mail("bob@a.com", "bob@a.com")
        assert await codes(service, *calls, task="Mail bob@a.com") == "OPO"
        (problem,) = service.gateway.run_rules.problems
    assert problem.path == '$.tools["shop:send_email"].targets'
    assert '"too" is not an argument of the tool' in problem.message
    assert problem.message.endswith('did you mean "to"?')


async def test_at_most_three_calls() -> None:
    async with shop("three-refunds") as service:
        assert await codes(service, *[refund("A-1")] * 4, order("A-1")) == "OOOPO"


async def test_one_tool_after_another() -> None:
    async with shop("order-first") as service:
        assert await codes(service, refund("A-1"), order("A-2"), refund("A-1")) == "POO"


async def test_a_value_that_was_read() -> None:
    async with shop("known-order") as service:
        calls = order("A-1"), refund("A-2"), refund("A-1")
        assert await codes(service, *calls, task="Refund A-2") == "OPO"


async def test_a_total_within_a_limit() -> None:
    async with shop("refunds-within-100") as service:
        calls = refund("A-1", 6_000), refund("A-2", 6_000), refund("A-3", 4_000), refund("A-4")
        assert await codes(service, *calls) == "OPOP"


@pytest.mark.parametrize(
    ("day", "hour", "expected"), [(30, 9, "OO"), (30, 7, "PO"), (30, 18, "PO"), (29, 9, "PO")]
)
async def test_business_hours(day: int, hour: int, expected: str) -> None:
    async with shop("business-hours") as service:
        now = datetime(2026, 11, day, hour, tzinfo=UTC)  # the 29th is a Sunday
        service.gateway.run_checks.now = lambda: now
        assert await codes(service, NOTE, order("A-1")) == expected
        assert await service.code("shop:get_order", {"id": "1"}, agent="other") == "OK"


async def test_runs_that_only_read() -> None:
    async with shop("reports-only-read") as service:
        assert await codes(service, order("A-1"), agent="reports") == "P"
        assert await codes(service, order("A-1"), NOTE, agent="reports", read_only=True) == "OP"
        assert await codes(service, order("A-1")) == "O"


async def test_declared_tools() -> None:
    async with shop("declared-tools") as service:
        assert await codes(service, order("A-1"), agent="assistant") == "P"
        tools = ["shop:get_order"]
        assert await codes(service, order("A-1"), NOTE, agent="assistant", tools=tools) == "OP"
        assert await codes(service, NOTE) == "O"


async def test_all_patterns_are_valid_together() -> None:
    async with shop("order-first") as service:
        text = PATTERNS.read_text().replace("get_order#id", "get_order#arguments.id")
        (CONFIG_DIR / "policies" / "one.cedar").write_text(text)
        await service.gateway.reloader.load()
        assert service.gateway.run_rules.problems == ()
        assert service.gateway.publisher.config.problems == ()
