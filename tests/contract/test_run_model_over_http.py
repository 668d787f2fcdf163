"""Random runs over HTTP: the whole gateway decides like the model."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from tests.contract.compared_runs import Comparison
from tests.contract.random_runs import RandomCall, RandomRun, Step, random_run
from tests.contract.run_model import Decision, ModelCall, ModelOutcome
from tests.contract.run_world import DECIDING, LABELS, SCHEMAS, SERVERS, input_schema
from tests.support.configuration import Config, Json, make_agent, make_preset, write_json
from tests.support.mcp_servers import raw_script
from tests.support.mcp_servers.raw_tools import Run
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import CONFIG_DIR, EXECUTE, Service, running

REMOTE = {name for name in SCHEMAS if ":" in name}


class Servers:
    """Answers calls with the results that were drawn for them."""

    def __init__(self) -> None:
        self._results: dict[str, RandomCall] = {}

    def expect(self, found: RandomCall) -> None:
        self._results[_key(found.call.tool.partition(":")[2], found.call.arguments)] = found

    async def answer(self, run: Run) -> Json:
        found = self._results[_key(run.tool, run.arguments)]
        if found.outcome.code != "OK":
            text = "the report is not ready yet" if not found.outcome.counts else "it broke"
            return {"content": [{"type": "text", "text": text}], "isError": True}
        names = {"structured_content": "structuredContent"}
        return {names.get(name, name): it for name, it in found.result.items()}


def _key(tool: str, arguments: Mapping[str, object]) -> str:
    return f"{tool} {json.dumps(arguments, sort_keys=True)}"


class HttpCalls:
    """The HTTP API."""

    shown = frozenset(("code", "ids", "limit"))
    explained = frozenset(("code",))

    def __init__(self, service: Service, servers: Servers) -> None:
        self._service, self._servers = service, servers
        self._prefix = uuid4().hex

    async def call(self, found: RandomCall) -> Decision:
        self._servers.expect(found)
        error = await self._error(EXECUTE, found.call)
        if error is None or error["code"] == "TOOL_FAILED":
            return Decision()
        return _decision(error)

    async def refuse(self, found: RandomCall) -> str:
        error = await self._error(EXECUTE, found.call)
        return "OK" if error is None else str(error["code"])

    async def explain(self, found: RandomCall) -> Decision | None:
        body = self._body(found.call)
        shown = (await self._service.http.post("/internal/mcp/explain", json=body)).json()
        code = shown["decision"]
        return Decision(code="OK" if code == "pass" else code)

    async def replay(self, found: RandomCall) -> str:
        raise NotImplementedError

    async def wait(self, seconds: float) -> None:
        raise NotImplementedError

    async def _error(self, path: str, call: ModelCall) -> Any:
        response = await self._service.http.post(path, json=self._body(call))
        return response.json().get("error")

    def _body(self, call: ModelCall) -> Json:
        caller = call.caller
        user = {"user_id": caller.user, "tenant_id": caller.tenant, "roles": list(caller.roles)}
        body: Json = {"tool_name": call.tool, "arguments": call.arguments, "user": user}
        if caller.agent:
            body["agent"] = caller.agent
        if call.run_id is None:
            return body
        run: Json = {"id": self._prefix + call.run_id, "read_only": call.read_only}
        if call.task is not None:
            run["task"] = call.task
        if call.tools is not None:
            run["tools"] = sorted(call.tools)
        return body | {"run": run}


def _decision(error: Json) -> Decision:
    details = error.get("details") or {}
    return Decision(
        code=error["code"],
        ids=frozenset(details.get("policy_ids", ())),
        limit=details.get("limit"),
    )


def http_run(seed: int) -> RandomRun:
    """Return the part of a random run that the HTTP API and these servers can make."""
    run = random_run(seed)
    steps = (_http_step(it) for it in run.steps)
    return replace(run, steps=tuple(it for it in steps if it.calls), limits={}, agent_limits={})


def _http_step(step: Step) -> Step:
    if step.kind in ("replay", "wait"):
        return replace(step, calls=())
    calls: dict[str, RandomCall] = {}
    for it in step.calls:
        caller, arguments = it.call.caller, it.call.arguments
        if 17.5 in (arguments.get("id"), arguments.get("n")):  # not an integer
            continue
        if it.call.tool in REMOTE and caller.user and not caller.is_operator:
            # identical calls at once have one result
            calls.setdefault(_key(it.call.tool, arguments), _http_call(it, step.kind))
    return replace(step, calls=tuple(calls.values()))


def _http_call(found: RandomCall, kind: str) -> RandomCall:
    caller = found.call.caller
    caller = replace(caller, entry="api", token="", agent=caller.agent or "other")
    tools = found.call.tools
    call = replace(found.call, caller=caller, tools=tools and tools & REMOTE)
    if kind == "early":
        arguments = {it: {"not": "valid"} for it in SCHEMAS[call.tool][0]}
        outcome = ModelOutcome(code="INVALID_ARGUMENTS")
        return replace(found, call=replace(call, arguments=arguments), outcome=outcome)
    outcome = found.outcome
    if outcome.code != "OK":
        outcome = replace(outcome, code="TOOL_FAILED")
    return replace(found, call=call, outcome=outcome)


def tools_of(server: str) -> list[Json]:
    names = [it for it in SCHEMAS if it.startswith(f"{server}:")]
    return [
        {"name": it.partition(":")[2], "description": it, "inputSchema": input_schema(it)}
        for it in names
    ]


# results have other tokens, and the time is that of the clock
POLICIES = [it for it in DECIDING if it.policy_id not in ("short-runs", "business-hours", "frozen")]


@asynccontextmanager
async def gateway(servers: Sequence[RawServer]) -> AsyncIterator[Service]:
    entries = {name: it.entry for name, it in zip(SERVERS, servers, strict=True)}
    preset = make_preset(tools=[tuple(it.split(":")) for it in sorted(REMOTE)])  # type: ignore[misc]
    agents = [make_agent(it) for it in ("reports", "assistant", "other")]
    config = Config(
        servers=entries, presets=[preset], agents=agents, more={"defaultPresetId": "work"}
    )
    (CONFIG_DIR / "policies").mkdir(parents=True)
    text = "\n".join(it.text for it in POLICIES)
    (CONFIG_DIR / "policies" / "all.cedar").write_text(text)
    write_json(CONFIG_DIR / "labels.json", {"tools": LABELS})
    async with running(config=config) as service:
        assert service.gateway.run_rules.problems == ()
        yield service


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(15), id="15"),
        pytest.param(range(400), id="400", marks=pytest.mark.full),
    ],
)
async def test_the_http_api_decides_like_the_model(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = Servers()
    for name in REMOTE:
        monkeypatch.setitem(raw_script.ALL, name.partition(":")[2], servers.answer)
    async with (
        running_raw(extra={"tools": tools_of("mail")}) as mail,
        running_raw(extra={"tools": tools_of("shop")}) as shop,
        gateway([mail, shop]) as service,
    ):
        for seed in seeds:
            await Comparison(http_run(seed), HttpCalls(service, servers), POLICIES).compare()
