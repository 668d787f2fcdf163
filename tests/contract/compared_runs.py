"""Compares the decisions of a gateway with those of the model, call by call."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pprint import pformat
from typing import Protocol

from tests.contract.random_runs import RandomCall, RandomRun, Step
from tests.contract.run_model import Decision, ModelCall, ModelPolicy, ModelRun, Rules
from tests.contract.run_stores import IDLE_S, MARK_S
from tests.contract.run_world import tools

TOOLS = tools()


class ComparedGateway(Protocol):
    """A gateway that makes the calls of a random run."""

    shown: frozenset[str]
    """The fields of a decision that it shows."""
    explained: frozenset[str]
    """Those that it shows of a call that is not made."""

    async def call(self, found: RandomCall) -> Decision:
        """Make a call; the code is OK if it was sent."""
        ...

    async def refuse(self, found: RandomCall) -> str:
        """Make a call that fails before its run is asked, and return its code."""
        ...

    async def replay(self, found: RandomCall) -> str:
        """Replay a call, and return the refusal's code, or OK."""
        ...

    async def explain(self, found: RandomCall) -> Decision | None:
        """Return the decision on a call that is not made, None if there is none."""
        ...

    async def wait(self, seconds: float) -> None:
        """Make the runs older."""
        ...


class Difference(AssertionError):
    """The gateway decided otherwise than the model."""


class Comparison:
    """One random run, at the gateway and in the model.

    The calls of a step are made at once. If several orders of their decisions and ends explain all
    decisions, the memory after each is possible.
    """

    def __init__(
        self, run: RandomRun, gateway: ComparedGateway, policies: Sequence[ModelPolicy] | None
    ) -> None:
        self._run, self._gateway = run, gateway
        self._model = Rules(TOOLS, policies, run.limits, run.agent_limits)
        self._now_s = 0.0
        self._runs: dict[object, list[ModelRun]] = {}
        self._ended: dict[object, float] = {}
        self._history: list[object] = []

    async def compare(self) -> int:
        """Make all calls, and return their number. Raises Difference."""
        for step in self._run.steps:
            if step.kind == "wait":
                await self._gateway.wait(step.seconds)
                self._now_s += step.seconds
                self._history.append(step.seconds)
            elif step.kind == "early":
                await self._refuse(step.calls[0])
            elif step.kind == "replay":
                await self._replay(step.calls[0])
            elif step.kind == "explain":
                await self._explain(step.calls[0])
            else:
                await self._make(step)
        return sum(len(it.calls) for it in self._run.steps)

    def _memories(self, call: ModelCall) -> list[ModelRun] | None:
        """Return the possible memories of a call's run, None for one that ended."""
        key = call.key
        if key in self._runs and self._now_s >= self._runs[key][0].last_at + IDLE_S:
            self._ended[key] = self._runs.pop(key)[0].last_at + IDLE_S + MARK_S
        if self._now_s < self._ended.get(key, 0.0):
            return None
        return [it.copy() for it in self._runs.get(key, [ModelRun()])]

    def _keep(self, call: ModelCall, memories: Sequence[ModelRun]) -> None:
        for it in memories:
            it.last_at = self._now_s
        self._runs[call.key] = list(memories)

    def _fail(self, calls: object, actual: object, expected: object) -> None:
        history = pformat(self._history, width=160)
        raise Difference(
            f"seed {self._run.seed}, limits {self._run.limits} {self._run.agent_limits}\n"
            f"{history}\nCALL {calls}\nACTUAL   {actual}\nEXPECTED {expected}"
        )

    async def _refuse(self, found: RandomCall) -> None:
        actual = await self._gateway.refuse(found)
        memories = self._memories(found.call)
        stopped = [self._model.refuse_early(found.call, it, found.outcome) for it in memories or ()]
        codes = ["LOOP_STOPPED" if it else found.outcome.code for it in stopped]
        if actual not in (codes or [found.outcome.code]):
            self._fail(_shown(found.call), actual, codes)
        if memories is not None and None not in stopped:
            kept = zip(memories, codes, strict=True)
            self._keep(found.call, [it for it, code in kept if code == actual])
        self._history.append(("early", _shown(found.call), actual))

    async def _replay(self, found: RandomCall) -> None:
        actual = await self._gateway.replay(found)
        memories = self._memories(found.call)
        expected = "OK" if memories is not None else "RUN_EXPIRED"
        if actual != expected:
            self._fail(_shown(found.call), actual, expected)
        if memories is not None:
            for it in memories:
                it.declare(found.call)
            self._keep(found.call, memories)
        self._history.append(("replay", _shown(found.call), actual))

    async def _explain(self, found: RandomCall) -> None:
        call = found.call
        actual = await self._gateway.explain(found)
        if actual is None:
            return
        memories = self._memories(call) if call.run_id is not None else [None]
        expected = [self._model.decide(call, it) for it in memories or ()]
        if memories is None:
            expected = [Decision(code="RUN_EXPIRED")]
        if not any(_same(actual, it, self._gateway.explained) for it in expected):
            self._fail(_shown(call), actual, expected)
        self._history.append(("explain", _shown(call), actual.code))

    async def _make(self, step: Step) -> None:
        made = await asyncio.gather(*map(self._gateway.call, step.calls))
        of_runs: dict[object, list[tuple[RandomCall, Decision]]] = {}
        for found, actual in zip(step.calls, made, strict=True):
            if found.call.run_id is None:
                expected = self._model.decide(found.call, None)
                if not _same(actual, expected, self._gateway.shown):
                    self._fail(_shown(found.call), actual, expected)
            else:
                of_runs.setdefault(found.call.key, []).append((found, actual))
        for group in of_runs.values():
            self._find_an_order(group)
        self._history.append([_shown_call(it, of) for it, of in zip(step.calls, made, strict=True)])

    def _find_an_order(self, group: Sequence[tuple[RandomCall, Decision]]) -> None:
        """Find the orders of decisions and ends of calls that explain all decisions."""
        call = group[0][0].call
        memories = self._memories(call)
        if memories is None:
            for found, actual in group:
                if actual.code != "RUN_EXPIRED":
                    self._fail(_shown(found.call), actual, "RUN_EXPIRED")
            return
        kept: list[ModelRun] = []
        tried: list[Decision] = []
        for memory in memories:
            for after in self._orders(memory, list(group), [], tried):
                if after not in kept:
                    kept.append(after)
        if not kept:
            shown = [_shown_call(it, of) for it, of in group]
            self._fail(shown, _differences(group, tried), memories[0])
        self._keep(call, kept)

    def _orders(
        self,
        memory: ModelRun,
        waiting: list[tuple[RandomCall, Decision]],
        sent: list[RandomCall],
        tried: list[Decision],
    ) -> Iterator[ModelRun]:
        """Yield the memory after each order; ``tried`` receives the decisions that differ."""
        if not waiting and not sent:
            yield memory
        for at, (found, actual) in enumerate(waiting):
            after = memory.copy()
            expected = self._model.decide(found.call, after)
            if not _same(actual, expected, self._gateway.shown):
                tried.append(expected)
                continue
            others = waiting[:at] + waiting[at + 1 :]
            running = [*sent, found] if expected.code == "OK" else sent
            yield from self._orders(after, others, running, tried)
        for at, found in enumerate(sent):
            after = memory.copy()
            self._model.finish(found.call, after, found.outcome)
            yield from self._orders(after, waiting, sent[:at] + sent[at + 1 :], tried)


def _same(actual: Decision, expected: Decision, shown: frozenset[str]) -> bool:
    if expected.failed and "ids" in shown:
        return actual.code == expected.code and expected.failed <= actual.ids <= expected.ids
    return all(getattr(actual, it) == getattr(expected, it) for it in shown)


def _differences(group: Sequence[tuple[RandomCall, Decision]], tried: Sequence[Decision]) -> str:
    """Return how expected decisions differ from the actual ones."""
    found = []
    for _, actual in group:
        for expected in tried[:6]:
            parts = []
            for name in (it.name for it in fields(Decision)):
                one, other = getattr(actual, name), getattr(expected, name)
                if one != other and isinstance(one, frozenset):
                    one, other = sorted(one - other), sorted(other - one)
                if one != other:
                    parts.append(f"{name}: {one}, expected {other}")
            found.append("; ".join(parts))
    return "\n".join(dict.fromkeys(found))


def _shown(call: ModelCall) -> tuple[object, ...]:
    caller = call.caller
    who = "/".join(it for it in (caller.tenant, caller.user or caller.token, caller.agent) if it)
    declared: Mapping[str, object] = {
        "task": call.task,
        "tools": call.tools,
        "read_only": call.read_only,
    }
    given = {name: it for name, it in declared.items() if it}
    return who, call.run_id, call.tool, call.arguments, given


def _shown_call(found: RandomCall, actual: Decision) -> tuple[object, ...]:
    if actual.code != "OK":
        return *_shown(found.call), actual.code, sorted(actual.ids), actual.limit
    return *_shown(found.call), found.outcome.code, actual.number, found.result
