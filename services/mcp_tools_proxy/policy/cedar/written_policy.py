"""Policies as written in ``policies/*.cedar``, with the facts that each reads.

Only ``forbid`` policies exist; calls that none forbids are permitted. Annotations: ``@id``
(required, unique), ``@message``, ``@mode``, ``@run``, ``@approvers``.
"""

import json
import re
from collections.abc import Iterator
from enum import StrEnum

import cedarpy

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.cedar.condition_facts import ConditionFacts, InvalidPolicy, Node
from mcp_tools_proxy.policy.cedar.fact_schema import PolicyAction
from mcp_tools_proxy.policy.runs.approvers import approvers_in
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.text import quote

_OF_RUNS = ("run", "target", "embedded", "origin")
"""Facts that come from a run. Without one, no origin is known."""


class PolicyMode(StrEnum):
    """The effect of a policy on a call that it forbids."""

    ENFORCE = "enforce"
    LOG_ONLY = "log_only"
    APPROVE = "approve"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPolicy:
    """One ``forbid`` policy. ``as_json`` is Cedar's JSON form.

    ``actions`` are the actions and groups in its scope, None for all; ``entities`` those of its
    resource and conditions, pairs of a type and an id.
    """

    policy_id: str
    file: str
    as_json: Node
    message: str | None
    mode: PolicyMode
    run_is_optional: bool
    approvers: tuple[str, ...]
    actions: frozenset[str] | None
    facts: ConditionFacts
    entities: frozenset[tuple[str, str]]

    @property
    def text(self) -> str:
        """The policy in Cedar's own syntax."""
        whole = {"templates": {}, "templateLinks": [], "staticPolicies": {"policy": self.as_json}}
        return cedarpy.policies_from_json_str(json.dumps(whole))

    @property
    def needs_run(self) -> bool:
        """Whether a call without a run is refused: it reads what only a run knows."""
        return not self.run_is_optional and any(it[0] in _OF_RUNS for it in self.facts.paths)

    def applies_to(self, action: PolicyAction) -> bool:
        """Return whether an action is in its scope."""
        return self.actions is None or not self.actions.isdisjoint((action.name, *action.groups))


_ANNOTATIONS = ("id", "message", "mode", "run", "approvers")


def read_policies(file: str, text: str) -> Iterator[WrittenPolicy]:
    """Yield the policies in a file's text. Raises InvalidPolicy."""
    _refuse_deep(text)
    try:
        written = json.loads(cedarpy.policies_to_json_str(text))
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:500]
        place = _invalid_place(text)
        raise InvalidPolicy("", f"cannot be parsed: {reason}{place}") from error
    if written.get("templates"):
        raise InvalidPolicy("", "templates (?principal, ?resource) cannot be used here")
    for place, policy in written["staticPolicies"].items():
        yield _policy(file, place, policy)


MAX_NESTING = 40
"""Maximum nesting of brackets: Cedar's parser crashes the process between 400 and 800."""

MAX_TOKENS = 1_500
"""Maximum tokens of a policy: a chain of 20,000 operators crashes the process as well."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|//[^\r\n]*|\w+|[^\s\w]', re.DOTALL)


def _refuse_deep(text: str) -> None:
    depth = count = 0
    for found in _TOKEN.finditer(text):
        part = found[0]
        if part.startswith("//"):
            continue
        count = 0 if part == ";" and depth == 0 else count + 1
        if part in ("(", "[", "{"):
            depth += 1
        elif part in (")", "]", "}"):
            depth = max(0, depth - 1)
        if depth > MAX_NESTING:
            raise InvalidPolicy("", f"is nested more than {MAX_NESTING} brackets deep")
        if count > MAX_TOKENS:
            raise InvalidPolicy("", f"has a policy of more than {MAX_TOKENS} words and signs")


def _invalid_place(text: str) -> str:
    """Return the line of the first policy that cannot be parsed; Cedar's errors have no line."""
    start = depth = 0
    first: int | None = None
    for found in _TOKEN.finditer(text):
        part = found[0]
        if part.startswith("//"):
            continue
        first = found.start() if first is None else first
        depth += (part in ("(", "[", "{")) - (part in (")", "]", "}"))
        if part == ";" and depth <= 0:
            if not _is_policy(text[start : found.end()]):
                break
            start, depth, first = found.end(), 0, None
    if first is None:
        return ""
    return f", in the policy that starts in line {text.count(chr(10), 0, first) + 1}"


def _is_policy(text: str) -> bool:
    try:
        cedarpy.policies_to_json_str(text)
    except ValueError:
        return False
    return True


def _policy(file: str, place: str, policy: Node) -> WrittenPolicy:
    annotations = {key: value or "" for key, value in policy.get("annotations", {}).items()}
    policy_id = annotations.get("id", "")
    if not policy_id:
        number = int(place.removeprefix("policy")) + 1
        raise InvalidPolicy("", f'policy {number} of the file has no @id("…"); add one')
    for key in annotations:
        if key not in _ANNOTATIONS:
            hint = did_you_mean(closest_match(key, _ANNOTATIONS), "; correct or remove it")
            raise InvalidPolicy(policy_id, f"@{key} is not a known annotation{hint}")
    if policy["effect"] != "forbid":
        raise InvalidPolicy(
            policy_id, "is a permit; write forbid policies only: other calls are permitted"
        )
    mode = _mode(policy_id, annotations.get("mode", PolicyMode.ENFORCE.value))
    facts = ConditionFacts.of(policy_id, [it["body"] for it in policy.get("conditions", ())])
    return WrittenPolicy(
        policy_id=policy_id,
        file=file,
        as_json=policy,
        message=annotations.get("message") or None,
        mode=mode,
        run_is_optional=_run_is_optional(policy_id, annotations.get("run")),
        approvers=_approvers(policy_id, annotations.get("approvers"), mode),
        actions=_actions(policy_id, policy["action"]),
        facts=facts,
        entities=facts.entities | {*_resources(policy["resource"])},
    )


def _mode(policy_id: str, written: str) -> PolicyMode:
    if written not in [it.value for it in PolicyMode]:
        known = ", ".join(PolicyMode)
        raise InvalidPolicy(policy_id, f"@mode({quote(written)}) should be one of {known}")
    return PolicyMode(written)


def _approvers(policy_id: str, written: str | None, mode: PolicyMode) -> tuple[str, ...]:
    if written is None:
        return ()
    if mode is not PolicyMode.APPROVE:
        raise InvalidPolicy(policy_id, '@approvers needs @mode("approve")')
    try:
        found = approvers_in(written)
    except ValueError as error:
        problem = f'names {quote(str(error))}; write "role:<role>" or "self"'
        raise InvalidPolicy(policy_id, f"@approvers {problem}") from None
    if not found:
        raise InvalidPolicy(policy_id, "@approvers is empty; remove it, or name a role")
    return found


def _run_is_optional(policy_id: str, written: str | None) -> bool:
    if written not in (None, "optional"):
        raise InvalidPolicy(policy_id, f'@run({quote(written)}) should be @run("optional")')
    return written is not None


def _resources(scope: Node) -> Iterator[tuple[str, str]]:
    match scope.get("in", scope):
        case {"entity": {"type": str(kind), "id": str(name)}}:
            yield kind, name


def _actions(policy_id: str, scope: Node) -> frozenset[str] | None:
    match scope:
        case {"op": "All"}:
            return None
        case {"op": "==" | "in", "entity": entity}:
            entities = [entity]
        case {"op": "in", "entities": entities}:
            pass
        case _:
            raise InvalidPolicy(policy_id, "has a scope of actions that cannot be used here")
    return frozenset(str(it["id"]) for it in entities)
