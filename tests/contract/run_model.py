"""A second, simple implementation of the rules over runs, for comparison with the gateway.

It is written from the documentation (``docs/how-to/policies.md``) with sets, lists and loops, and
imports nothing of the gateway. A call is two events: its decision, and the end of the call.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

Json = Mapping[str, object]

CHANGING = {"writes", "sends", "destructive"}
LARGEST = 2**63 - 1
SPACED_IBAN = "de89 3704 0044 0532 0130 00"
"""The one that is generated: with and without spaces it is the same account."""
PUNCTUATION = ".,;:!?()[]<>\"'"


@dataclass(frozen=True, kw_only=True)
class ModelTool:
    """A tool, or a way to read, with its labels; ``targets`` None means all arguments."""

    name: str
    server: str
    labels: frozenset[str]
    is_tool: bool = True
    """Whether runs declare it; they declare no prompts, resources and completions."""
    targets: tuple[str, ...] | None = None
    identifiers: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    keys: frozenset[str] = frozenset()
    """The names that the input schema declares at any depth."""
    other_names: tuple[str, ...] = ()
    """Further names that a run can declare."""


@dataclass(frozen=True, kw_only=True)
class ModelCaller:
    tenant: str
    user: str = ""
    token: str = ""
    roles: tuple[str, ...] = ()
    agent: str = ""
    entry: str = "api"
    is_operator: bool = False
    """Whether an operator acts as the user."""

    @property
    def owner(self) -> tuple[object, ...]:
        """Whose the runs are: the user's, or the token's if it has no user."""
        if self.is_operator:
            return self.tenant, "operator", self.user, self.token
        return (self.tenant, "user", self.user) if self.user else (self.tenant, "token", self.token)


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    caller: ModelCaller
    tool: str
    arguments: Json
    run_id: str | None = None
    task: str | None = None
    tools: frozenset[str] | None = None
    read_only: bool = False
    now: datetime

    @property
    def key(self) -> tuple[object, ...]:
        return (*self.caller.owner, self.run_id)

    @property
    def digest(self) -> str:
        return f"{self.tool} {json.dumps(_integral(self.arguments), sort_keys=True)}"


def _integral(value: object) -> object:
    """Return JSON in which 300.0 is the same as 300."""
    if isinstance(value, Mapping):
        return {key: _integral(it) for key, it in value.items()}
    if isinstance(value, list | tuple):
        return [_integral(it) for it in value]
    return int(value) if isinstance(value, float) and value == int(value) else value


@dataclass(frozen=True, kw_only=True)
class ModelOutcome:
    """The end of a call that was sent; ``counts`` tells whether the same failure is a loop."""

    code: str = "OK"
    counts: bool = True
    tokens: int = 0
    values: Sequence[object] = ()
    """The JSON objects of the result: structured content, and texts that are wholly JSON."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    code: str = "OK"
    ids: frozenset[str] = frozenset()
    limit: str | None = None
    number: int | None = None
    labels: tuple[str, ...] = ()
    fired: frozenset[tuple[str, str]] = frozenset()
    failed: frozenset[str] = frozenset()
    """The policies that cannot be evaluated, if any: it does not matter what others say."""


class CannotTell(Exception):
    """A policy cannot be evaluated."""


@dataclass(frozen=True, kw_only=True)
class ModelPolicy:
    """A policy: its Cedar text, and its meaning in Python.

    ``applies`` is its scope, ``forbids`` its condition.
    """

    policy_id: str
    text: str
    applies: Callable[["Facts"], bool]
    forbids: Callable[["Facts"], bool] = lambda _: True
    mode: str = "enforce"
    reads_run: bool = True
    optional: bool = False


GROUPS = re.compile(r"(?<![\w+])[0-9]+(?:[ -][0-9]+)+")


def _joined(groups: re.Match[str]) -> str:
    digits = re.sub("[ -]", "", groups[0])
    return digits if len(digits) >= 8 else groups[0]


def normal(value: object) -> str:
    """Return the form in which values are compared; ß and ς are letters of their own domains."""
    if isinstance(value, float) and value == int(value):
        value = int(value)
    text = unicodedata.normalize("NFKC", str(value))
    folded = "".join(it if it in "\u00df\u03c2" else it.casefold() for it in text)
    joined = folded.replace(SPACED_IBAN, SPACED_IBAN.replace(" ", ""))
    return GROUPS.sub(_joined, joined).strip()


def is_disguised(value: object) -> bool:
    """Return whether a value is another text after NFKC: nothing vouches for it."""
    return unicodedata.normalize("NFKC", str(value)) != str(value)


def words_of(text: str) -> list[str]:
    """Return the words; groups of digits that can be an account number are one word."""
    found = (it.strip(PUNCTUATION) for it in normal(text).split())
    return [it for it in found if it]


def contains_words(text: Sequence[str], words: Sequence[str]) -> bool:
    size = len(words)
    return size > 0 and any(
        list(text[at : at + size]) == list(words) for at in range(len(text) - size + 1)
    )


def scalars_in(value: object, keys: frozenset[str]) -> Iterator[str | int | float]:
    """Yield the values in an argument, and the keys that no schema declares."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in keys:
                yield key
            yield from scalars_in(inner, keys)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from scalars_in(inner, keys)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def values_at(value: object, path: str) -> Iterator[object]:
    """Yield the values at a path such as ``emails[].id``."""
    if not path:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield value
        return
    if path.startswith("[]"):
        if isinstance(value, list | tuple):
            for inner in value:
                yield from values_at(inner, path[2:].removeprefix("."))
        return
    name = re.split(r"\.|\[", path, maxsplit=1)[0]
    rest = path[len(name) :].removeprefix(".")
    if isinstance(value, Mapping) and name in value:
        yield from values_at(value[name], rest)


LINK = re.compile(r"https?://\S+", re.IGNORECASE)
HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}")
ADDRESS = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
ACCOUNT = re.compile(r"[a-z]{2}[0-9]{2}[a-z0-9]{11,30}|[0-9]{8,}", re.IGNORECASE)


def embedded_in(text: str) -> Iterator[str]:
    """Yield links, addresses and account numbers between spaces; others are not generated."""
    text = GROUPS.sub(_joined, text.replace(SPACED_IBAN.upper(), SPACED_IBAN.replace(" ", "")))
    for chunk in text.split():
        inner = chunk.strip(PUNCTUATION)
        if any(it.fullmatch(inner) for it in (LINK, ADDRESS, HOST, ACCOUNT)):
            yield inner


@dataclass(kw_only=True)
class ModelRun:
    """The memory of one run."""

    tasks: list[list[str]] = field(default_factory=list)
    tools: frozenset[str] | None = None
    read_only: bool = False
    calls: int = 0
    errors: int = 0
    repeats: int = 0
    tokens: int = 0
    called: dict[str, int] = field(default_factory=dict)
    succeeded: dict[str, int] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    failures: dict[str, int] = field(default_factory=dict)
    sources: dict[str, set[str]] = field(default_factory=dict)
    claimed: set[str] = field(default_factory=set)
    last_at: float = 0.0

    def copy(self) -> "ModelRun":
        return ModelRun(
            tasks=list(self.tasks),
            tools=self.tools,
            read_only=self.read_only,
            calls=self.calls,
            errors=self.errors,
            repeats=self.repeats,
            tokens=self.tokens,
            called=dict(self.called),
            succeeded=dict(self.succeeded),
            total=dict(self.total),
            seen=set(self.seen),
            made=set(self.made),
            failures=dict(self.failures),
            sources={value: set(it) for value, it in self.sources.items()},
            claimed=set(self.claimed),
            last_at=self.last_at,
        )

    def declare(self, call: ModelCall) -> None:
        if call.task is not None and (words := words_of(call.task)) not in self.tasks:
            self.tasks.append(words)
        if call.tools is not None:
            self.tools = call.tools if self.tools is None else self.tools & call.tools
        self.read_only = self.read_only or call.read_only

    def origins_of(self, value: object) -> set[str]:
        """Return the best origins of one value."""
        if is_disguised(value):
            return {"text"}
        key = normal(value)
        words = words_of(key)
        found = set(self.sources.get(key, ()))
        if any(contains_words(it, words) for it in self.tasks):
            found.add("task")
        if found:
            return found
        return {"claimed"} if key in self.claimed else {"text"}

    def count(self, call: ModelCall) -> None:
        self.calls += 1
        if call.digest in self.made:
            self.repeats += 1
        self.made.add(call.digest)

    def fail(self, call: ModelCall, *, counts: bool) -> None:
        self.errors += 1
        if counts:
            self.failures[call.digest] = self.failures.get(call.digest, 0) + 1

    def withdraw(self, call: ModelCall) -> None:
        self.called[call.tool] -= 1
        for key, amount in _amounts(call):
            if self.total[key] < LARGEST:
                self.total[key] -= amount


class Facts:
    """The facts of one call, as policies read them."""

    def __init__(self, call: ModelCall, tool: ModelTool, run: ModelRun | None) -> None:
        self.call, self.tool, self.run = call, tool, run
        self.args = {key: it for key, it in call.arguments.items() if it is not None}

    @property
    def the_run(self) -> ModelRun:
        """The run, or one without calls: policies that only log are evaluated without a run."""
        return self.run or ModelRun()

    def _origins(self, values: Iterable[str | int | float]) -> set[str]:
        run = self.run or ModelRun()
        found: set[str] = set()
        for it in values:
            found |= run.origins_of(it)
        return found

    def origin(self, argument: str) -> set[str]:
        return self._origins(scalars_in(self.args[argument], self.tool.keys))

    def _is_target(self, argument: str) -> bool:
        return self.tool.targets is None or argument in self.tool.targets

    def target(self) -> set[str]:
        found: set[str] = set()
        for it in self.args:
            if self._is_target(it):
                found |= self.origin(it)
        return found

    def embedded(self) -> set[str]:
        """Return the origins of addresses: in all arguments if the call only reads."""
        found: set[str] = set()
        for name, value in self.args.items():
            if not self._is_target(name) or not self.tool.labels & CHANGING:
                for it in scalars_in(value, self.tool.keys):
                    if isinstance(it, str):
                        found |= self._origins(embedded_in(it))
                    elif it == int(it) and abs(it) >= 10_000_000:
                        found |= self._origins((it,))
        return found

    def long(self, argument: str) -> int:
        value = self.args[argument]
        assert isinstance(value, int | float)
        if value != int(value) or not -LARGEST - 1 <= value <= LARGEST:
            raise CannotTell(argument)
        return int(value)

    def decimal(self, argument: str) -> float:
        value = self.args[argument]
        assert isinstance(value, int | float)
        if round(value, 4) != value or abs(value) >= 922337203685477:
            raise CannotTell(argument)
        return value


def checked(number: int) -> int:
    """Return a 64-bit integer, like Cedar."""
    if not -LARGEST - 1 <= number <= LARGEST:
        raise CannotTell("overflow")
    return number


def _denied_by(rule: str) -> Decision:
    fired = frozenset({(rule, "enforce")})
    return Decision(code="POLICY_DENIED", ids=frozenset({rule}), fired=fired)


NOT_SENT = ("SERVER_BUSY", "LOGIN_REQUIRED", "RETRIEVAL_NOT_CONFIGURED")


def _amounts(call: ModelCall) -> Iterator[tuple[str, int]]:
    for name, value in call.arguments.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if value > 0 and value == int(value):
            yield f"{call.tool}#{name}", int(value)


class Rules:
    """The decisions over runs: labels, policies (None without any), and limits of one run."""

    def __init__(
        self,
        tools: Mapping[str, ModelTool],
        policies: Sequence[ModelPolicy] | None,
        limits: Mapping[str, int],
        agent_limits: Mapping[str, Mapping[str, int]],
    ) -> None:
        self.tools, self.policies = tools, policies
        self.limits, self.agent_limits = limits, agent_limits

    def decide(self, call: ModelCall, run: ModelRun | None) -> Decision:
        """Decide about a call, and count it."""
        tool = self.tools[call.tool]
        if run is not None:
            run.declare(call)
        found = self._decision(call, tool, run)
        labels = tuple(sorted(tool.labels))
        if run is None:
            is_checked = found.code == "OK" and self.policies is not None
            return replace(found, labels=labels) if is_checked else found
        run.count(call)
        if found.code != "OK":
            run.fail(call, counts=False)
            return found
        run.called[call.tool] = run.called.get(call.tool, 0) + 1
        run.seen |= {f"label:{it}" for it in tool.labels} | {f"server:{tool.server}"}
        for key, amount in _amounts(call):
            run.total[key] = min(LARGEST, run.total.get(key, 0) + amount)
        return Decision(number=run.calls, labels=labels, fired=found.fired)

    def _decision(self, call: ModelCall, tool: ModelTool, run: ModelRun | None) -> Decision:
        if run is not None:
            names = {tool.name, *tool.other_names}
            if run.read_only and tool.labels & CHANGING:
                return _denied_by("run.read_only")
            if run.tools is not None and tool.is_tool and not names & run.tools:
                return _denied_by("run.tools")
            if run.failures.get(call.digest, 0) >= 3:
                return Decision(code="LOOP_STOPPED")
            limits = self.agent_limits.get(call.caller.agent, self.limits)
            for name in ("calls", "tokens", "errors", "repeats"):
                most = limits.get(name, 0)
                if most and getattr(run, name) >= most:
                    if name == "repeats" and call.digest not in run.made:
                        continue
                    return Decision(code="LOOP_STOPPED", limit=name)
        return self._policy_decision(call, tool, run)

    def _policy_decision(self, call: ModelCall, tool: ModelTool, run: ModelRun | None) -> Decision:
        facts = Facts(call, tool, run)
        applicable = [it for it in self.policies or () if it.applies(facts)]
        binding = [it for it in applicable if it.mode == "enforce"]
        if run is None and (
            wanting := {it.policy_id for it in binding if it.reads_run and not it.optional}
        ):
            fired = frozenset((it, "enforce") for it in wanting)
            return Decision(code="RUN_REQUIRED", ids=frozenset(wanting), fired=fired)
        stopping: set[tuple[str, str]] = set()
        failed: set[str] = set()
        for it in applicable:
            try:
                if it.forbids(facts):
                    stopping.add((it.policy_id, it.mode))
            except CannotTell:
                failed.add(it.policy_id)
        failed &= {it.policy_id for it in binding}
        denying = {it for it, mode in stopping if mode == "enforce"} | failed
        return Decision(
            code="POLICY_DENIED" if denying else "OK",
            ids=frozenset(denying),
            fired=frozenset(stopping),
            failed=frozenset(failed),
        )

    def refuse_early(self, call: ModelCall, run: ModelRun, outcome: ModelOutcome) -> bool | None:
        """Count a call that failed before its decision; return whether it is a stopped loop.

        A call over its budget is not counted. Returns None if it does not concern the run.
        """
        is_over_budget = outcome.code == "RATE_LIMIT_EXCEEDED"
        declares = call.tools is not None or call.read_only or call.task
        if is_over_budget and not declares:
            return None
        run.declare(call)
        if is_over_budget:
            return False
        stopped = run.failures.get(call.digest, 0) >= 3
        run.count(call)
        run.fail(call, counts=outcome.counts and not stopped)
        return stopped

    def finish(self, call: ModelCall, run: ModelRun, outcome: ModelOutcome) -> None:
        """Keep the end of a call that was sent."""
        tool = self.tools[call.tool]
        if outcome.code in NOT_SENT:
            run.withdraw(call)
        if outcome.code != "OK":
            run.fail(call, counts=outcome.counts)
            return
        run.tokens += outcome.tokens
        run.succeeded[call.tool] = run.succeeded.get(call.tool, 0) + 1
        run.failures.pop(call.digest, None)
        for value in outcome.values:
            for path in tool.identifiers:
                for it in values_at(value, path):
                    run.sources.setdefault(normal(it), set()).add(f"{tool.name}#{path}")
            for path in tool.claimed:
                run.claimed |= {normal(it) for it in values_at(value, path)}
