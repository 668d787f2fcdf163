"""The active guards, and their effect on one value: find, replace, or refuse."""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import field
from functools import partial
from typing import TypeVar

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.guards import (
    GuardAction,
    GuardFinding,
    GuardName,
    GuardPlace,
    GuardRule,
    GuardRules,
    strictest,
)
from mcp_tools_proxy.policy.guards.texts import Texts, TextSpan

MAX_SPANS = 10_000
"""Maximum number of findings of one guard; a value with more is refused."""

LARGE_CHARS = 32 * 1024
"""Longer texts are searched for secrets in a thread: up to 2 ms per scan, without the GIL."""

TOO_LONG = "too_long"
"""The kind of finding for a value too long to search."""

TOO_MANY = "too_many"
"""The kind of finding for a value with more than ``MAX_SPANS`` findings."""

T = TypeVar("T")

Work = Callable[[], object]
Steps = Generator[Work | None, object, "Screened"]
"""Pauses (None), and work for a thread, whose result is sent back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """A value after the guards; ``refused_by`` is the refusing rule, if any."""

    value: object
    findings: tuple[GuardFinding, ...] = ()
    refused_by: GuardRule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The guards of one server, or of document tools, and the hosts known there."""

    rules: GuardRules
    hosts: frozenset[str] = frozenset()

    def steps(
        self,
        value: object,
        place: GuardPlace,
        *,
        hosts: Collection[str] = (),
        without: Collection[tuple[int, str | int]] = (),
    ) -> Steps:
        """Screen a value in steps; ``hosts`` are known in addition to the server's."""
        texts = Texts(value, without)
        yield from texts.read()
        known = self.hosts | frozenset(hosts)
        findings: list[GuardFinding] = []
        changes: list[tuple[TextSpan, str]] = []
        refused_by: GuardRule | None = None
        for name, rule in self.rules.items():
            if name is GuardName.INSTRUCTIONS and place is not GuardPlace.DEFINITION:
                continue
            spans = [] if texts.is_too_long else (yield from _spans(name, texts, known))
            counts = _counts(spans, is_too_long=texts.is_too_long)
            findings += _findings(name, place, rule, counts)
            if counts and _refuses(rule.action, counts):
                refused_by = refused_by or rule
            elif rule.action is GuardAction.REDACT:
                changes += [(span, marker_of(name)) for span in spans]
        if refused_by is None and changes:
            value = texts.with_replaced(sorted(changes))
        return Screened(value=value, findings=tuple(findings), refused_by=refused_by)


def run_at_once(steps: Generator[Work | None, object, T]) -> T:
    """Run steps without pauses: for definitions, and inside a thread."""
    sent: object = None
    while True:
        try:
            work = steps.send(sent)
        except StopIteration as done:
            value: T = done.value
            return value
        sent = None if work is None else work()


def marker_of(name: GuardName) -> str:
    """Return the replacement for a removed part.

    It has no ASCII brackets, because ``[…]`` before ``(https://…)`` would be a link.
    """
    return f"⟦removed: {name.value}⟧"


def _spans(
    name: GuardName, texts: Texts, hosts: Collection[str]
) -> Generator[Work | None, object, list[TextSpan]]:
    # compiling the patterns takes 5 ms, which a start without guards should not need
    from mcp_tools_proxy.policy.guards.detectors import DETECTORS  # noqa: PLC0415 - see above

    steps = _collected(DETECTORS[name](texts, hosts))
    if name is GuardName.SECRETS and len(texts.joined) > LARGE_CHARS:
        in_thread = yield partial(run_at_once, steps)
        return in_thread  # type: ignore[return-value]
    return (yield from steps)


def _collected(
    found: Iterator[TextSpan | None],
) -> Generator[Work | None, object, list[TextSpan]]:
    """Return the findings of a detector, at most one more than ``MAX_SPANS``."""
    spans: list[TextSpan] = []
    for it in found:
        if it is None:
            yield None
        else:
            spans.append(it)
            if len(spans) > MAX_SPANS:
                break
    return spans


def _counts(spans: list[TextSpan], *, is_too_long: bool) -> Mapping[str, int]:
    if is_too_long:
        return {TOO_LONG: 1}
    counts = Counter(span.kind for span in spans)
    if len(spans) > MAX_SPANS:
        counts[TOO_MANY] = 1
    return counts


def _refuses(action: GuardAction, counts: Mapping[str, int]) -> bool:
    unsafe = TOO_LONG in counts or TOO_MANY in counts
    return action is GuardAction.REFUSE or (action is GuardAction.REDACT and unsafe)


def _findings(
    name: GuardName, place: GuardPlace, rule: GuardRule, counts: Mapping[str, int]
) -> Iterator[GuardFinding]:
    for kind, count in sorted(counts.items()):
        yield GuardFinding(guard=name, kind=kind, place=place, action=rule.action, count=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSet:
    """The guards of one registry, if any is active.

    ``by_server`` has those of servers' entries, ``preset`` those of the active preset (also for
    document tools), ``by_agent`` those of profiles' presets, and ``hosts`` the known ones of each
    server.
    """

    preset: GuardRules = field(default_factory=dict)
    by_server: Mapping[str, GuardRules] = field(default_factory=dict)
    by_agent: Mapping[str, GuardRules] = field(default_factory=dict)
    hosts: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def for_calls(self, server_id: str | None, agent: str | None) -> Screen | None:
        """Return the guards for calls to a server, or to document tools; None if all are off."""
        own = self.by_server.get(server_id or "", {})
        return self._screen(
            strictest((own, self.preset, self.by_agent.get(agent or "", {}))), server_id
        )

    def for_definitions(self, server_id: str) -> Screen | None:
        """Return the guards for a server's definitions; None if all are off.

        All callers share the definitions, so the guards of all profiles' presets apply.
        """
        own = self.by_server.get(server_id, {})
        return self._screen(strictest((own, self.preset, *self.by_agent.values())), server_id)

    def _screen(self, rules: GuardRules, server_id: str | None) -> Screen | None:
        if not rules:
            return None
        return Screen(rules=rules, hosts=self.hosts.get(server_id or "", frozenset()))
