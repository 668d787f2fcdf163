from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.run import (
    ALL_LABELS,
    MAX_TASK_CHARS,
    Label,
    RunRequest,
    ToolLabels,
)
from mcp_tools_proxy.policy.runs.run_memory import (
    CLAIMED,
    MAX_BYTES,
    MAX_INTEGER,
    MAX_VALUES,
    TASK,
    TEXT,
    RunCall,
    RunFull,
    RunMemory,
    values_in,
)
from tests.support.examples import at_most


def call(
    tool: str = "mail:send",
    digest: str = "d",
    labels: frozenset[Label] = frozenset(),
    amounts: Mapping[str, int] | None = None,
) -> RunCall:
    return RunCall(
        tool=tool,
        labels=labels,
        server=tool.partition(":")[0],
        digest=digest.encode().ljust(32, b"."),
        amounts=amounts or {},
    )


def request(**options: object) -> RunRequest:
    return RunRequest(run_id="r", **options)  # type: ignore[arg-type]


def test_calls_are_counted_and_numbered() -> None:
    memory = RunMemory()
    sends = call(labels=frozenset({Label.SENDS}), amounts={"cents": 500, "less": -7})
    assert [memory.reserve(it) for it in (sends, sends, call("crm:get", "e"))] == [1, 2, 3]
    memory.succeed(sends, 40, ())
    memory.fail(call("crm:get", "e"), may_be_repeated=False)
    assert (memory.calls, memory.errors, memory.repeats, memory.tokens) == (3, 1, 1, 40)
    assert memory.called == {"mail:send": 2, "crm:get": 1}
    assert memory.succeeded == {"mail:send": 1}
    assert memory.totals == {"mail:send#cents": 1000, "mail:send#less": 0}
    assert memory.seen == ["server:mail", "label:sends", "server:crm"]


def test_a_total_stays_an_integer_of_cedar_and_never_falls() -> None:
    memory = RunMemory()
    for amount in (10**30, -(10**30), 5):
        memory.reserve(call(amounts={"cents": amount}))
    assert memory.totals == {"mail:send#cents": MAX_INTEGER}


def test_later_declarations_only_narrow() -> None:
    memory = RunMemory()
    memory.declare(request(tools=frozenset({"a", "b", "\ud800"}), read_only=True))
    memory.declare(request())
    memory.declare(request(tools=frozenset({"b", "c"})))
    assert (memory.tools, memory.read_only) == (["b"], True)
    memory.declare(request(tools=frozenset()))
    assert memory.tools == []


def test_a_run_is_undeclared_until_it_declares_tools() -> None:
    memory = RunMemory()
    assert memory.undeclared
    memory.declare(request(tools=frozenset({"crm:get"})))
    assert not memory.undeclared


DIGEST = b"d".ljust(32, b".")


def test_refused_calls_are_counted_but_not_as_called() -> None:
    memory = RunMemory()
    for _ in range(3):
        assert not memory.is_loop(DIGEST)
        memory.refuse(DIGEST, may_be_repeated=True)
        memory.refuse(DIGEST, may_be_repeated=False)
    assert memory.is_loop(DIGEST)
    assert (memory.calls, memory.errors, memory.repeats, memory.called) == (6, 6, 5, {})


def test_three_identical_failures_are_a_loop_until_a_success() -> None:
    memory = RunMemory()
    again, other = call(digest="a"), call(digest="b")
    for _ in range(3):
        assert not memory.is_loop(again.digest)
        memory.reserve(again)
        memory.fail(again, may_be_repeated=False)
        memory.fail(other, may_be_repeated=True)
    assert memory.is_loop(again.digest)
    assert not memory.is_loop(other.digest)
    memory.succeed(again, 0, ())
    assert not memory.is_loop(again.digest)


def test_a_value_has_its_best_origins() -> None:
    memory = RunMemory()
    memory.declare(request(task="Refund order A-7 to bob@a.com"))
    memory.declare(request(task="and tell Eve"))
    labels = ToolLabels(identifiers=("id", "orders[].id"), claimed=("title", "from"))
    result = {"id": "A-7", "orders": [{"id": 5}], "title": "B-8", "from": ["bob@a.com", "5"]}
    get = call("crm:get")
    memory.reserve(get)
    memory.succeed(get, 9, values_in(result, "crm:get", labels))
    assert memory.origins("a-7") == {TASK, "crm:get#id"}
    assert memory.origins("5") == {"crm:get#orders[].id"}
    assert memory.origins(5.0) == {"crm:get#orders[].id"}
    assert memory.origins("bob@a.com") == {TASK}
    assert memory.origins("B-8") == {CLAIMED}
    assert memory.origins("tell eve") == {TASK}
    assert memory.origins("bob@a.com and") == {TEXT}
    assert memory.origins("\uff21-7") == {TEXT}
    assert memory.origins(10**400) == {TEXT}
    assert memory.origins("x" * 10**6) == {TEXT}
    assert memory.origins("Refund " * 10_000) == {TEXT}
    without: list[object] = [None, True, "", " \n", {}, []]
    assert [memory.origins(it) for it in without] == [set()] * 6


def test_values_are_hashed_with_a_key_of_the_run() -> None:
    one, other = RunMemory(), RunMemory()
    for memory in (one, other):
        memory.declare(request(task="secret words"))
        memory.reserve(call())
        memory.succeed(call(), 0, [("secret", "a:b#c")])
    assert one.tasks != other.tasks
    assert one.values != other.values
    assert b"secret" not in one.encode()


def test_old_values_are_forgotten_and_counters_never() -> None:
    memory = RunMemory()
    memory.reserve(call())
    for first in range(0, MAX_VALUES + 500, 100):
        memory.succeed(call(), 1, [(f"v{it}", "a:b#c") for it in range(first, first + 100)])
    assert memory.origins("v0") == {TEXT}
    assert memory.origins("v499") == {TEXT}
    assert memory.origins("v500") == {"a:b#c"}
    assert memory.succeeded == {"mail:send": 25}


def test_a_full_run_takes_no_further_call_and_can_end_those_that_it_took() -> None:
    memory = RunMemory()
    memory.declare(request(task=" ".join(f"w{it}" for it in range(2_900))))
    memory.reserve(call())
    memory.succeed(call(), 1, [(f"v{it}", "a:b#c") for it in range(MAX_VALUES)])
    taken: list[RunCall] = []

    def fill() -> None:
        for number in range(10_000):
            one = call(f"server{number % 50}:tool", str(number), ALL_LABELS, {"cents": 1})
            memory.reserve(one)
            taken.append(one)

    with pytest.raises(RunFull, match="too many different calls; continue in another run"):
        fill()
    full = memory.copy()
    with pytest.raises(RunFull):
        memory.reserve(call(digest="one more"))
    assert memory == full
    memory.reserve(call())  # it needs no space
    for number, one in enumerate(taken):
        memory.succeed(one, MAX_INTEGER, [(f"n{number}", f"source{number}:b#c")])
        memory.fail(one, may_be_repeated=False)
    assert len(taken) > 3_000
    assert len(memory.encode()) <= memory.size <= MAX_BYTES
    assert RunMemory.decode(memory.encode()) == memory


def test_long_tasks_and_declarations_are_refused_with_their_limit() -> None:
    memory = RunMemory()
    for task in ("x" * (MAX_TASK_CHARS + 1), "w " * 4_001, "\ufdfa" * 16_384):
        with pytest.raises(RunFull, match=r"of its run ha(s|ve) .* continue in another run"):
            memory.declare(request(task=task))
    with pytest.raises(RunFull, match="too many to be kept"):
        memory.declare(request(tools=frozenset(f"tool{it}" for it in range(10_000))))
    assert memory.tasks == b""


def test_a_declaration_that_cannot_be_kept_narrows_the_run() -> None:
    memory, long = RunMemory(), "x" * (MAX_TASK_CHARS + 1)
    with pytest.raises(RunFull):
        memory.declare(request(task=long, tools=frozenset({"a", "b"}), read_only=True))
    assert (memory.tools, memory.read_only) == (["a", "b"], True)
    many = frozenset(f"tool{it}" for it in range(10_000))
    memory.declare(request(tools=many | {"a"}))
    assert memory.tools == ["a"]
    memory = RunMemory()
    with pytest.raises(RunFull):
        memory.declare(request(tools=many))
    assert memory.tools == []
    memory.declare(request(tools=frozenset({"tool1"})))
    assert memory.tools == []


def test_equal_tasks_take_space_once() -> None:
    memory = RunMemory()
    for _ in range(10_000):
        memory.declare(request(task="the same, in each request"))
    assert len(memory.tasks) < 200


def test_a_typical_run_is_small() -> None:
    memory = RunMemory()
    memory.declare(request(task="Refund order A-7 to bob@a.com and tell him in plain words why"))
    for number in range(20):
        one = call(f"server{number % 4}:tool{number % 7}", str(number), ALL_LABELS, {"cents": 5})
        memory.reserve(one)
        memory.succeed(one, 100, [(f"id-{number}-{it}", f"{one.tool}#id") for it in range(5)])
    assert len(memory.encode()) < 4_000


def test_the_memory_of_another_release_is_not_read() -> None:
    content = RunMemory().encode()
    with pytest.raises(ValueError, match="format 9"):
        RunMemory.decode(content[:16] + b"[9" + content[18:])


TOOLS = ("a:x", "a:y", "b:x")
VALUES = ("v1", "v2", "v3")
ORIGINS = (CLAIMED, "a:x#id", "b:x#id")


@dataclass
class SimpleRun:
    """The rules of a run, written with plain sets and lists."""

    made: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    ok: list[str] = field(default_factory=list)
    errors: int = 0
    in_a_row: Counter[str] = field(default_factory=Counter)
    read: set[tuple[str, str]] = field(default_factory=set)
    declared: set[str] | None = None

    def origins(self, value: str) -> set[str]:
        found = {origin for it, origin in self.read if it == value}
        return (found - {CLAIMED}) or found or {TEXT}


steps = st.lists(
    st.one_of(
        st.tuples(st.just("declare"), st.frozensets(st.sampled_from(TOOLS))),
        st.tuples(
            st.just("call"),
            st.sampled_from(TOOLS),
            st.sampled_from("pqr"),
            st.sampled_from(("ok", "failed", "timed out", "running", "refused")),
            st.lists(st.tuples(st.sampled_from(VALUES), st.sampled_from(ORIGINS)), max_size=3),
        ),
    ),
    max_size=30,
)


@at_most(300)
@given(steps)
def test_any_run_follows_the_simple_rules(drawn: list[tuple[object, ...]]) -> None:
    memory, simple = RunMemory(), SimpleRun()
    for step in drawn:
        memory = RunMemory.decode(memory.encode())
        match step:
            case ("declare", frozenset() as tools):
                memory.declare(request(tools=tools))
                simple.declared = set(tools if simple.declared is None else simple.declared & tools)
            case ("call", str(tool), str(digest), outcome, list(found)):
                one = call(tool, tool + digest, frozenset({Label.WRITES}), {"n": 2})
                if outcome == "refused":
                    memory.refuse(one.digest, may_be_repeated=False)
                    simple.refused.append((tool, digest))
                    simple.in_a_row[tool + digest] += 1
                    continue
                assert memory.is_loop(one.digest) == (simple.in_a_row[tool + digest] >= 3)
                assert memory.reserve(one) == len(simple.made) + len(simple.refused) + 1
                simple.made.append((tool, digest))
                if outcome == "ok":
                    memory.succeed(one, 3, found)
                    simple.ok.append(tool)
                    simple.in_a_row[tool + digest] = 0
                    simple.read |= set(found)
                elif outcome != "running":
                    memory.fail(one, may_be_repeated=outcome == "timed out")
                    simple.errors += 1
                    simple.in_a_row[tool + digest] += outcome == "failed"
    called = Counter(tool for tool, _ in simple.made)
    assert memory.called == called
    assert memory.succeeded == Counter(simple.ok)
    assert memory.totals == {f"{tool}#n": 2 * count for tool, count in called.items()}
    whole = simple.made + simple.refused
    assert (memory.calls, memory.repeats) == (len(whole), len(whole) - len(set(whole)))
    errors = simple.errors + len(simple.refused)
    assert (memory.errors, memory.tokens) == (errors, 3 * len(simple.ok))
    assert set(memory.tools or ()) == (simple.declared or set())
    assert (memory.tools is None) == (simple.declared is None)
    assert {it: memory.origins(it) for it in VALUES} == {it: simple.origins(it) for it in VALUES}
