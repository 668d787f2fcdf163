"""Components matched by exclusions (A-01, A-05, A-15, A-18, A-19, A-20)."""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.policy.exclusions import NO_EXCLUSIONS, Exclusions, name_variants
from mcp_tools_proxy.wire.uris import MAX_DECODINGS
from tests.support.tables import each_row

words = st.text(st.sampled_from("ab:-/."), min_size=1, max_size=6)
names = words | st.text(min_size=1, max_size=20)
server_ids = st.sampled_from(["a", "a-b", "tool", "prompt"]) | st.none()
components = st.tuples(st.sampled_from(Kind), server_ids, names)
entries = st.lists(
    names | components.map(lambda it: list(name_variants(*it))[-1]) | st.just("tool:a:x"),
    max_size=4,
)


@pytest.mark.requirement("A-05", "A-18")
@each_row(
    ("entry", "hit"),
    [
        ("x", ["tool a", "prompt a", "resource a", "tool a-b", "tool None"]),
        ("tool:x", ["tool a", "tool a-b", "tool None"]),
        ("prompt:x", ["prompt a"]),
        ("resource:x", ["resource a"]),
        ("a:x", ["tool a", "prompt a", "resource a"]),
        ("tool:a:x", ["tool a"]),
        ("tool:a-b:x", ["tool a-b"]),
        ("resource:a:x", ["resource a"]),
        ("X", []),
        ("x ", []),
        ("a:", []),
        ("a", []),
        ("-b:x", []),
        ("Tool:x", []),
        ("tools:x", []),
        ("tool:prompt:x", []),
        ("*", []),
        ("", []),
    ],
)
def test_an_entry_matches_components_in_its_spelling(entry: str, hit: list[str]) -> None:
    excluded = Exclusions([entry])
    offered: list[tuple[Kind, str | None]] = [(kind, "a") for kind in Kind]
    offered += [(Kind.TOOL, "a-b"), (Kind.TOOL, None)]
    found = [f"{k.value} {s}" for k, s in offered if excluded.matches(k, s, "x")]
    assert found == hit


@pytest.mark.requirement("A-15")
@given(components)
def test_without_entries_nothing_is_excluded(component: tuple[Kind, str | None, str]) -> None:
    _, server_id, name = component
    assert not NO_EXCLUSIONS.matches(*component)
    assert not NO_EXCLUSIONS.matches_uri(server_id, name)


@pytest.mark.requirement("A-18", "A-19")
@given(components, components)
def test_the_full_spelling_matches_only_that_component(
    one: tuple[Kind, str | None, str], other: tuple[Kind, str | None, str]
) -> None:
    *_, longest = name_variants(*one)
    excluded = Exclusions([longest])
    assert excluded.matches(*one)
    assert excluded.matches(*other) == (longest in list(name_variants(*other)))


@pytest.mark.requirement("A-14")
@given(entries, entries, components)
def test_another_entry_never_reverts_an_exclusion(
    some: list[str], more: list[str], component: tuple[Kind, str | None, str]
) -> None:
    _, server_id, name = component
    one, both = Exclusions(some), Exclusions([*some, *more])
    assert one.matches(*component) <= both.matches(*component)
    assert one.matches_uri(server_id, name) <= both.matches_uri(server_id, name)


@pytest.mark.requirement("A-20")
@given(entries, server_ids, names)
def test_an_excluded_resource_is_also_excluded_by_uri(
    some: list[str], server_id: str | None, uri: str
) -> None:
    excluded = Exclusions(some)
    assert excluded.matches(Kind.RESOURCE, server_id, uri) <= excluded.matches_uri(server_id, uri)


@st.composite
def respelt(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a URI and another spelling of it."""
    uri = "raw://" + draw(st.text(st.sampled_from("abC1é%~_-/ "), min_size=1, max_size=12))
    uri = uri.replace("%", "%25")
    steps: list[Callable[[str], str]] = [
        lambda it: quote(it, safe="%:/?#;=&"),
        lambda it: "".join(f"%{byte:02X}" for byte in it.encode()),
        str.upper,
        str.lower,
        lambda it: it.replace("/", "//"),
        lambda it: it.replace("/", "\\"),
        lambda it: it + "/",
        lambda it: it + "?x=1",
        lambda it: it + "#f",
        lambda it: it + ";v=1",
    ]
    other = uri
    own = 2  # decodings possible for the URI itself: %2511 is %11
    for step in draw(st.lists(st.sampled_from(steps), max_size=MAX_DECODINGS - own)):
        other = step(other)
    return uri, other


@pytest.mark.requirement("A-20")
@given(respelt(), st.sampled_from(["{}", "a:{}", "resource:{}", "resource:a:{}"]))
def test_an_excluded_uri_is_matched_in_other_spellings(spelt: tuple[str, str], entry: str) -> None:
    uri, other = spelt
    assert Exclusions([entry.format(uri)]).matches_uri("a", other)


@pytest.mark.requirement("A-20")
@each_row(
    "uri", ["raw://secrets", "raw://secre", "raw://x/secret", "raw://secret/x", "web://secret", ""]
)
def test_another_uri_is_not_excluded(uri: str) -> None:
    assert not Exclusions(["raw://secret"]).matches_uri("a", uri)


@pytest.mark.requirement("A-19", "A-20")
@each_row("server_id", ["a", "a-b-c", "b", None])
def test_an_entry_of_one_server_does_not_exclude_a_uri_of_another(server_id: str | None) -> None:
    assert not Exclusions(["a-b:raw://x", "tool:raw://x"]).matches_uri(server_id, "raw://x")


def test_the_order_of_entries_is_irrelevant() -> None:
    one, other = Exclusions(["x", "y"]), Exclusions(["y", "x", "y"])
    assert (one, hash(one), bool(one)) == (other, hash(other), True)
