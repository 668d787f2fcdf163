from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.pool import plan
from tests.unit.downstream.observed_session import make_config

IDS = st.sampled_from(["a", "a-b", "b", "c"])
CHANGES: Sequence[Mapping[str, object]] = (
    {"url": "x"},
    {"url": "y"},
    {"url": "x", "headers": {"X-Key": "k"}},
    {"url": "x", "call_timeout_s": 5.0},
)
ENTRIES = st.tuples(st.sampled_from(CHANGES), st.booleans())


def configs(
    entries: Mapping[str, tuple[Mapping[str, object], bool]],
) -> dict[str, ServerConfig]:
    return {s: make_config(s, enabled=on, **fields) for s, (fields, on) in entries.items()}


WANTED = st.dictionaries(IDS, ENTRIES).map(configs)
RUNNING = WANTED.map(lambda wanted: {s: c for s, c in wanted.items() if c.enabled})


@given(running=RUNNING, wanted=WANTED)
def test_applying_a_plan_gives_the_wanted_servers(
    running: dict[str, ServerConfig], wanted: dict[str, ServerConfig]
) -> None:
    todo = plan(running, wanted)
    after = {s: config for s, config in running.items() if s in todo.keep}
    after |= {s: wanted[s] for s in (*todo.start, *todo.replace)}
    assert after == {s: config for s, config in wanted.items() if config.enabled}


@given(running=RUNNING, wanted=WANTED)
def test_unchanged_servers_are_kept(
    running: dict[str, ServerConfig], wanted: dict[str, ServerConfig]
) -> None:
    same = {s for s, config in running.items() if wanted.get(s) == config}
    assert set(plan(running, wanted).keep) == same


@given(running=RUNNING, wanted=WANTED)
def test_each_server_appears_once_in_the_plan(
    running: dict[str, ServerConfig], wanted: dict[str, ServerConfig]
) -> None:
    todo = plan(running, wanted)
    fates = (*todo.start, *todo.stop, *todo.replace, *todo.keep)
    assert len(fates) == len(set(fates))
