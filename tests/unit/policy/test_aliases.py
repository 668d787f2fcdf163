"""Aliases of downstream tools that every model API accepts (contract §6)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.policy.aliases import alias_of, impersonates_server, qualified_name
from tests.support.tables import each_row

LEGAL = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")

server_ids = st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True)
tool_names = st.text(st.characters(), min_size=1, max_size=300) | st.text(
    st.sampled_from("ab_:-."), min_size=1, max_size=8
)
pairs = st.tuples(server_ids | st.text(st.sampled_from("ab_"), min_size=1, max_size=5), tool_names)


def is_hashed(alias: str) -> bool:
    return "__" not in alias and re.search(r"(^|_)[0-9a-f]{8}$", alias) is not None


@each_row(
    ("server_id", "tool", "alias"),
    [
        ("notes", "search", "notes__search"),
        ("a-b", "c_d", "a-b__c_d"),
        ("a", "b__c", "a__b__c"),
        ("a", "_b", "a___b"),
        ("s" * 20, "t" * 42, "s" * 20 + "__" + "t" * 42),
    ],
)
def test_only_the_colon_is_replaced_if_the_rest_is_legal(
    server_id: str, tool: str, alias: str
) -> None:
    assert alias_of(server_id, tool) == alias


@each_row(
    ("server_id", "tool", "readable"),
    [
        ("a__b", "c", "a_b_c_"),
        ("a_", "c", "a_c_"),
        ("my.server", "do it", "my_server_do_it_"),
        ("a", "b:c", "a_b_c_"),
        ("a", "искать", "a_"),
        ("s" * 64, "t" * 64, "s" * 24 + "_" + "t" * 30 + "_"),
        ("s" * 20, "t" * 43, "s" * 20 + "_" + "t" * 30 + "_"),
        ("s", "t" * 300, "s_" + "t" * 30 + "_"),
    ],
)
def test_other_pairs_get_a_truncated_name_and_a_hash(
    server_id: str, tool: str, readable: str
) -> None:
    alias = alias_of(server_id, tool)
    assert (alias[:-8], is_hashed(alias)) == (readable, True)


def test_an_alias_is_the_same_in_every_process() -> None:
    assert alias_of("a", "b:c") == "a_b_c_041f34b9"


@given(server_ids, tool_names)
def test_every_alias_is_legal_for_model_apis(server_id: str, tool: str) -> None:
    assert LEGAL.fullmatch(alias_of(server_id, tool))


@given(pairs, pairs)
def test_different_pairs_never_share_a_name_or_an_alias(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    same = one == other
    assert (qualified_name(*one) == qualified_name(*other)) == same
    assert (alias_of(*one) == alias_of(*other)) == same


@given(server_ids, tool_names)
def test_a_plain_alias_never_equals_a_hashed_one(server_id: str, tool: str) -> None:
    alias = alias_of(server_id, tool)
    assert alias == f"{server_id}__{tool}" or is_hashed(alias)


@given(pairs, st.data())
def test_a_pair_cannot_reproduce_the_alias_of_another_pair(
    one: tuple[str, str], data: st.DataObject
) -> None:
    alias = alias_of(*one)
    place = data.draw(st.integers(1, len(alias) - 1))
    other = (alias[:place].rstrip("_") or "x", alias[place:].lstrip("_") or "x")
    assert (alias_of(*other) == alias) == (other == one)


@pytest.mark.requirement("A-19")
@each_row(
    ("kind", "name", "impersonates"),
    [
        (Kind.TOOL, "search", False),
        (Kind.TOOL, "c:search", True),
        (Kind.TOOL, "a__search", True),
        (Kind.TOOL, "c__search", False),
        (Kind.TOOL, "a_search", False),
        (Kind.TOOL, "a", False),
        (Kind.PROMPT, "a:hello", True),
        (Kind.PROMPT, "b:hello", False),
        (Kind.PROMPT, "c:hello", False),
        (Kind.PROMPT, "a", False),
        (Kind.RESOURCE, "a:note://1", True),
        (Kind.RESOURCE, "b:note://1", False),
        (Kind.RESOURCE, "c:note://1", False),
        (Kind.RESOURCE, "a:note", False),
        (Kind.RESOURCE, "a://host:80/1", False),
    ],
)
def test_a_name_of_one_server_cannot_look_like_one_of_another(
    kind: Kind, name: str, *, impersonates: bool
) -> None:
    assert impersonates_server(kind, "b", name, {"a", "b"}) is impersonates
