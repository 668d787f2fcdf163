"""Interface of login stores: one login per owner, changed by optimistic locking on its version.

Also contains the queue for leases, and owners and bindings as text.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field
from hashlib import sha256
from typing import Protocol
from weakref import WeakValueDictionary

from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.logins import LoginBinding, LoginOwner
from mcp_tools_proxy.domain.server import Grant, LoginFor

LEASE_S = 30.0
"""Seconds until the lease of a lost replica expires."""

LEASE_WAIT_S = LEASE_S + 5.0
"""Seconds that a renewal waits for another one; longer than a lost replica's lease."""

UNREADABLE = "the login for this server cannot be used now; try again later"
"""Message for callers if the store fails; the reason is logged."""

BUSY = "the login for this server is being renewed; try again in a few seconds"

POLL_S = 0.05
"""Seconds between two attempts to acquire a lease."""

_PURPOSE = "mcp-tools-proxy login, 1"
"""Prefix of the associated data of a login; no other encrypted data begins with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogin:
    """A login in a store: encrypted, with its binding in plain text.

    The plain binding is used to revoke a login that no longer matches its entry, at its issuer.
    ``LoginSealer`` decrypts the login only with this binding.
    """

    owner: LoginOwner
    binding: LoginBinding
    sealed: bytes = field(repr=False)
    version: str
    """Changes on each write; versions of removed logins are never reused."""
    refresh_sent: bool = False
    """Whether its refresh token was sent without a recorded result, possibly by a killed gateway.

    It is never sent again: an issuer treats that as theft and revokes the login.
    """


class LoginStore(Protocol):
    """Logins of owners. Methods raise LoginsUnavailable while the store fails.

    A refresh takes a ``lease``. If ``refresh_sent`` is set, the login is lost unless a late
    response arrives. Otherwise it calls ``replace`` with ``refresh_sent`` before it sends the
    token, then ``replace`` with the new login, or with the old one if the issuer certainly did not
    use the token.
    """

    async def find(self, owner: LoginOwner) -> StoredLogin | None:
        """Return the login of an owner, or None."""

    async def put(self, owner: LoginOwner, binding: LoginBinding, sealed: bytes) -> StoredLogin:
        """Write the login of a new sign-in, replacing the owner's previous one.

        Raises QuotaExceeded if the store has a quota; logins of the deployment are exempt.
        """

    async def replace(
        self, stored: StoredLogin, sealed: bytes, *, refresh_sent: bool = False
    ) -> StoredLogin | None:
        """Replace ``stored``; return None, without writing, if it has changed.

        Raises QuotaExceeded like ``put`` if the login grows: an issuer or server could otherwise
        increase stored logins by 64 kB each.
        """

    async def remove(self, stored: StoredLogin) -> bool:
        """Remove a login; return False, without removing, if it differs from ``stored``."""

    async def owners(self, tenant_id: str, *, server_id: str | None = None) -> Sequence[LoginOwner]:
        """Return the owners of one tenant's logins; "" is the deployment."""

    def lease(
        self, owner: LoginOwner, *, wait_s: float = LEASE_WAIT_S
    ) -> AbstractAsyncContextManager[StoredLogin | None]:
        """Hold the exclusive lease on a login across replicas, and return its current state.

        Yields None without a login. Waits for other holders; raises LoginsUnavailable after
        ``wait_s``. A lease blocks neither reads nor ``put`` and ``remove``: a holder whose lease
        expired fails at ``replace``.
        """


def is_growing(stored: StoredLogin, newer: StoredLogin) -> bool:
    """Return whether a tenant's login becomes larger."""
    return bool(stored.owner.tenant_id) and len(newer.sealed) > len(stored.sealed)


def new_version() -> str:
    """Return a unique random version."""
    return secrets.token_hex(16)


def sorted_owners(
    owners: Iterable[LoginOwner], tenant_id: str, server_id: str | None
) -> Sequence[LoginOwner]:
    """Return the owners of a tenant, optionally of one server, sorted by server and user."""
    return sorted(
        (
            owner
            for owner in owners
            if owner.tenant_id == tenant_id and server_id in (None, owner.server_id)
        ),
        key=lambda owner: (owner.server_id, owner.user_issuer, owner.user_id),
    )


class LeaseQueue:
    """Serializes lease attempts by owner key: per process and key, one waiter polls the shared
    store.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(
        self, key: bytes, attempt: Callable[[], Awaitable[bool]], *, wait_s: float
    ) -> AsyncIterator[None]:
        """Call ``attempt`` until it returns True, at most for ``wait_s``; then run the body.

        Others in this process wait for the body's end. Raises LoginsUnavailable on timeout.
        """
        lock = self._locks.get(key)
        if lock is None:
            self._locks[key] = lock = asyncio.Lock()
        ends = asyncio.get_running_loop().time() + wait_s
        try:
            async with asyncio.timeout(wait_s):
                await lock.acquire()
        except TimeoutError:
            raise _busy() from None
        try:
            await _until(attempt, ends)
            yield
        finally:
            lock.release()


async def _until(attempt: Callable[[], Awaitable[bool]], ends: float) -> None:
    while not await attempt():
        if asyncio.get_running_loop().time() >= ends:
            raise _busy()
        await asyncio.sleep(POLL_S)


def _busy() -> LoginsUnavailable:
    return LoginsUnavailable(BUSY, reason="another renewal of the login has not finished")


def owner_text(owner: LoginOwner) -> str:
    """Return a unique text for an owner. Raises ValueError for an invalid owner.

    The text is a JSON list; UTF-8 preserves lone surrogates. Escaped, two of them would equal the
    character that they encode together.
    """
    of_deployment = owner.login_for is LoginFor.DEPLOYMENT
    if of_deployment == bool(owner.tenant_id):
        raise ValueError("a login has a tenant if it is not the deployment's, and only then")
    if (owner.login_for is LoginFor.USER) != bool(owner.user_id):
        raise ValueError("a login has a user if it is a user's, and only then")
    return _text_of(_owner_fields(owner))


def owner_key(owner: LoginOwner) -> bytes:
    """Return the 32-byte key of an owner's login."""
    return sha256(encoded(owner_text(owner))).digest()


def binding_text(binding: LoginBinding) -> str:
    """Return a binding as text."""
    return _text_of(_binding_fields(binding))


def sealed_with(owner: LoginOwner, binding: LoginBinding) -> bytes:
    """Return the associated data of a login's encryption."""
    owner_text(owner)
    return encoded(_text_of([_PURPOSE, *_owner_fields(owner), *_binding_fields(binding)]))


def encoded(text: str) -> bytes:
    """Encode a text, including lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def decoded(content: bytes) -> str:
    """Decode the result of ``encoded``. Raises ValueError."""
    return content.decode("utf-8", "surrogatepass")


def owner_of_text(text: str) -> LoginOwner:
    """Return the owner in a text. Raises ValueError."""
    server_id, login_for, tenant_id, user_id, user_issuer = _fields_of(text, 5)
    return LoginOwner(
        server_id=server_id,
        login_for=LoginFor(login_for),
        tenant_id=tenant_id,
        user_id=user_id,
        user_issuer=user_issuer,
    )


def binding_of_text(text: str) -> LoginBinding:
    """Return the binding in a text. Raises ValueError."""
    resource, issuer, client_id, grant = _fields_of(text, 4)
    return LoginBinding(resource=resource, issuer=issuer, client_id=client_id, grant=Grant(grant))


def _owner_fields(owner: LoginOwner) -> list[str]:
    return [
        owner.server_id,
        owner.login_for.value,
        owner.tenant_id,
        owner.user_id,
        owner.user_issuer,
    ]


def _binding_fields(binding: LoginBinding) -> list[str]:
    return [binding.resource, binding.issuer, binding.client_id, binding.grant.value]


def _text_of(fields: Sequence[str]) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _fields_of(text: str, count: int) -> list[str]:
    fields = json.loads(text)
    is_list = isinstance(fields, list) and len(fields) == count
    if not is_list or not all(isinstance(it, str) for it in fields):
        raise ValueError(f"not a list of {count} texts")
    return list(fields)
