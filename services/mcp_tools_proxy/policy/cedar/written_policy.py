"""Policies as written in ``policies/*.cedar``, with the facts that each reads.

Only ``forbid`` policies exist; calls that none forbids are permitted. Annotations: ``@id``
(required, unique), ``@message``, ``@mode``, ``@run``, ``@approvers``.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.text import quote

Path = tuple[str, ...]
"""Attributes below ``context``, such as ``("run", "called", "crm:refund")``."""

Node = Mapping[str, Any]


class PolicyMode(StrEnum):
    """What a policy does with a call that it forbids."""

    ENFORCE = "enforce"
    LOG_ONLY = "log_only"
    APPROVE = "approve"


class InvalidPolicy(ValueError):
    """A policy that cannot be used; ``policy_id`` is its ``@id`` or position in the file."""

    def __init__(self, policy_id: str, problem: str) -> None:
        super().__init__(problem)
        self.policy_id = policy_id
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPolicy:
    """One ``forbid`` policy. ``as_json`` is Cedar's JSON form.

    ``actions`` are the actions and groups in its scope, None for all. ``reads`` are the paths
    below ``context`` in its conditions, ``tests`` those after ``has``.
    """

    policy_id: str
    file: str
    as_json: Node
    message: str | None
    mode: PolicyMode
    run_is_optional: bool
    approvers: tuple[str, ...]
    actions: frozenset[str] | None
    reads: frozenset[Path]
    tests: frozenset[Path]

    @property
    def reads_run(self) -> bool:
        """Whether it needs the facts of a run."""
        return any(path[0] == "run" for path in self.reads | self.tests)


_ANNOTATIONS = ("id", "message", "mode", "run", "approvers")


def policies_in(file: str, written: Node) -> Iterator[WrittenPolicy]:
    """Yield the policies of a parsed file. Raises InvalidPolicy.

    ``written`` is a policy set in Cedar's JSON form.
    """
    if written.get("templates"):
        raise InvalidPolicy("templates", "templates (?principal, ?resource) cannot be used here")
    for place, policy in written["staticPolicies"].items():
        yield _policy(file, place, policy)


def _policy(file: str, place: str, policy: Node) -> WrittenPolicy:
    annotations = {key: value or "" for key, value in policy.get("annotations", {}).items()}
    policy_id = annotations.get("id", "")
    if not policy_id:
        number = int(place.removeprefix("policy")) + 1
        raise InvalidPolicy(place, f'policy {number} of the file has no @id("…"); add one')
    for key in annotations:
        if key not in _ANNOTATIONS:
            hint = did_you_mean(closest_match(key, _ANNOTATIONS), "; correct or remove it")
            raise InvalidPolicy(policy_id, f"@{key} is not a known annotation{hint}")
    if policy["effect"] != "forbid":
        raise InvalidPolicy(
            policy_id, "is a permit; write forbid policies only: other calls are permitted"
        )
    bodies = [it["body"] for it in policy.get("conditions", ())]
    reads: set[Path] = set()
    tests: set[Path] = set()
    for body in bodies:
        _collect(body, reads, tests)
    return WrittenPolicy(
        policy_id=policy_id,
        file=file,
        as_json=policy,
        message=annotations.get("message") or None,
        mode=_mode(policy_id, annotations.get("mode", PolicyMode.ENFORCE.value)),
        run_is_optional=_run_is_optional(policy_id, annotations.get("run")),
        approvers=tuple(annotations.get("approvers", "").replace(",", " ").split()),
        actions=_actions(policy_id, policy["action"]),
        reads=frozenset(reads),
        tests=frozenset(tests),
    )


def _mode(policy_id: str, written: str) -> PolicyMode:
    if written not in iter(PolicyMode):
        known = ", ".join(PolicyMode)
        raise InvalidPolicy(policy_id, f"@mode({quote(written)}) should be one of {known}")
    return PolicyMode(written)


def _run_is_optional(policy_id: str, written: str | None) -> bool:
    if written not in (None, "optional"):
        raise InvalidPolicy(policy_id, f'@run({quote(written)}) should be @run("optional")')
    return written is not None


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


def _collect(node: object, reads: set[Path], tests: set[Path]) -> None:
    """Add the paths below ``context`` in an expression."""
    if isinstance(node, list):
        for it in node:
            _collect(it, reads, tests)
        return
    if not isinstance(node, Mapping):
        return
    path = _path(node)
    if path:
        reads.add(path)
        return
    for key, value in node.items():
        if key == "Value":
            continue
        if key == "has" and (left := _path(value["left"])) is not None:
            tests.add((*left, value["attr"]))
            continue
        _collect(value, reads, tests)


def _path(node: object) -> Path | None:
    """Return the path of an attribute below ``context``, () for ``context`` itself."""
    match node:
        case {"Var": "context"}:
            return ()
        case {".": {"left": left, "attr": str(attr)}}:
            above = _path(left)
            return None if above is None else (*above, attr)
        case _:
            return None
