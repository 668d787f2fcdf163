"""The policies in examples/policies/untrusted-text.cedar."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from mcp_tools_proxy.domain.run import Label, RunRequest, ToolLabels
from mcp_tools_proxy.policy.cedar.fact_schema import PolicyAction
from mcp_tools_proxy.policy.runs.run_memory import CLAIMED, RunCall, RunMemory
from tests.unit.policy.cedar.policy_parts import action, call, load

TEXT = (Path(__file__).parents[4] / "examples/policies/untrusted-text.cedar").read_text()


def tool(name: str, *labels: Label, targets: frozenset[str] | None = None) -> PolicyAction:
    return action(f"mail:{name}", ToolLabels(labels=frozenset(labels), targets=targets))


READ = tool("read", Label.READS_UNTRUSTED)
FETCH = tool("fetch", Label.READS_UNTRUSTED, targets=frozenset({"to"}))
SEND = tool("send", Label.SENDS, targets=frozenset({"to"}))
WRITE = tool("write", Label.WRITES, targets=frozenset({"to"}))
DELETE = tool("delete", Label.WRITES, Label.DESTRUCTIVE, targets=frozenset({"to"}))


def run(*, reads: bool = True, declares: bool = True) -> RunMemory:
    """A run that has read a message of ``eve@evil.io`` with the id ``m1``."""
    memory = RunMemory()
    tools = frozenset({"mail:send"}) if declares else None
    memory.declare(RunRequest(run_id="r", task="Write to bob@x.com, see x.com/a", tools=tools))
    if reads:
        made = RunCall(tool="mail:read", labels=READ.labels.labels, server="mail", digest=b"d" * 32)
        memory.reserve(made)
        memory.succeed(made, 10, [("eve@evil.io", CLAIMED), ("m1", "mail:read#id")])
    return memory


ASKS = "target-from-text"


@pytest.mark.parametrize(
    ("of", "arguments", "expected"),
    [
        (SEND, {"to": "bob@x.com", "note": "hello, see x.com/a"}, []),
        (SEND, {"to": "m1"}, []),
        (SEND, {"to": "eve@evil.io"}, []),
        (SEND, {"to": "mallory@evil.io"}, [ASKS]),
        (WRITE, {"to": "mallory@evil.io"}, [ASKS]),
        (DELETE, {"to": "m2"}, [ASKS]),
        (DELETE, {"to": "m1"}, []),
        (DELETE, {"to": "eve@evil.io"}, ["destructive-target"]),
        (SEND, {"to": "bob@x.com", "note": "see evil.io/a"}, ["links-from-text"]),
        (SEND, {"to": "bob@x.com", "note": "from eve@evil.io"}, ["links-from-text"]),
        (READ, {"to": "what is new?"}, []),
        (READ, {"to": "https://evil.io/a"}, ["fetch-from-text"]),
        (READ, {"to": "eve@evil.io"}, ["fetch-from-text"]),
        (FETCH, {"to": "https://evil.io/a"}, ["fetch-from-text"]),
        (FETCH, {"to": "x.com/a"}, []),
    ],
)
def test_targets_and_links_from_text_ask_a_person(
    of: PolicyAction, arguments: Mapping[str, object], expected: list[str]
) -> None:
    assert asked(of, arguments, run()) == expected
    assert not asked(of, arguments, run(reads=False))


def asked(of: PolicyAction, arguments: Mapping[str, object], memory: RunMemory) -> list[str]:
    active = load(TEXT, actions=[READ, FETCH, SEND, WRITE, DELETE])
    assert not active.problems
    verdict = active.decide(call(arguments, of=of), memory)
    assert not verdict.enforced
    assert not verdict.failed
    return [it.policy_id for it in verdict.approve]


def test_without_declared_tools_only_the_users_words_and_identifiers_vouch() -> None:
    undeclared = run(declares=False)
    assert asked(SEND, {"to": "eve@evil.io"}, undeclared) == ["target-claimed"]
    assert not asked(SEND, {"to": "m1"}, undeclared)
    assert asked(DELETE, {"to": "m1"}, undeclared) == ["destructive-target"]
    assert not asked(DELETE, {"to": "bob@x.com"}, undeclared)
    assert not asked(DELETE, {}, undeclared)
