"""The names that policies can use, and the check of a policy against them and Cedar's schema."""

from collections.abc import Collection, Iterable, Iterator, Mapping

import cedarpy

from mcp_tools_proxy.domain.audit import Entry
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.run import Label
from mcp_tools_proxy.policy.cedar.condition_facts import (
    CLOCK_FACTS,
    RUN_COUNTS,
    RUN_FLAGS,
    RUN_NUMBERS,
    Path,
)
from mcp_tools_proxy.policy.cedar.fact_schema import (
    LOCAL_SERVER,
    ArgumentType,
    PolicyAction,
    schema_text,
)
from mcp_tools_proxy.policy.cedar.written_policy import WrittenPolicy
from mcp_tools_proxy.policy.runs.run_memory import CLAIMED, TASK, TEXT
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.text import quote

_CONTEXT = ("entry", "clock", "target", "embedded", "run", "origin", "args")
_RUN = (*RUN_NUMBERS, *RUN_FLAGS, *RUN_COUNTS, "seen")
_LABEL_GROUPS = frozenset(f"label:{it}" for it in Label)
_NO_TOOL = "unable to find an applicable action given the policy scope constraints"
_MAX_ERRORS = 10


class PolicyFindings:
    """The problems of a policy, and its names that may exist once more servers are discovered."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.waits_for: list[str] = []
        self._unknown: set[tuple[str, str]] = set()

    def add_unknown(self, name: str, described: str, hint: str) -> None:
        """Add the problem of an unknown name, once for all places with the same correction."""
        if (name, hint) not in self._unknown:
            self._unknown.add((name, hint))
            self.problems.append(f"{quote(name)} is not {described}{hint}")


@dataclass(frozen=True, slots=True)
class PolicyVocabulary:
    """The names in policies; ``undiscovered`` are servers whose tools are not known yet."""

    actions: Mapping[str, PolicyAction]
    undiscovered: frozenset[str]
    groups: frozenset[str]
    totals: frozenset[str]
    origins: frozenset[str]
    servers: frozenset[str]
    schema: cedarpy.Schema

    @classmethod
    def of(
        cls,
        actions: Iterable[PolicyAction],
        servers: Iterable[str],
        undiscovered: Iterable[str],
        paths: Collection[Path],
    ) -> "PolicyVocabulary":
        """Return the names for known actions, the servers of mcp.json and the facts to check."""
        known = {it.name: it for it in actions}
        server_ids = {LOCAL_SERVER, *servers, *(it.server for it in known.values())}
        sources = (f"{it.name}#{path}" for it in known.values() for path in it.labels.identifiers)
        totals = (
            f"{it.name}#{name}"
            for it in known.values()
            for name, kind in it.types.items()
            if kind is ArgumentType.LONG
        )
        return cls(
            known,
            frozenset(undiscovered),
            _LABEL_GROUPS | {f"server:{it}" for it in server_ids},
            frozenset(totals),
            frozenset((TASK, CLAIMED, TEXT, *sources)),
            frozenset(server_ids),
            cedarpy.Schema.from_str(schema_text(known.values(), paths), release_gil=True),
        )

    def check(self, policy: WrittenPolicy) -> PolicyFindings:
        """Return the problems of a policy. Blocks for milliseconds, mostly without the GIL."""
        found = PolicyFindings()
        applicable = [it for it in self.actions.values() if policy.applies_to(it)]
        for name in sorted(policy.actions or ()):
            self._check_action(found, name)
            if name.startswith("server:") and name[7:] in self.undiscovered:
                found.waits_for.append(name[7:])
        for path in sorted(policy.facts.paths):
            self._check_path(found, policy, path, applicable)
        self._check_texts(found, policy)
        self._check_entities(found, policy)
        if not found.problems and not found.waits_for:
            found.problems += self._cedar_errors(policy, bool(applicable))
        return found

    def _check_action(self, found: PolicyFindings, name: str) -> None:
        self._know(found, name, self.actions.keys() | self.groups, "a tool or group of tools")

    def _check_entities(self, found: PolicyFindings, policy: WrittenPolicy) -> None:
        for kind, name in sorted(policy.entities):
            if kind == "Server":
                _one_of(found, name, self.servers, "a server")
            elif kind == "Action":
                self._check_action(found, name)

    def _check_texts(self, found: PolicyFindings, policy: WrittenPolicy) -> None:
        for path, text in sorted(policy.facts.texts):
            match path:
                case ("run", "seen"):
                    self._know(found, text, self.groups, "a label or server that runs see")
                case ("target",) | ("embedded",) | ("origin", _):
                    self._know(found, text, self.origins, "an origin of values")
                case ("entry",):
                    self._know(found, text, [*Entry], "an entry of the gateway")

    def _check_path(
        self,
        found: PolicyFindings,
        policy: WrittenPolicy,
        path: Path,
        applicable: list[PolicyAction],
    ) -> None:
        match path:
            case ("run", "called" | "succeeded", name, *_):
                self._know(found, name, self.actions.keys(), "a tool")
            case ("run", "total", name, *_):
                self._know(
                    found, name, self.totals, "an integer argument of a tool (server:tool#n)"
                )
            case ("run", name, *_):
                _one_of(found, name, _RUN, "a fact of runs")
            case ("clock", name, *_):
                _one_of(found, name, CLOCK_FACTS, "a fact of the clock")
            case ("args" | "origin", name, *_):
                self._check_argument(found, policy, name, applicable)
            case (name, *_):
                _one_of(found, name, _CONTEXT, "a fact")

    def _check_argument(
        self,
        found: PolicyFindings,
        policy: WrittenPolicy,
        name: str,
        applicable: list[PolicyAction],
    ) -> None:
        known = {it for action in applicable for it in action.types}
        if name in known:
            return
        if self._may_apply_to_undiscovered(policy):
            found.waits_for += sorted(self.undiscovered)
        elif applicable:
            _one_of(found, name, known, "an argument that policies can read")

    def _may_apply_to_undiscovered(self, policy: WrittenPolicy) -> bool:
        if not self.undiscovered:
            return False
        names = policy.actions
        return names is None or not names.isdisjoint(_LABEL_GROUPS)

    def _know(self, found: PolicyFindings, name: str, known: Iterable[str], described: str) -> None:
        """Note an unknown name, which an undiscovered server may have."""
        names = frozenset(known)
        if name in names:
            return
        server = name.partition(":")[0]
        if server in self.undiscovered:
            found.waits_for.append(server)
        else:
            _one_of(found, name, names, described)

    def _cedar_errors(self, policy: WrittenPolicy, applies: bool) -> Iterator[str]:
        result = cedarpy.validate_policies(policy.text, self.schema, release_gil=True)
        errors = dict.fromkeys(
            it.error.removeprefix(f"for policy `{it.policy_id}`, ") for it in result.errors
        )
        kept = [it for it in errors if applies or it != _NO_TOOL]
        if not result.validation_passed and not result.errors:
            kept = ["is not valid"]
        for error in kept[:_MAX_ERRORS]:
            yield error if len(error) <= 500 else f"{error[:500]}…"


def _one_of(found: PolicyFindings, name: str, known: Iterable[str], described: str) -> None:
    names = sorted(known)
    if name not in names:
        hint = did_you_mean(closest_match(name, names))
        found.add_unknown(name, described, hint)
