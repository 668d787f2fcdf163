from dataclasses import field, replace

from mcp_tools_proxy.domain.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@dataclass(frozen=True, kw_only=True)
class Login:
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, repr=False)
class Key:
    secret: str


@dataclass(slots=True)
class Counter:
    value: int = 0


def test_equal_values_have_equal_hashes() -> None:
    assert {Point(1), Point(1, 0), replace(Point(2), x=1)} == {Point(1)}


def test_a_mutable_dataclass_is_not_hashable() -> None:
    assert Counter.__hash__ is None


def test_texts_leave_out_hidden_fields() -> None:
    assert repr(Login(user="jo", password="x-1")) == "Login(user='jo')"
    assert "x-1" not in repr(Key("x-1"))
