"""Random runs: interleaved calls of several callers, with hostile values, from a seed."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from tests.contract.run_model import ModelCall, ModelCaller, ModelOutcome
from tests.contract.run_world import READINGS, SCHEMAS, SERVERS

Json = dict[str, object]

CALLERS = (
    ModelCaller(tenant="acme", user="ann", roles=("finance",)),
    ModelCaller(tenant="acme", user="ann", agent="reports", token="t2", entry="mcp"),
    ModelCaller(tenant="acme", user="ann", agent="assistant", entry="stdio"),
    ModelCaller(tenant="acme", user="mallory"),
    ModelCaller(tenant="beta", user="ann"),
    ModelCaller(tenant="acme", token="t1"),
    ModelCaller(tenant="acme", token="t2"),
    ModelCaller(tenant="acme", user="ann", token="op", is_operator=True),
)
RUN_IDS = ("r1", "r2")

ADDRESSES = (
    *("bob@a.com", "eve@evil.io", "bob+news@a.com", "bob@a.com.evil.io", "BOB@A.COM"),
    "\uff42\uff4f\uff42@a.com",  # fullwidth letters: the same after NFKC
    "b\u043eb@a.com",  # a Cyrillic o: another address
    "bob\u200b@a.com",  # a zero-width space: another address
    *("a.com", "evil.io", "sub.a.com", "bob@a.com."),
)
LINKS = (
    *("https://a.com/x", "https://a.com@evil.io/", "https://a.com.evil.io/x", "https://evil.io/x"),
    *("HTTPS://A.com/X", "https://a.com/x?u=1", "https://bob:pw@a.com/x"),
)
ACCOUNTS = (
    "DE89370400440532013000",
    "DE89 3704 0044 0532 0130 00",  # the same account
    "3704 0044",  # not an account, though a part of one
    "GB82WEST12345698765432",
)
NAMES = ("Bob Smith", "bob smith", "BOB", "Smith", "Stra\u00dfe", "STRASSE", "\ufb01sh", "fish")
ORDERS = ("A17", "a17", "A18", "ord_9", "4711", "17", "17.5", "-3", "A17 A18")
NUMBERS = (17, 4711, 17.0, 17.5, 0, -3, 1, 2, 300, 2**40)
VALUES = (*ADDRESSES, *LINKS, *ACCOUNTS, *NAMES, *ORDERS)
WORDS = ("please", "write", "to", "the", "about", "order", "new", "refund", "today")

FAILURES: Sequence[tuple[str, bool, bool]] = (
    # the code, whether it is retryable, whether it counts as a loop
    ("TOOL_FAILED", False, True),
    ("TOOL_FAILED", False, True),
    ("NOT_READY", False, False),
    ("RESULT_TOO_LARGE", False, True),
    ("INTERNAL_ERROR", False, True),
    ("TOOL_TIMEOUT", False, False),
    ("SERVER_BUSY", True, False),
    ("SERVER_UNAVAILABLE", True, False),
    ("LOGIN_REQUIRED", False, False),
    ("RETRIEVAL_NOT_CONFIGURED", False, False),
)
EARLY: Sequence[tuple[str, bool, bool]] = (
    ("INVALID_ARGUMENTS", False, True),
    ("TOOL_NOT_ALLOWED", False, True),
    ("DOCUMENT_NOT_FOUND", False, True),
    ("CONTENT_BLOCKED", False, True),
    ("LIMITS_UNAVAILABLE", True, False),
    ("RATE_LIMIT_EXCEEDED", True, False),
)


@dataclass(frozen=True, kw_only=True)
class RandomCall:
    """A call, and its end if it is sent: a result, or an error."""

    call: ModelCall
    outcome: ModelOutcome
    result: Json = field(default_factory=dict)
    retryable: bool = False
    pauses: int = 0
    """How often other calls get a turn while it runs."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """Calls that are made at once, or a pause of some seconds."""

    kind: Literal["call", "early", "replay", "explain", "wait"]
    calls: tuple[RandomCall, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class RandomRun:
    seed: int
    limits: dict[str, int]
    agent_limits: dict[str, dict[str, int]]
    steps: tuple[Step, ...]


PLOTS = (
    ("shop:get_order", "shop:refund", "shop:ping"),
    ("mail:search", "mail:send", "shop:ping"),
    ("mail:search", "mail:forward", "shop:get_order", "mail:send"),
    ("shop:mystery", "shop:get_order", "shop:wipe", "shop:ping"),
    ("read_doc_pages", "list_available_tools", "mail:send", "shop:refund"),
)
"""Tools that are called together, so that their facts meet."""


_CHOICES: Mapping[str, Sequence[object]] = {
    "doc_id": ("secret", "public"),
    "urgent": (True, False),
    "confirm": (True, False),
    "price": (1, 99.5, 99.6, 100, 0.1234, 0.12345, 1e300, -5),
    "cents": (1, 300, 400, 900, -500, 0, 17, 2**40, 2**62, 2**63, 300.0),
}


class Generator:
    """Draws one run. The chances are its own, so that rare facts come together in some runs."""

    def __init__(self, seed: int) -> None:
        self.seed, self._random = seed, random.Random(seed)  # noqa: S311
        chance = self._random
        self._callers = chance.sample(CALLERS, chance.choice([1, 1, 2, 3]))
        self._values = chance.sample(VALUES, chance.choice([2, 4, 8]))
        self._numbers = chance.sample(NUMBERS, 2)
        self._now = datetime(2026, 11, 30, 9, 15, tzinfo=UTC)  # a Monday
        self._now += timedelta(hours=chance.choice([0, 0, 0, 0, 10, 24 * 3, 24 * 6]))
        self._tools = chance.choice([*PLOTS, *PLOTS, tuple(SCHEMAS)])
        self._failing = chance.choice([0.0, 0.1, 0.1, 0.3, 0.9])
        self._repeating = chance.choice([0.1, 0.3, 0.3, 0.8])
        self._declaring = chance.choice([0.0, 0.3])
        self._made: list[ModelCall] = []

    def run(self) -> RandomRun:
        chance = self._random
        steps = tuple(self._step() for _ in range(chance.randint(4, 24)))
        return RandomRun(
            seed=self.seed,
            limits=self._limits() if chance.random() < 0.2 else {},
            agent_limits={"reports": self._limits()} if chance.random() < 0.1 else {},
            steps=steps,
        )

    def _limits(self) -> dict[str, int]:
        names = self._random.sample(["calls", "errors", "repeats", "tokens"], 2)
        return {it: self._random.randint(1, 9) * (40 if it == "tokens" else 1) for it in names}

    def _step(self) -> Step:
        chance = self._random.random()
        if chance < 0.02:
            seconds = self._random.choice([1.0, 50.0, 99.0, 150.0, 150.0, 2000.0])
            return Step(kind="wait", seconds=seconds)
        if chance < 0.1:
            return Step(kind="early", calls=(self._early(),))
        if chance < 0.13:
            return Step(kind="replay", calls=(self._with_run(self._call()),))
        if chance < 0.18:
            return Step(kind="explain", calls=(self._call(),))
        size = self._random.choice([2, 2, 3, 4]) if chance < 0.35 else 1
        return Step(kind="call", calls=tuple(self._call() for _ in range(size)))

    def _early(self) -> RandomCall:
        found = self._with_run(self._call())
        code, retryable, counts = self._random.choice(EARLY)
        return replace(found, retryable=retryable, outcome=ModelOutcome(code=code, counts=counts))

    def _with_run(self, found: RandomCall) -> RandomCall:
        if found.call.run_id is not None:
            return found
        return replace(found, call=replace(found.call, run_id="r1"))

    def _call(self) -> RandomCall:
        chance = self._random
        if self._made and chance.random() < self._repeating:
            call = chance.choice(self._made)
            if chance.random() < 0.3:
                call = replace(call, caller=chance.choice(self._callers))
            if chance.random() < 0.5:
                call = replace(call, task=None, tools=None, read_only=False)
        else:
            call = self._new_call()
        self._made.append(call)
        if chance.random() < self._failing:
            code, retryable, counts = chance.choice(FAILURES)
            outcome = ModelOutcome(code=code, counts=counts)
            return RandomCall(
                call=call, outcome=outcome, retryable=retryable, pauses=chance.randint(0, 3)
            )
        values, result = self._result(call)
        outcome = ModelOutcome(tokens=chance.choice([0, 1, 10, 50, 200]), values=values)
        return RandomCall(call=call, outcome=outcome, result=result, pauses=chance.randint(0, 3))

    def _new_call(self) -> ModelCall:
        chance = self._random
        name = chance.choice(self._tools)
        if chance.random() < 0.15:
            name = f"{chance.choice(SERVERS)}:{chance.choice(READINGS)}"
        has_run = chance.random() < 0.93
        task = self._task() if has_run and chance.random() < 0.3 else None
        tools = None
        if has_run and chance.random() < self._declaring / 3:
            tools = frozenset(chance.sample([*SCHEMAS], chance.randint(5, 10)))
        return ModelCall(
            caller=chance.choice(self._callers),
            tool=name,
            arguments=self._arguments(name),
            run_id=chance.choice(RUN_IDS[:1] * 8 + RUN_IDS) if has_run else None,
            task=task,
            tools=tools,
            read_only=has_run and chance.random() < self._declaring / 10,
            now=self._now,
        )

    def _value(self) -> str:
        if self._random.random() < 0.15:
            return self._random.choice(VALUES)
        return self._random.choice(self._values)

    def _task(self) -> str:
        """Return words with values, some of them followed by punctuation."""
        parts = []
        if self._random.random() < 0.1:
            parts.append(str(self._random.choice([17, 4711, -3, 300])))
        for _ in range(self._random.randint(1, 4)):
            parts += self._random.sample(WORDS, self._random.randint(0, 2))
            parts.append(self._value() + self._random.choice(["", "", ".", ",", "!", ")", '"']))
        return " ".join(parts)

    def _body(self) -> str:
        parts = self._random.sample(WORDS, 3)
        if self._random.random() < 0.6:
            found = self._random.choice((*ADDRESSES[:5], *LINKS, ACCOUNTS[0]))
            found = self._random.choice([found, self._value()])
            parts.insert(self._random.randint(0, 3), found)
        return " ".join(parts)

    def _arguments(self, name: str) -> Json:
        chance = self._random
        if name.endswith(READINGS):
            return {"topic": self._value()} if name.endswith("get") else {}
        properties, required = SCHEMAS[name]
        wanted = {it for it in properties if it in required or chance.random() < 0.5}
        return {it: self._argument(it, properties[it]) for it in properties if it in wanted}

    def _argument(self, name: str, schema: object) -> object:
        chance = self._random
        if name in _CHOICES:
            return chance.choice(_CHOICES[name])
        if isinstance(schema, Mapping) and schema["type"] == "array":
            size = chance.choice([0, 1, 1, 2, 2, 3, 3, 40])
            return [self._value() for _ in range(size)]
        if name in ("message", "extra"):
            return self._object(name)
        if name in ("body", "note"):
            # a long one is searched in a thread
            return f"{self._body()} {'word ' * (14_000 if chance.random() < 0.001 else 0)}"
        if name in ("n", "pages"):
            return chance.choice([*self._numbers, *self._numbers, 17, 2**63 - 1, 2**70])
        if name == "id" and chance.random() < 0.3:
            return chance.choice([*self._numbers, *NUMBERS])
        return self._value()

    def _object(self, name: str) -> Json:
        """Return an object; its unknown keys are values as well."""
        chance = self._random
        if name == "extra":
            items = [self._value(), None, True, [{"name": 17}]]
            return chance.choice([{}, {"name": self._value()}, {"list": items}])
        key = chance.choice(["id", "note", "eve@evil.io", "A17"])
        found: Json = {key: self._value()}
        return found | ({"id": self._value()} if chance.random() < 0.5 else {})

    def _result(self, call: ModelCall) -> tuple[tuple[object, ...], Json]:
        """Return the JSON in a result, and the result."""
        found = self._content(call)
        text = json.dumps(found)
        if call.tool.endswith("prompts/get"):
            return (), {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        if call.tool.endswith("resources/read"):
            return (), {"contents": [{"uri": "x:y", "text": f"{text} and more"}]}
        if call.tool.endswith("complete"):
            return (), {"completion": {"values": [text]}}
        done = {"type": "text", "text": "done"}
        way = self._random.random()
        if way < 0.4:
            return (found,), {"content": [done], "structured_content": found}
        if way < 0.7:
            return (found,), {"content": [done, {"type": "text", "text": text}]}
        # other text vouches for nothing
        other = f"Result: {text}" if way < 0.85 else f"```json\n{text}\n```"
        return (), {"content": [{"type": "text", "text": other}]}

    def _content(self, call: ModelCall) -> Json:
        chance = self._random
        if call.tool == "mail:search":
            emails = [
                {"id": self._value(), "from": self._value(), "subject": self._value()}
                for _ in range(chance.randint(0, 2))
            ]
            return {"emails": emails}
        if call.tool == "shop:get_order":
            order = {
                "id": call.arguments["id"] if chance.random() < 0.6 else self._value(),
                "items": [{"sku": chance.choice([*self._numbers, self._value()])}],
                "codes": chance.choice([[], [self._value(), None, True]]),
                "note": self._value(),
            }
            return {"order": order}
        return {"id": self._value(), "emails": [{"id": self._value()}]}


def random_run(seed: int) -> RandomRun:
    return Generator(seed).run()
