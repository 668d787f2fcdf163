import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.domain.logins import LoginOwner
from mcp_tools_proxy.domain.server import LoginFor
from mcp_tools_proxy.storage.logins.file_logins import FileLogins
from mcp_tools_proxy.storage.logins.login_store import LoginStore, StoredLogin
from mcp_tools_proxy.storage.logins.postgres_logins import PostgresLogins
from tests.support.bounds import BOUND_S
from tests.support.postgres_databases import Databases
from tests.support.stored_logins import (
    ACME,
    ANA,
    BINDING,
    DEPLOYMENT,
    GLOBEX,
    SEALER,
    make_login,
)

OpenLogins = Callable[[], LoginStore]
"""Opens another store over the same logins, as another replica does."""

ODD_IDS = (
    "Ана",
    "a\x00b",
    "\ud83d",
    "\ud83d\ude00",
    "\U0001f600",
    "../../etc/passwd",
    "a/b",
    '","',
    "a" * 10_000,
    "\ufdd00",
    " ",
)


@pytest.fixture(params=["folder", "postgres"])
async def open_logins(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases
) -> AsyncIterator[OpenLogins]:
    if request.param == "folder":
        yield lambda: FileLogins(tmp_path / "logins")
        return
    url = (await databases.new()).url
    opened: list[Database] = []

    def open_one() -> LoginStore:
        opened.append(Database(url, timeout_s=BOUND_S))
        return PostgresLogins(opened[-1])

    yield open_one
    for database in opened:
        await database.close()


@pytest.fixture
def logins(open_logins: OpenLogins) -> LoginStore:
    return open_logins()


def with_id(field: str, value: str) -> LoginOwner:
    changed: Any = {field: value}
    return replace(ANA, **changed)


async def put(logins: LoginStore, owner: LoginOwner = ANA, sealed: bytes = b"one") -> StoredLogin:
    return await logins.put(owner, BINDING, sealed)


async def test_no_login_exists_before_a_sign_in(logins: LoginStore) -> None:
    assert await logins.find(ANA) is None
    assert await logins.owners("acme") == []
    async with logins.lease(ANA) as leased:
        assert leased is None


@pytest.mark.parametrize("owner", [ANA, ACME, DEPLOYMENT], ids=lambda it: it.login_for.value)
async def test_a_stored_login_is_found_by_every_replica(
    open_logins: OpenLogins, owner: LoginOwner
) -> None:
    login = make_login(owner, access_token="a" * 16_384, refresh_token="r" * 16_384)
    written = await put(open_logins(), owner, SEALER.seal(login))

    found = await open_logins().find(owner)
    assert found == written
    assert SEALER.open(found.sealed, owner, found.binding) == login


async def test_a_new_sign_in_replaces_the_old_one(logins: LoginStore) -> None:
    first = await put(logins)
    sent = await logins.replace(first, b"one", refresh_sent=True)
    other = replace(BINDING, client_id="other")
    second = await logins.put(ANA, other, b"two")

    assert await logins.find(ANA) == second
    assert (second.binding, second.sealed, second.refresh_sent) == (other, b"two", False)
    assert sent is not None
    assert len({first.version, sent.version, second.version}) == 3


async def test_a_login_is_replaced_only_with_its_version(logins: LoginStore) -> None:
    first = await put(logins)
    second = await logins.replace(first, b"two", refresh_sent=True)

    assert second == await logins.find(ANA)
    assert second is not None
    assert (second.sealed, second.refresh_sent) == (b"two", True)
    assert await logins.replace(first, b"three") is None
    assert await logins.find(ANA) == second


async def test_only_one_of_two_replicas_replaces_a_login(open_logins: OpenLogins) -> None:
    first = await put(open_logins())
    replicas = [open_logins() for _ in range(4)]
    done = await asyncio.gather(
        *(it.replace(first, b"of %d" % number) for number, it in enumerate(replicas))
    )

    (written,) = [it for it in done if it is not None]
    assert await replicas[0].find(ANA) == written


async def test_a_removed_login_is_not_restored(logins: LoginStore) -> None:
    first = await put(logins)

    assert await logins.remove(first)
    assert await logins.find(ANA) is None
    assert await logins.replace(first, b"two") is None
    assert not await logins.remove(first)
    assert await logins.find(ANA) is None


async def test_a_late_answer_does_not_replace_the_next_sign_in(logins: LoginStore) -> None:
    first = await put(logins)
    await logins.remove(first)
    second = await put(logins)

    assert await logins.replace(first, b"late") is None
    assert not await logins.remove(first)
    assert await logins.find(ANA) == second


@pytest.mark.parametrize("field", ["server_id", "tenant_id", "user_id", "user_issuer"])
async def test_each_id_has_a_separate_login(logins: LoginStore, field: str) -> None:
    owners = [with_id(field, it) for it in ODD_IDS]
    for number, owner in enumerate(owners):
        await put(logins, owner, b"of %d" % number)

    found = [await logins.find(owner) for owner in owners]
    assert [None if it is None else (it.owner, it.sealed) for it in found] == [
        (owner, b"of %d" % number) for number, owner in enumerate(owners)
    ]


async def test_a_login_for_one_owner_is_not_found_for_another(logins: LoginStore) -> None:
    owners = (
        *(ANA, ACME, GLOBEX, DEPLOYMENT),
        replace(ANA, user_id="bob"),
        replace(ANA, user_issuer="https://other.example"),
        replace(ANA, tenant_id="globex"),
        replace(ANA, server_id="files"),
    )
    for owner in owners:
        assert await logins.find(owner) is None
        await put(logins, owner, owner.server_id.encode())


async def test_the_owners_of_one_tenant_are_listed(open_logins: OpenLogins) -> None:
    logins, bob = open_logins(), replace(ANA, user_id="bob")
    files = [replace(it, server_id="files") for it in (ANA, DEPLOYMENT)]
    odd = replace(ANA, tenant_id="\ud83d")
    for owner in (DEPLOYMENT, bob, ANA, ACME, GLOBEX, *files, odd):
        await put(logins, owner)

    other = open_logins()
    assert await other.owners("acme") == [files[0], ACME, ANA, bob]
    assert await other.owners("acme", server_id="wiki") == [ACME, ANA, bob]
    assert await other.owners("globex") == [GLOBEX]
    assert await other.owners("") == [files[1], DEPLOYMENT]
    assert await other.owners("\ud83d") == [odd]
    assert await other.owners("initech") == []


async def test_an_impossible_owner_is_refused(logins: LoginStore) -> None:
    """A user without a tenant would be among the logins of the deployment."""
    with pytest.raises(ValueError, match="a login has a tenant"):
        await put(logins, LoginOwner(server_id="wiki", login_for=LoginFor.USER, user_id="ana"))
    assert await logins.owners("") == []


async def test_a_lease_has_one_holder_across_all_replicas(open_logins: OpenLogins) -> None:
    await put(open_logins())
    holders, most = 0, 0

    async def renew(logins: LoginStore) -> None:
        nonlocal holders, most
        async with logins.lease(ANA, wait_s=BOUND_S) as leased:
            assert leased is not None
            holders += 1
            most = max(most, holders)
            count = int(leased.sealed) if leased.sealed.isdigit() else 0
            assert await logins.replace(leased, b"%d" % (count + 1)) is not None
            holders -= 1

    replicas = [open_logins() for _ in range(3)]
    await asyncio.gather(*(renew(it) for it in replicas * 3))
    found = await replicas[0].find(ANA)
    assert found is not None
    assert (most, found.sealed) == (1, b"9")


async def test_waiters_for_a_renewal_read_the_new_login(open_logins: OpenLogins) -> None:
    renewing, waiting = open_logins(), open_logins()
    await put(renewing)
    has_lease = asyncio.Event()

    async def wait() -> StoredLogin | None:
        await has_lease.wait()
        async with waiting.lease(ANA, wait_s=BOUND_S) as leased:
            return leased

    waiter = asyncio.ensure_future(wait())
    async with renewing.lease(ANA) as leased:
        assert leased is not None
        has_lease.set()
        with pytest.raises(LoginsUnavailable, match="being renewed"):
            async with waiting.lease(ANA, wait_s=0):
                pytest.fail("two hold the lease")
        newer = await renewing.replace(leased, b"two")
    assert await waiter == newer


async def test_a_wait_within_one_replica_ends_as_well(logins: LoginStore) -> None:
    await put(logins)
    async with logins.lease(ANA):
        with pytest.raises(LoginsUnavailable, match="being renewed"):
            async with logins.lease(ANA, wait_s=0):
                pytest.fail("two hold the lease")
    async with logins.lease(ANA, wait_s=0) as leased:
        assert leased is not None


async def test_only_a_renewal_waits_for_a_lease(open_logins: OpenLogins) -> None:
    holder, other = open_logins(), open_logins()
    await put(holder)
    bob = replace(ANA, user_id="bob")
    await put(holder, bob)
    async with holder.lease(ANA) as leased:
        assert leased is not None
        assert await other.find(ANA) == leased
        async with other.lease(bob, wait_s=0) as of_bob:
            assert of_bob is not None
        signed_in = await put(other, ANA, b"two")
        assert await holder.replace(leased, b"late") is None
        assert await other.remove(signed_in)
    assert await other.find(ANA) is None


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_lease_ends_if_its_holder_fails(
    open_logins: OpenLogins, *, is_cancelled: bool
) -> None:
    logins, other = open_logins(), open_logins()
    await put(logins)
    has_lease = asyncio.Event()

    async def fail() -> None:
        async with logins.lease(ANA):
            has_lease.set()
            if not is_cancelled:
                raise RuntimeError("on purpose")
            await asyncio.Event().wait()

    failing = asyncio.ensure_future(fail())
    await has_lease.wait()
    if is_cancelled:
        failing.cancel()
    with pytest.raises((RuntimeError, asyncio.CancelledError)):
        await failing
    async with other.lease(ANA, wait_s=0) as leased:
        assert leased is not None


async def test_a_cancelled_waiter_holds_nothing(open_logins: OpenLogins) -> None:
    holder, other = open_logins(), open_logins()
    await put(holder)

    async def wait() -> None:
        async with other.lease(ANA, wait_s=BOUND_S):
            pytest.fail("two hold the lease")

    async with holder.lease(ANA):
        waiters = [asyncio.ensure_future(wait()) for _ in range(3)]
        for waiter in waiters:
            await asyncio.sleep(0)
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
    async with other.lease(ANA, wait_s=BOUND_S) as leased:
        assert leased is not None


async def test_returned_values_do_not_show_sealed_data(logins: LoginStore) -> None:
    stored = await put(logins, ANA, b"sealed bytes")
    assert "sealed bytes" not in f"{stored!r} {logins!r}"
