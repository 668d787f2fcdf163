"""A session id contains the session's parameters, readable only with a key."""

import secrets
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.list_options import ListOptions, SchemaStyle
from mcp_tools_proxy.mcp.server.handshake_session import Declared
from mcp_tools_proxy.mcp.server.http.session_ids import SessionIds
from mcp_tools_proxy.wire.mcp_protocol import HANDSHAKE_VERSIONS
from tests.support.tables import each_row
from tests.support.virtual_time import ManualClock

KEY, OTHER_KEY = (secrets.token_bytes(32) for _ in range(2))
CALLER = Caller(tenant_id="tenant_1", user_id="u", agent="reader")
PATH = "/mcp/agents/reader"
LISTS = b"list"


def declared(version: str = HANDSHAKE_VERSIONS[-1], **capabilities: Any) -> Declared:
    return Declared(version, capabilities)


def new_id(ids: SessionIds, about: Declared | None = None) -> bytes:
    return ids.create(about or declared(), CALLER, PATH, LISTS)[0]


@each_row("version", HANDSHAKE_VERSIONS)
@each_row(
    "capabilities",
    [
        {},
        {"roots": {}},
        {"roots": {"listChanged": True}, "sampling": {}},
        {"sampling": {"tools": {}, "context": {}}},
        {"elicitation": {"form": {}, "url": {}}},
    ],
)
def test_an_id_contains_the_declared_capabilities(
    version: str, capabilities: Mapping[str, Any]
) -> None:
    clock = ManualClock()
    ids = SessionIds([KEY], clock)
    session_id, name = ids.create(Declared(version, capabilities), CALLER, PATH, LISTS)
    clock.now += 5
    claims = ids.read(session_id, CALLER, PATH)
    assert claims is not None
    assert (claims.declared, claims.age_s, claims.lists, claims.name) == (
        Declared(version, capabilities),
        5,
        LISTS,
        name,
    )


STYLES = (None, *ToolNameStyle)


@each_row("style", STYLES)
def test_an_id_contains_the_naming_style_of_its_session(style: ToolNameStyle | None) -> None:
    session_id, _ = SessionIds([KEY]).create(
        declared(), CALLER, PATH, LISTS, ListOptions(name_style=style)
    )
    claims = SessionIds([KEY]).read(session_id, CALLER, PATH)
    assert claims is not None
    assert (claims.options.name_style, len(session_id)) == (style, 48)


def test_a_client_cannot_change_the_style_of_its_session() -> None:
    ids = SessionIds([KEY])
    first = {
        style: ids.create(declared(), CALLER, PATH, LISTS, ListOptions(name_style=style))[0][:2]
        for style in STYLES
    }
    session_id, _ = ids.create(
        declared(), CALLER, PATH, LISTS, ListOptions(name_style=ToolNameStyle.ALIAS)
    )
    changed = {style: ids.read(it + session_id[2:], CALLER, PATH) for style, it in first.items()}
    assert [style for style, claims in changed.items() if claims] == [ToolNameStyle.ALIAS]


@each_row(
    "options",
    [
        ListOptions(schemas=SchemaStyle.PLAIN),
        ListOptions(name_max=16),
        ListOptions(name_style=ToolNameStyle.BARE, schemas=SchemaStyle.ORIGINAL, name_max=64),
    ],
)
def test_an_id_contains_the_schema_and_alias_formats_of_its_session(options: ListOptions) -> None:
    session_id, _ = SessionIds([KEY]).create(declared(), CALLER, PATH, LISTS, options)
    claims = SessionIds([KEY]).read(session_id, CALLER, PATH)
    assert claims is not None
    assert (claims.options, len(session_id)) == (options, 52)
    flipped = bytes([session_id[28] ^ 1])
    assert SessionIds([KEY]).read(session_id[:28] + flipped + session_id[29:], CALLER, PATH) is None


def test_ids_of_the_previous_version_are_read_and_created_without_a_style() -> None:
    """Gateways of the previous version do not have styles and read only their own format."""
    old_id = b"AQMAAWlDBYBsaXN0vGuFZBJ-dZCOdIihZ5Zow-nYn0EpGagc"
    ids = SessionIds([b"k" * 32])
    claims = ids.read(old_id, CALLER, PATH)
    assert claims is not None
    assert (claims.declared.capabilities, claims.options.name_style) == ({"roots": {}}, None)
    assert new_id(ids)[:2] == old_id[:2]


def test_capabilities_that_servers_cannot_request_are_omitted() -> None:
    ids = SessionIds([KEY])
    about = declared(experimental={"x": {"y": 1}}, roots=None, sampling={"tools": False})
    claims = ids.read(new_id(ids, about), CALLER, PATH)
    assert claims is not None
    assert claims.declared.capabilities == {"sampling": {}}


def test_ids_are_short_unique_and_valid_in_a_header() -> None:
    ids = SessionIds([KEY])
    made = {new_id(ids) for _ in range(100)}
    assert (len(made), {len(id_) for id_ in made}) == (100, {48})
    assert all(id_.decode("ascii").isprintable() and b" " not in id_ for id_ in made)


@each_row(
    "other",
    [
        Caller(tenant_id="tenant_2", user_id="u", agent="reader"),
        Caller(tenant_id="tenant_1", user_id="v", agent="reader"),
        Caller(tenant_id="tenant_1", user_id="", agent="reader"),
        Caller(tenant_id="tenant_1", user_id="u", agent="writer"),
        Caller(tenant_id="tenant_1", user_id="u"),
    ],
)
def test_an_id_is_valid_only_for_its_caller(other: Caller) -> None:
    ids = SessionIds([KEY])
    session_id = new_id(ids)
    assert ids.read(session_id, other, PATH) is None
    assert ids.read(session_id, CALLER, PATH) is not None


def test_parts_of_a_caller_are_encoded_unambiguously() -> None:
    ids = SessionIds([KEY])
    session_id, _ = ids.create(declared(), Caller(tenant_id="a", user_id="bc"), PATH, LISTS)
    assert ids.read(session_id, Caller(tenant_id="ab", user_id="c"), PATH) is None


def test_an_id_is_valid_for_one_path() -> None:
    ids = SessionIds([KEY])
    assert ids.read(new_id(ids), CALLER, "/mcp") is None


def test_replicas_with_the_same_key_read_each_others_ids() -> None:
    assert SessionIds([KEY]).read(new_id(SessionIds([KEY])), CALLER, PATH) is not None


def test_an_old_key_is_accepted_while_it_is_configured() -> None:
    session_id = new_id(SessionIds([KEY]))
    assert SessionIds([OTHER_KEY, KEY]).read(session_id, CALLER, PATH) is not None
    assert SessionIds([OTHER_KEY]).read(session_id, CALLER, PATH) is None
    rotated = new_id(SessionIds([OTHER_KEY, KEY]))
    assert SessionIds([OTHER_KEY]).read(rotated, CALLER, PATH) is not None


def test_without_keys_ids_are_unknown_to_other_processes() -> None:
    ids = SessionIds([])
    session_id = new_id(ids)
    assert ids.read(session_id, CALLER, PATH) is not None
    assert SessionIds([]).read(session_id, CALLER, PATH) is None


@given(st.integers(0, 47), st.binary(min_size=1, max_size=1))
def test_an_altered_id_is_rejected(position: int, put: bytes) -> None:
    ids = SessionIds([KEY])
    session_id = new_id(ids)
    altered = session_id[:position] + put + session_id[position + 1 :]
    assert (ids.read(altered, CALLER, PATH) is not None) == (altered == session_id)


@given(st.one_of(st.binary(max_size=100), st.binary(min_size=48, max_size=48)))
def test_a_malformed_id_is_rejected(text: bytes) -> None:
    assert SessionIds([KEY]).read(text, CALLER, PATH) is None
