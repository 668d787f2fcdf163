import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mcp_tools_proxy.auth.token_format import (
    TokenEntry,
    dump_line,
    new_token,
    parse_line,
    read_lines,
    token_hash,
)
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.support.tables import each_row

HASH = "a1" * 32
MOMENT = datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC)


def line_of(**changes: Any) -> bytes:
    line = {"id": "t1", "sha256": HASH, "tenant": "acme", **changes}
    return json.dumps({key: value for key, value in line.items() if value != ...}).encode()


def test_a_minimal_line_is_a_token_for_any_agent_of_its_tenant() -> None:
    assert parse_line(line_of()).principal == Principal(tenant_id="acme")


def test_a_line_round_trips() -> None:
    principal = Principal(
        tenant_id="acme",
        user_id="u",
        roles=("r2", "r1"),
        agents=frozenset({"b", "a"}),
        rights=frozenset({OperatorRight.PRESETS, OperatorRight.AUDIT}),
    )
    entry = TokenEntry(
        id="t1", hash=HASH, principal=principal, created=MOMENT, expires=MOMENT, note="Größe\n"
    )
    assert parse_line(dump_line(entry)) == entry


def test_a_line_that_asserts_users_round_trips() -> None:
    line = line_of(asserts_users=True)
    entry = parse_line(line)
    assert entry.principal == Principal(tenant_id="acme", asserts_users=True)
    assert json.loads(dump_line(entry)) == json.loads(line)


@each_row("proven", [{"user": "u"}, {"roles": ["r"]}])
def test_a_line_that_asserts_users_cannot_name_a_user(proven: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="asserts_users: each request sets user and roles"):
        parse_line(line_of(asserts_users=True, **proven))


def test_a_token_has_at_most_a_hundred_roles() -> None:
    roles = tuple(f"r{n}" for n in range(100))
    assert parse_line(line_of(roles=roles)).principal.roles == roles
    with pytest.raises(ValueError, match="roles: should have 100 items or fewer"):
        parse_line(line_of(roles=[*roles, "one more"]))


@each_row(
    ("spelt", "moment"),
    [
        ("2027-01-02T03:04:05Z", MOMENT),
        ("2027-01-02T03:04:05", MOMENT),
        ("2027-01-02T05:04:05+02:00", MOMENT),
        ("2027-01-02", datetime(2027, 1, 2, tzinfo=UTC)),
    ],
)
def test_a_time_without_an_offset_is_read_as_utc(spelt: str, moment: datetime) -> None:
    assert parse_line(line_of(expires=spelt)).expires == moment


@each_row("hashed", [HASH, HASH.upper()])
def test_a_hash_is_case_insensitive(hashed: str) -> None:
    assert parse_line(line_of(sha256=hashed)).hash == HASH


@each_row(
    ("keys", "rights"),
    [
        ({"admin": True}, {OperatorRight.PRESETS}),
        ({"may": ["presets"]}, {OperatorRight.PRESETS}),
        ({"may": ["audit", "documents"]}, {OperatorRight.AUDIT, OperatorRight.DOCUMENTS}),
        ({"admin": True, "may": ["logins"]}, {OperatorRight.PRESETS, OperatorRight.LOGINS}),
    ],
)
def test_an_operator_has_the_named_rights_and_needs_no_tenant(
    keys: dict[str, object], rights: set[OperatorRight]
) -> None:
    principal = parse_line(line_of(tenant=..., **keys)).principal
    assert principal == Principal(tenant_id=None, rights=frozenset(rights))


def test_the_right_of_older_versions_keeps_their_format() -> None:
    principal = Principal(tenant_id=None, rights=frozenset({OperatorRight.PRESETS}))
    written = json.loads(dump_line(TokenEntry(id="t1", hash=HASH, principal=principal)))
    assert written == {"id": "t1", "sha256": HASH, "admin": True}


@each_row(
    "line",
    [
        b"{",
        b"[]",
        b"\xff",
        b'{"id": "t1", "sha256": "' + HASH[:40].encode(),
        line_of(id=...),
        line_of(id="two words"),
        line_of(sha256=...),
        line_of(sha256="short"),
        line_of(tenant=...),
        line_of(tenant=""),
        line_of(tenant="a\nb"),
        line_of(tenant=5),
        line_of(user=""),
        line_of(agents=[]),
        line_of(agents="one"),
        line_of(agents=[1]),
        line_of(agent="one"),
        line_of(admin="yes"),
        line_of(roles="editor"),
        line_of(roles=[""]),
        line_of(roles=["a\nb"]),
        line_of(roles=["x" * 257]),
        line_of(roles=[1]),
        line_of(role="editor"),
        line_of(asserts_users="yes"),
        line_of(asserts_users=1),
        line_of(asserts_user=True),
        line_of(may="documents"),
        line_of(may=["documents", "everything"]),
        line_of(may=["Documents"]),
        line_of(may=[1]),
        line_of(tenant=..., may=[]),
        line_of(expires="soon"),
        line_of(expires=5),
        line_of(expiers="2027-01-01"),
    ],
)
def test_a_line_with_an_invalid_or_unknown_key_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_line(line)


def test_a_line_with_a_duplicate_key_is_refused() -> None:
    line = line_of().replace(b'"tenant"', b'"tenant": "other", "tenant"')
    with pytest.raises(ValueError, match="tenant: appears twice"):
        parse_line(line)


def test_problems_do_not_contain_values() -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        parse_line(line_of(user=["hush"], note=7, sha256="hush"))
    assert "hush" not in str(caught.value)


def test_broken_lines_are_reported_by_number_and_the_others_are_kept() -> None:
    data = b"\xef\xbb\xbf# ours\n" + line_of() + b"\r\n\n{\n" + line_of(id="t2", sha256="b2" * 32)
    read = read_lines(data)
    assert ([entry.id for entry in read.entries], list(read.problems)) == (["t1", "t2"], [4])


@each_row("again", [line_of(id="t2", tenant="rival"), line_of(sha256="b2" * 32)])
def test_a_duplicate_token_or_id_is_a_problem(again: bytes) -> None:
    read = read_lines(b"\n".join([line_of(), again, line_of(id="t3", sha256="c3" * 32)]))
    kept = [(entry.id, entry.principal.tenant_id) for entry in read.entries]
    assert (kept, list(read.problems)) == ([("t1", "acme"), ("t3", "acme")], [2])


def test_a_new_token_has_the_prefix_and_a_hash() -> None:
    token = new_token()
    assert (token[:4], len(token), len(token_hash(token) or "")) == ("mtp_", 47, 64)


@each_row("text", ["", "mtp_", "hunter2", "mtp_" + "a" * 42, "mtp_" + "é" * 43])
def test_the_hash_of_a_malformed_token_is_none(text: str) -> None:
    assert token_hash(text) is None


def test_the_repr_does_not_contain_the_hash() -> None:
    assert HASH not in repr(parse_line(line_of()))
