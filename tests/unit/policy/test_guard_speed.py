"""Guards take linear time: no step between two pauses blocks the event loop. The tests measure
thread CPU time, which a busy machine does not change."""

import time

from mcp_tools_proxy.domain.guards import GuardName
from mcp_tools_proxy.policy.guards.detectors import DETECTORS
from mcp_tools_proxy.policy.guards.screen import MAX_SPANS
from mcp_tools_proxy.policy.guards.texts import Texts
from tests.support.loop_turns import unhurried_s
from tests.support.tables import each_row

STEP_S = 0.05
"""The longest permitted turn of the event loop."""

SIZE = 2**15
"""Characters: enough for a backtracking search to take seconds."""

HOSTILE = {
    "tags": ("<", "<a", '<a "', "<p hidden", "<a1 hidden></a1>", "<!--", '<a style="/*">'),
    "attributes": ('<a b="', "<a b='<a b=\"", "<p hidden><p>", "<p a ", "]:\n", "]: # (", "]: #"),
    "links": ("[//]: # (", "](", "](a", "[](https:", "[a](https://e.com", "![", "](&amp;", "](\\"),
    "addresses": (
        *(
            "](https://a@",
            "<http:",
            "src=",
            "url(",
            "style=new URL(",
            "new        ",
            "[1]: https://e.com\n",
            "<https://a",
            "https:////",
        ),
    ),
    "orders": (
        *(
            "ignore ",
            "ignore_",
            "ignore a ",
            "do not ",
            "the user ",
            "user must not ",
            "don",
            "ssh/",
        ),
    ),
    "characters": (
        *("\u200b", "a\u200b", "\u0646\u0645\u200c", "\U0001f468\u200d", "\ufe0f\ufe0e"),
    ),
}
"""Prefixes of patterns without their ends, which would cause backtracking."""


@each_row("kind", HOSTILE)
def test_no_step_of_a_guard_takes_long(kind: str) -> None:
    guards = [it for it in GuardName if it is not GuardName.SECRETS]
    slow = []
    for piece in HOSTILE[kind]:
        texts = Texts({"text": (piece * (SIZE // len(piece) + 1))[:SIZE]})
        for _ in texts.read():
            pass
        steps = [(guard, longest_step_s(guard, texts)) for guard in guards]
        slow += [(piece, guard, step_s) for guard, step_s in steps if step_s > STEP_S]
    assert slow == []


def longest_step_s(guard: GuardName, texts: Texts) -> float:
    count, longest, before = 0, 0.0, time.thread_time()
    for found in DETECTORS[guard](texts, ()):
        taken = time.thread_time() - before
        longest = max(longest, taken if taken < STEP_S / 2 else unhurried_s(taken))
        before = time.thread_time()
        count += found is not None
        if count > MAX_SPANS:
            break
    return longest


def test_a_value_with_many_keys_is_read_in_steps() -> None:
    texts = Texts({f"k{number}": [number, "v"] for number in range(150_000)})
    steps = 0
    for _ in texts.read():
        steps += 1
    assert steps > 100
    assert texts.joined.count("v") == 150_000
