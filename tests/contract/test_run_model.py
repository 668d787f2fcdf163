"""Random runs: the gateway decides like the model of the rules that was written separately."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.labels import ActiveLabels, load_labels
from mcp_tools_proxy.config.policies import PolicyFiles, load_policy_files
from mcp_tools_proxy.domain.audit import Entry, Origin
from mcp_tools_proxy.domain.caller import Call, Caller, StandIn
from mcp_tools_proxy.domain.components import ComponentSpec, PromptSpec, ResourceSpec, ToolSpec
from mcp_tools_proxy.domain.configuration import Configuration
from mcp_tools_proxy.domain.errors import InternalError, ProxyError, ToolFailed, errors_by_code
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.domain.outcome import Ok, RunNote
from mcp_tools_proxy.domain.run import RunQuota, RunRequest
from mcp_tools_proxy.gateway.run_checks import RunChecks
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules, RunRules
from mcp_tools_proxy.storage.runs.run_store import MemoryRunStore, RunStore
from tests.contract.compared_runs import TOOLS, Comparison
from tests.contract.random_runs import RandomCall, RandomRun, random_run
from tests.contract.run_model import (
    Decision,
    ModelCall,
    ModelCaller,
    ModelOutcome,
    ModelPolicy,
)
from tests.contract.run_stores import limits, open_replicas
from tests.contract.run_world import DECIDING, LABELS, LOGGING, SCHEMAS, SERVERS, input_schema
from tests.support.builders import no_approvals
from tests.support.configuration import write_json
from tests.support.postgres_databases import Databases
from tests.support.redis_server import RedisServer
from tests.support.virtual_time import ManualClock


class _OwnTool:
    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec


def _spec_of(name: str) -> ComponentSpec:
    server, _, rest = name.rpartition(":")
    if rest == "prompts/get" or rest == "completion/complete":
        return PromptSpec(name="hello", server_id=server, as_mcp={})
    if rest == "resources/read":
        return ResourceSpec(name="x:y", server_id=server, as_mcp={})
    return ToolSpec(
        name=name,
        alias=name.replace(":", "__"),
        description="",
        input_schema=input_schema(name),
        server_id=server or None,
    )


SPECS = {name: _spec_of(name) for name in TOOLS}
OWN = [it for it in SPECS.values() if isinstance(it, ToolSpec) and it.server_id is None]
SNAPSHOTS = {
    server: Snapshot(
        tools={
            name.partition(":")[2]: {"name": name, "inputSchema": input_schema(name)}
            for name in SCHEMAS
            if name.startswith(f"{server}:")
        }
    )
    for server in SERVERS
}


def policy_sets() -> list[tuple[ModelPolicy, ...] | None]:
    """Return all policies, none, and random parts: with all, few calls are made."""
    chance = random.Random(51)  # noqa: S311
    parts = [(*chance.sample(DECIDING, 4), *LOGGING) for _ in range(6)]
    return [None, LOGGING, (*DECIDING, *LOGGING), *parts]


POLICY_SETS = policy_sets()


def rules_of(folder: Path, policies: Sequence[ModelPolicy] | None) -> RunRules:
    """Load the rules from files, as the gateway does."""
    folder.mkdir()
    write_json(folder / "labels.json", {"tools": LABELS})
    if policies is not None:
        (folder / "policies").mkdir()
        (folder / "policies" / "all.cedar").write_text("\n".join(it.text for it in policies))
    config = ActiveConfig(
        configuration=Configuration(invalid=dict.fromkeys(SERVERS, ())),
        labels=ActiveLabels(tools=load_labels(folder)),
        policies=load_policy_files(folder, PolicyFiles()),
    )
    active = ActiveRunRules([_OwnTool(it) for it in OWN])  # type: ignore[misc]
    asyncio.run(active.follow(config, SNAPSHOTS))
    problems = (*config.policies.problems, *active.problems)
    assert not problems, [it.message for it in problems]
    return active.current


@pytest.fixture(scope="module")
def all_rules(tmp_path_factory: pytest.TempPathFactory) -> list[RunRules]:
    folder = tmp_path_factory.mktemp("rules")
    return [rules_of(folder / str(it), found) for it, found in enumerate(POLICY_SETS)]


def call_of(call: ModelCall, prefix: str) -> Call:
    caller = call.caller
    spec = SPECS[call.tool]
    run = None
    if call.run_id is not None:
        run = RunRequest(
            run_id=prefix + call.run_id, task=call.task, tools=call.tools, read_only=call.read_only
        )
    return Call(
        name=spec.name if isinstance(spec, ToolSpec) else f"{spec.server_id}:{spec.name}",
        kind=spec.kind,
        arguments=call.arguments,
        trace_id="t",
        run=run,
        caller=Caller(
            tenant_id=caller.tenant,
            user_id=caller.user,
            roles=caller.roles,
            agent=caller.agent or None,
            token_log_fields={"token_id": caller.token} if caller.token else {},
            origin=Origin(Entry(caller.entry), "127.0.0.1"),
            stand_in=StandIn(reads_documents=True) if caller.is_operator else None,
        ),
    )


def error_of(found: RandomCall) -> ProxyError:
    if found.outcome.code == "NOT_READY":
        return ToolFailed("the report is not ready yet")
    kind = errors_by_code()[found.outcome.code]
    error = kind() if kind is InternalError else kind("no")
    error.retryable = found.retryable
    return error


def decision_of(error: Exception | None, note: RunNote) -> Decision:
    fired = frozenset((it.policy_id, it.mode) for it in note.policies)
    if error is None:
        return Decision(number=note.number, labels=note.labels, fired=fired)
    if not isinstance(error, ProxyError):
        raise error
    details: Mapping[str, Any] = error.details or {}
    ids, limit = details.get("policy_ids", ()), details.get("limit")
    return Decision(code=error.code, ids=frozenset(ids), limit=limit, fired=fired)


ALL_FIELDS = frozenset(("code", "ids", "limit", "number", "labels", "fired"))


class CheckedCalls:
    """RunChecks over one store, or over those of several replicas."""

    shown = ALL_FIELDS
    explained = frozenset(("code", "ids", "limit"))

    def __init__(
        self,
        run: RandomRun,
        stores: Sequence[RunStore],
        rules: RunRules,
        advance: Callable[[float], Awaitable[None]],
        *,
        prefix: str = "",
    ) -> None:
        active = ActiveRunRules(())
        active.current = replace(
            rules,
            quota=RunQuota(**run.limits),
            by_agent={name: RunQuota(**it) for name, it in run.agent_limits.items()},
        )
        self._now = datetime.now(UTC)
        self._checks = [RunChecks(it, active, no_approvals, now=lambda: self._now) for it in stores]
        self._chance = random.Random(run.seed)  # noqa: S311
        self._prefix = prefix
        self._advance = advance

    def _asked(self, found: RandomCall) -> tuple[RunChecks, Call]:
        self._now = found.call.now
        return self._chance.choice(self._checks), call_of(found.call, self._prefix)

    async def wait(self, seconds: float) -> None:
        await self._advance(seconds)

    async def refuse(self, found: RandomCall) -> str:
        checks, call = self._asked(found)
        return (await checks.refused(call, error_of(found))).code

    async def replay(self, found: RandomCall) -> str:
        checks, call = self._asked(found)
        try:
            await checks.replayed(call)
        except ProxyError as error:
            return error.code
        return "OK"

    async def explain(self, found: RandomCall) -> Decision | None:
        checks, call = self._asked(found)
        if found.call.tool.endswith("complete") or not checks.apply_to(call):
            return None
        note, refusal = RunNote(), None
        try:
            await checks.decide(call, SPECS[found.call.tool])
        except ProxyError as error:
            refusal = error
        return decision_of(refusal, note)

    async def call(self, found: RandomCall) -> Decision:
        checks, call = self._asked(found)
        if not checks.apply_to(call):
            return Decision()
        spec, note = SPECS[found.call.tool], RunNote()
        server = _Server(found, spec)
        refusal = None
        completes = found.call.tool.endswith("complete")
        try:
            await checks.call(call, spec, note, server.make, completes=completes)
        except (ProxyError, RuntimeError) as error:
            refusal = error
        return decision_of(None if server.was_called else refusal, note)


class _Server:
    """Receives one call."""

    def __init__(self, found: RandomCall, spec: ComponentSpec) -> None:
        self._found, self._spec = found, spec
        self.was_called = False

    async def make(self, _call: Call) -> Ok:
        found, self.was_called = self._found, True
        for _ in range(found.pauses):
            await asyncio.sleep(0)
        if found.outcome.code == "INTERNAL_ERROR":
            raise RuntimeError
        if found.outcome.code != "OK":
            raise error_of(found)
        return Ok(
            spec=self._spec, result=found.result, result_json=b"{}", tokens=found.outcome.tokens
        )


async def compare(seed: int, all_rules: Sequence[RunRules]) -> int:
    """Compare one run with a store in memory, and return the number of its calls."""
    clock = ManualClock()
    store = MemoryRunStore(limits(), max_bytes=10**8, clock=clock)

    async def advance(seconds: float) -> None:
        clock.now += seconds

    run, which = random_run(seed), seed % len(all_rules)
    gateway = CheckedCalls(run, [store], all_rules[which], advance)
    return await Comparison(run, gateway, POLICY_SETS[which]).compare()


THOUSANDS = [range(it, it + 1_000) for it in range(0, 10_000, 1_000)]


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(200), id="200"),
        *(pytest.param(it, id=f"from {it[0]}", marks=pytest.mark.full) for it in THOUSANDS),
    ],
)
async def test_random_runs_are_decided_like_the_model(
    seeds: range, all_rules: list[RunRules]
) -> None:
    calls = sum([await compare(it, all_rules) for it in seeds])
    assert calls > 10 * len(seeds)


@pytest.mark.parametrize("kind", ["redis", "postgres"])
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(12), id="12"),
        pytest.param(range(300), id="300", marks=pytest.mark.full),
    ],
)
async def test_two_replicas_decide_like_the_model(
    seeds: range,
    kind: str,
    all_rules: list[RunRules],
    databases: Databases,
    shared_server: RedisServer,
) -> None:
    postgres = await databases.new()
    async with AsyncExitStack() as stack:
        replicas = await open_replicas(
            kind, stack, redis_url=shared_server.url, postgres=postgres, new_runs=10_000
        )
        for seed in seeds:
            run, which = random_run(seed), seed % len(all_rules)
            gateway = CheckedCalls(
                run, replicas.stores, all_rules[which], replicas.advance, prefix=f"{uuid4()}/"
            )
            await Comparison(run, gateway, POLICY_SETS[which]).compare()


async def test_forgotten_identifiers_lead_to_refusals_only(tmp_path: Path) -> None:
    known_order = [it for it in DECIDING if it.policy_id == "known-order"]
    rules = await asyncio.to_thread(rules_of, tmp_path / "rules", known_order)
    store = MemoryRunStore(limits(), max_bytes=10**8)
    gateway = CheckedCalls(random_run(0), [store], rules, asyncio.sleep)

    def of(tool: str, arguments: dict[str, object], result: dict[str, object]) -> RandomCall:
        call = ModelCall(
            caller=ModelCaller(tenant="acme", user="ann"),
            tool=tool,
            arguments=arguments,
            run_id="r",
            now=datetime.now(UTC),
        )
        return RandomCall(call=call, outcome=ModelOutcome(), result=result)

    async def code(order_id: str) -> str:
        refund = of("shop:refund", {"order_id": order_id, "cents": 1}, {})
        return (await gateway.call(refund)).code

    assert await code("order 0") == "POLICY_DENIED"
    for number in range(3_000):
        order = {"order": {"id": f"order {number}"}}
        await gateway.call(of("shop:get_order", {"id": 1}, {"structured_content": order}))
    asked = random.Random(51).sample(range(3_000), 100)  # noqa: S311
    codes = {it: await code(f"order {it}") for it in sorted(asked)}
    assert set(codes.values()) == {"OK", "POLICY_DENIED"}
    permitted = [it for it, code in codes.items() if code == "OK"]
    assert permitted == sorted(asked)[-len(permitted) :]  # the oldest are forgotten
    assert [await code(f"order {it}") for it in (3_000, -1)] == ["POLICY_DENIED"] * 2
