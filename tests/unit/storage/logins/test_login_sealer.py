"""Sealed logins can be opened only with our keys, owner and binding."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.domain.logins import LoginBinding, LoginOwner
from mcp_tools_proxy.domain.server import Grant, LoginFor
from mcp_tools_proxy.storage.logins.login_sealer import LoginSealer
from mcp_tools_proxy.storage.logins.login_store import sealed_with
from mcp_tools_proxy.storage.record_cipher import RecordCipher
from tests.support.stored_logins import ACME, ANA, BINDING, DEPLOYMENT, KEY, SEALER, make_login
from tests.support.tables import each_row

TEXTS = st.one_of(
    st.text(max_size=4),
    st.text(
        '\ud83d\ude00😀",\\[]\x00é', max_size=4
    ),  # values that could be confused with other texts
)
NAMES = TEXTS.filter(bool)
OWNERS = st.one_of(
    st.builds(LoginOwner, server_id=TEXTS, login_for=st.just(LoginFor.DEPLOYMENT)),
    st.builds(LoginOwner, server_id=TEXTS, login_for=st.just(LoginFor.TENANT), tenant_id=NAMES),
    st.builds(
        LoginOwner,
        server_id=TEXTS,
        login_for=st.just(LoginFor.USER),
        tenant_id=NAMES,
        user_id=NAMES,
        user_issuer=TEXTS,
    ),
)
BINDINGS = st.builds(
    LoginBinding, resource=TEXTS, issuer=TEXTS, client_id=TEXTS, grant=st.sampled_from(Grant)
)


@each_row(
    "login",
    [
        make_login(),
        make_login(DEPLOYMENT, expires_at=None, refresh_token=None, scopes=(), client_secret=None),
        make_login(ACME, token_endpoint_auth_method=None, account=None),
        make_login(access_token="a" * 16_384, refresh_token="r" * 16_384, account="Ана 😀\x00"),
    ],
)
def test_a_sealed_login_round_trips(login: Any) -> None:
    assert SEALER.open(SEALER.seal(login), login.owner, login.binding) == login


def test_a_sealed_login_does_not_contain_plain_text() -> None:
    sealed = SEALER.seal(make_login())
    assert [it for it in (b"access-1", b"refresh-1", b"secret-1", b"ana") if it in sealed] == []


def test_sealing_a_login_twice_gives_different_results() -> None:
    assert len({SEALER.seal(make_login())[:12] for _ in range(100)}) == 100


@each_row(
    "owner",
    [
        replace(ANA, server_id="other"),
        replace(ANA, tenant_id="globex"),
        replace(ANA, user_id="bob"),
        replace(ANA, user_issuer="https://other.example"),
        replace(ANA, login_for=LoginFor.TENANT, user_id="", user_issuer=""),
        replace(ANA, tenant_id="acm", user_id="eana"),
    ],
)
def test_a_login_does_not_open_for_another_owner(owner: LoginOwner) -> None:
    assert SEALER.open(SEALER.seal(make_login()), owner, BINDING) is None


@each_row(
    "binding",
    [
        replace(BINDING, resource="https://wiki.example/"),
        replace(BINDING, issuer="https://other.example"),
        replace(BINDING, client_id="other"),
        replace(BINDING, grant=Grant.CLIENT_CREDENTIALS),
        replace(BINDING, resource=BINDING.issuer, issuer=BINDING.resource),
    ],
)
def test_a_login_does_not_open_with_an_entry_that_has_changed(binding: LoginBinding) -> None:
    assert SEALER.open(SEALER.seal(make_login()), ANA, binding) is None


@given(OWNERS, BINDINGS, OWNERS, BINDINGS)
def test_different_owners_and_bindings_have_different_associated_data(
    owner: LoginOwner, binding: LoginBinding, other: LoginOwner, other_binding: LoginBinding
) -> None:
    are_equal = (owner, binding) == (other, other_binding)
    assert (sealed_with(owner, binding) == sealed_with(other, other_binding)) is are_equal


def test_surrogate_halves_are_a_different_id_than_the_character() -> None:
    halves, whole = (replace(ANA, user_id=it) for it in ("\ud83d\ude00", "\U0001f600"))
    assert SEALER.open(SEALER.seal(make_login(halves)), whole, BINDING) is None


def test_the_first_key_seals_and_all_keys_open() -> None:
    older, newer = b"an older key of the gateway, long enough", b"its newer key, which is as long"
    both = LoginSealer([newer, older])
    login = make_login()
    assert both.open(LoginSealer([older]).seal(login), ANA, BINDING) == login
    assert LoginSealer([newer]).open(both.seal(login), ANA, BINDING) == login
    assert LoginSealer([older]).open(both.seal(login), ANA, BINDING) is None


@each_row("sealed", [b"", b"short", b"x" * 100])
def test_malformed_data_cannot_be_opened(sealed: bytes) -> None:
    assert SEALER.open(sealed, ANA, BINDING) is None


def test_a_changed_byte_is_detected() -> None:
    sealed = bytearray(SEALER.seal(make_login()))
    sealed[-1] ^= 1
    assert SEALER.open(bytes(sealed), ANA, BINDING) is None


@each_row("content", [{"format": 2}, {"format": 1, "access_token": "access-1"}, []])
def test_a_login_of_a_newer_release_is_an_error_without_its_tokens(content: object) -> None:
    sealed = RecordCipher([KEY]).encrypt(json.dumps(content).encode(), sealed_with(ANA, BINDING))
    with pytest.raises(LoginsUnavailable) as refused:
        SEALER.open(sealed, ANA, BINDING)
    assert "newer release" in str(refused.value.reason)
    assert (refused.value.__cause__, refused.value.__context__) == (None, None)


def test_text_that_cannot_be_encoded_is_an_error_without_the_text() -> None:
    with pytest.raises(ValueError, match="cannot be encoded") as refused:
        SEALER.seal(make_login(access_token="access-\ud83d"))
    assert "access-" not in repr(refused.value)
    assert (refused.value.__cause__, refused.value.__context__) == (None, None)


@each_row(
    "owner",
    [
        replace(ANA, tenant_id=""),
        replace(ACME, tenant_id=""),
        replace(DEPLOYMENT, tenant_id="acme"),
        replace(ANA, user_id=""),
        replace(ACME, user_id="ana"),
    ],
)
def test_an_owner_with_missing_or_surplus_ids_is_refused(owner: LoginOwner) -> None:
    with pytest.raises(ValueError, match="a login has a"):
        SEALER.seal(make_login(owner))
