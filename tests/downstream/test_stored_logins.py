import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_tools_proxy.domain.logins import LoginBinding
from mcp_tools_proxy.downstream.oauth.login_renewal import LoginNeeded, StoredLogins
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthWeb
from mcp_tools_proxy.storage.logins.file_logins import FileLogins
from mcp_tools_proxy.storage.logins.login_sealer import LoginSealer
from mcp_tools_proxy.storage.logins.login_store import sealed_with
from mcp_tools_proxy.storage.record_cipher import RecordCipher
from tests.support.stored_logins import ACME, ANA, BINDING, KEY, SEALER, make_login

NEW_KEY = b"another key of at least thirty-two characters"
LONG_AFTER = 2_000_000.0
"""A time after the login's token expired."""


async def check(
    logins: StoredLogins,
    *,
    issuer: str | None = None,
    resource: str | None = None,
    client_id: str | None = None,
) -> str:
    try:
        await logins.check(ANA, issuer=issuer, resource=resource, client_id=client_id)
    except LoginNeeded:
        return "needed"
    return "found"


def stored_logins(folder: Path, now: float = 0.0, sealer: LoginSealer = SEALER) -> StoredLogins:
    return StoredLogins(OAuthWeb(), FileLogins(folder), sealer, lambda: now)


async def test_a_login_is_found_by_its_owner(tmp_path: Path) -> None:
    logins = stored_logins(tmp_path)
    assert await check(logins) == "needed"
    await logins.keep(make_login())
    assert await check(logins) == "found"
    assert await check(stored_logins(tmp_path, sealer=LoginSealer([b"another key"]))) == "needed"


@pytest.mark.parametrize(
    ("bound", "found"),
    [
        (BINDING, "found"),
        (replace(BINDING, resource="https://other.example/mcp"), "needed"),
        (replace(BINDING, issuer="https://evil.example"), "needed"),
        (replace(BINDING, client_id="another"), "needed"),
    ],
)
async def test_a_login_for_another_binding_is_not_used(
    tmp_path: Path, bound: LoginBinding, found: str
) -> None:
    logins = stored_logins(tmp_path)
    await logins.keep(make_login(binding=bound))
    wanted = {"issuer": BINDING.issuer, "resource": BINDING.resource, "client_id": "gateway"}
    assert await check(logins, **wanted) == found
    assert await FileLogins(tmp_path).find(ANA) is not None


async def test_an_expired_login_is_valid_while_it_can_be_renewed(tmp_path: Path) -> None:
    late = stored_logins(tmp_path, LONG_AFTER)
    await late.keep(make_login())
    assert await check(late) == "found"
    stored = await FileLogins(tmp_path).find(ANA)
    assert stored is not None
    await FileLogins(tmp_path).replace(stored, stored.sealed, refresh_sent=True)
    assert await check(late) == "needed"
    assert await check(stored_logins(tmp_path)) == "found"
    await late.keep(make_login(refresh_token=None))
    assert await check(late) == "needed"


async def test_logins_are_resealed_with_the_first_key_and_state_their_key(
    tmp_path: Path,
) -> None:
    await stored_logins(tmp_path).keep(make_login())
    await stored_logins(tmp_path).keep(make_login(ACME))
    rotated = stored_logins(tmp_path, sealer=LoginSealer([NEW_KEY, KEY]))
    assert [it.is_of_first_key for it in await rotated.facts("acme")] == [False, False]
    before = await FileLogins(tmp_path).find(ANA)
    assert before is not None
    await FileLogins(tmp_path).replace(before, before.sealed, refresh_sent=True)
    await rotated.reseal("acme")
    assert [it.is_of_first_key for it in await rotated.facts("acme")] == [True, True]
    after = await FileLogins(tmp_path).find(ANA)
    assert after is not None
    assert after.refresh_sent  # otherwise the refresh token would be sent twice
    only_new = stored_logins(tmp_path, sealer=LoginSealer([NEW_KEY]))
    assert only_new.open(after) == make_login()


async def test_a_login_that_no_key_opens_is_left_unchanged(tmp_path: Path) -> None:
    await stored_logins(tmp_path).keep(make_login())
    other = stored_logins(tmp_path, sealer=LoginSealer([NEW_KEY]))
    await other.reseal("acme")
    assert [it.signed_in_at for it in await other.facts("acme")] == [None]
    assert await check(stored_logins(tmp_path)) == "found"


async def test_a_renewal_in_progress_is_waited_for(tmp_path: Path) -> None:
    await stored_logins(tmp_path).keep(make_login())
    rotated = stored_logins(tmp_path, sealer=LoginSealer([NEW_KEY, KEY]))
    store = FileLogins(tmp_path)
    async with asyncio.TaskGroup() as tasks, store.lease(ANA) as stored:
        assert stored is not None
        resealing = tasks.create_task(rotated.reseal("acme"))
        sent = await store.replace(stored, stored.sealed, refresh_sent=True)
        await asyncio.sleep(0)
        renewed = make_login(access_token="access-2")
        assert sent is not None
        assert await store.replace(sent, SEALER.seal(renewed)) is not None
        assert not resealing.done()
    (facts,) = await rotated.facts("acme")
    assert facts.is_of_first_key
    found = await store.find(ANA)
    assert found is not None
    assert rotated.open(found) == renewed


async def test_a_list_includes_newer_logins_and_a_users_list_only_their_own(
    tmp_path: Path,
) -> None:
    bob = replace(ANA, user_id="bob")
    sealed = RecordCipher([KEY]).encrypt(b'{"format": 2}', sealed_with(bob, BINDING))
    await FileLogins(tmp_path).put(bob, BINDING, sealed)
    logins = stored_logins(tmp_path)
    await logins.keep(make_login())
    assert [it.owner for it in await logins.facts("acme", user_id="ana")] == [ANA]
    assert [(it.owner, it.signed_in_at is None) for it in await logins.facts("acme")] == [
        (ANA, False),
        (bob, True),
    ]
